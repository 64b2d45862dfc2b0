"""Copy an image with channels first to channels last, where its convolution gains more than that.

    %y = linalg.generic {convolution} ins(%x, %w)      reads (n, c, h + i, w + j)
  becomes
    %t = linalg.generic {copy} ins(%x)                 tensor<NxCxHxWxT> -> tensor<NxHxWxCxT>
    %y = linalg.generic {convolution} ins(%t, %w)      reads (n, h + i, w + j, c)

Root: a convolution with taps and without groups, of element types and loops that
`conv_triton_kernel` supports, whose image has its pixels innermost, without the zeros around it
and, of a transposed convolution, between its elements. IREE moves the transposes of an image that
has no `tensor.pad` through the convolution to its filter and its result, where they meet nothing. A
kernel then loads single elements, as taps shift rows of pixels, and tensor cores of Hopper read no
f32 that is contiguous along M; on a CPU windows are transformed with their channels in vectors, for
minimal filtering (`winograd_vector_kernel`), where there is no padding, whose image IREE copies
anyway. The copy pays where the modelled time of the kernel is shorter by
more than the image takes to be read and written. Static sizes; T f16, bf16, f32. Numerics: exact
(the same elements and accumulation).
Source: mlirfuse.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.builders import channels_last, convolution_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.kernels import passes
from mlirfuse.kernels.convolution.analysis import problem_alone
from mlirfuse.kernels.convolution.heuristics import gains_from_copied_image
from mlirfuse.kernels.convolution.problem import PACKED_CHANNELS
from mlirfuse.kernels.convolution_support import has_kernel
from mlirfuse.kernels.vector.winograd import plan
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import convolution_loops, convolutions, spread_images
from mlirfuse.structured.recognize.convolution_loops import ConvolutionLoops


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """The image of a convolution.

    Attributes:
      operand: index of the operand.
      pad: the op that puts zeros around or between its elements; None without one.
      source: the image without those zeros.
      order: its dimensions with the channels last.
    """

    operand: int
    pad: ir.Operation | None
    source: ir.Value
    order: tuple[int, ...]


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a convolution that is faster with a copy of its image."""
    if (
        ops.in_region(root)
        or not convolutions.is_convolution(root)
        or not has_kernel(root, ctx.target)
    ):
        return None
    loops = convolution_loops.classify(root)
    if not isinstance(loops, ConvolutionLoops) or loops.n_loop is None or loops.group_loops:
        return None
    rank, channels = len(loops.image_dims), loops.channel_loop
    place = next((d for d, dim in enumerate(loops.image_dims) if dim == ((channels, 1),)), None)
    if channels is None or place is None or place == rank - 1:
        return None
    image = root.operands[loops.image]
    pad = spread_images.producer(image, root)
    surrounds = () if pad is None else spread_images.surrounds(pad) or ()
    source = image if pad is None else pad.operands[0]
    problem = problem_alone(root, loops, surrounds)
    if problem is None or None in ops.shape(source) or not loops.tap_loops:
        return None
    if (cpu := ctx.target.cpu) is not None:
        if pad is not None:  # Its channels are last already, where that is possible.
            return None
        gains = plan.gains_from_copied_image(root, loops, cpu)
    elif problem.in_channels < PACKED_CHANNELS:
        return None
    else:
        gains = gains_from_copied_image(problem, ops.num_elements(source), ctx.target)
    if not gains:
        return NoMatch(Reason.NOT_PROFITABLE, "the copy of the image takes longer than it saves")
    order = (*(d for d in range(rank) if d != place), place)
    return Match(root, (root,), _Found(loops.image, pad, source, order))


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the copy and the convolution of it."""
    found: _Found = match.data
    with ir.InsertionPoint(found.pad or match.root), match.root.location:
        source = channels_last.transposed(found.source, found.order)
    return convolution_builder.with_image_order(
        match.root, found.operand, found.pad, source, found.order
    )


PASS = FusionPass(
    name="channels_last_rewrite",
    summary="Images of convolutions are copied to channels last where that pays",
    roots=("linalg.generic",),
    where=ops.is_generic,
    match=match,
    prepare=passes.needs_provider,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cpu", "cuda", "rocm"}),
    source="mlirfuse",
)
