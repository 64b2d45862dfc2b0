"""Group a convolution with its padding and the elementwise ops around it, for a kernel.

    %p = tensor.pad %x                                 optional
    %c = linalg.generic {convolution} ins(%p, %w)      tensor<NxHxWxFxf32>
    %s = linalg.generic {rsqrt, mulf} ins(%v, %g)      tensor<Fxf32>, optional
    %y = linalg.generic {mulf, addf, maximumf, truncf} ins(%c, %s, %b, %r)
  becomes
    %y = flow.dispatch.region { all of it }

Root: the convolution, or the contraction that a 1x1 convolution is, of element types and loops that
`conv_triton_kernel`, or on a CPU `conv_vector_kernel`, supports. The zeros of a transposed
convolution, which stand between the elements of its image, are a `tensor.insert_slice` of strides
and part of the region, as a padding is. Reshapes that split channels into groups and merge them
move out of the region. The elementwise epilogue is fused as long as only its last op has users
elsewhere, and so are computations on one scalar per channel that only the epilogue uses: batch norm
costs no dispatch of its own. Without the kernel IREE would compute the padding in the same
dispatch, which is slow, so nothing is grouped where Triton is missing. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.builders import form_region, grouped_convolutions
from mlirfuse.core import Kind, Match, NoMatch, PassContext
from mlirfuse.kernels import passes
from mlirfuse.kernels.convolution.analysis import refused_surround
from mlirfuse.kernels.convolution_support import has_kernel
from mlirfuse.kernels.vector.tiled import MAX_UNROLLED_TAPS
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize import convolution_loops, convolutions, spread_images
from mlirfuse.structured.recognize.convolution_loops import ConvolutionLoops
from mlirfuse.structured.recognize.convolutions import Epilogue


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """Parts of the region that its rewrite changes.

    Attributes:
      epilogue: the convolution and its epilogue.
      split: the split of the channels of an image that has zeros around it; None without one.
    """

    epilogue: Epilogue
    split: ir.Operation | None


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a convolution for which there is a kernel."""
    if not has_kernel(root, ctx.target):
        return None
    limit = ctx.target.max_operands
    found = convolutions.with_epilogue(root, limit, permutes=ctx.target.cpu is None)
    if found is None or not found.unmerges():
        found = Epilogue(tuple(convolutions.initial_broadcast(root)), root, None, ())
    pad, split = _zeros(root, ctx)
    around = [op for op in (pad, split) if op is not None]
    group = slices.in_order([*around, *found.ops])
    members = convolutions.with_channel_producers(group, limit)
    return Match(root, tuple(members), _Found(found, split))


def _zeros(root: ir.Operation, ctx: PassContext) -> tuple[ir.Operation | None, ir.Operation | None]:
    """The op that puts zeros around the image, and the split of its channels after that."""
    loops = convolution_loops.classify(root)
    assert isinstance(loops, ConvolutionLoops)
    taps = [ops.loop_sizes(root)[loop] or 0 for loop in loops.tap_loops]
    if ctx.target.cpu is not None and max(taps, default=0) > MAX_UNROLLED_TAPS:
        return None, None  # the kernel takes so many where no window reaches over the border
    image = root.operands[loops.image]
    expand = ops.defining_op(image)
    if expand is None or expand.name != "tensor.expand_shape":
        pad = spread_images.producer(image, root)
        found = None if pad is None else spread_images.surrounds(pad)
        expand = None
    else:
        alone = expand.block == root.block and ops.users(image) == [root]
        pad = spread_images.producer(expand.operands[0], expand) if alone else None
        found = None if pad is None else spread_images.split(pad, expand)
    if pad is None or found is None:
        return None, None
    inside = ops.shape(pad.operands[0])
    shape = inside if expand is None else ops.shape(image)
    return (pad, expand) if refused_surround(found, shape, loops) is None else (None, None)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Puts the ops into one dispatch region, over the loops of the convolution."""
    found: _Found = match.data
    group = list(match.ops)
    if found.split is not None:
        pad = ops.defining_op(found.split.operands[0])
        group = [op for op in group if op not in (pad, found.split)]
        group.append(grouped_convolutions.spread_before(found.split))
    return form_region(grouped_convolutions.over_groups(found.epilogue, group))


PASS = passes.group_pass(
    name="convolution_fusion",
    summary="Convolution with its padding and elementwise neighbors, for a kernel",
    roots=convolutions.ROOTS,
    match=match,
    rewrite=rewrite,
    kind=Kind.EPILOGUE,
    targets=frozenset({"cpu", "cuda", "rocm"}),
)
