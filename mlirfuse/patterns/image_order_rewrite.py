"""Read an image with channels last as it is in memory, in place of a transposed copy.

    %t = linalg.generic {copy} ins(%x)                 tensor<NxHxWxCxT> -> tensor<NxCxHxWxT>
    %p = tensor.pad %t                                 optional
    %g = tensor.expand_shape %p                        channels to groups, optional
    %y = linalg.generic {convolution} ins(%p, %w)      reads (n, c, h + i, w + j)
  becomes
    %q = tensor.pad %x
    %y = linalg.generic {convolution} ins(%q, %w)      reads (n, h + i, w + j, c)

Root: the convolution, of element types and loops that `conv_triton_kernel`, or on a CPU
`conv_vector_kernel`, supports, whose image is a transposed copy of a tensor whose last dimension is
that of channels or groups; kernels load adjacent channels together. PyTorch's `channels_last`
images and results of kernels with channels last are such tensors. IREE leaves the copy before a
depthwise convolution with channels first, and before a split of channels into groups. A tensor with
channels first is still copied to channels last, except on a GPU for a convolution with a single
output channel: its image is read once, as fast in either order, and so is its filter. The padding
is of the convolution alone. Static sizes; any element type. Numerics: exact (the same elements and
accumulation).
Source: mlirfuse.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.builders import convolution_builder
from mlirfuse.core import FusionPass, Kind, Match, PassContext
from mlirfuse.kernels import passes
from mlirfuse.kernels.convolution_support import has_kernel
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import convolution_loops, convolutions, spread_images
from mlirfuse.structured.recognize.convolution_loops import ConvolutionLoops


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """The image of a convolution.

    Attributes:
      operand: index of the operand.
      pad: its padding; None without one.
      split: the split of its channels into groups, behind the padding; None without one.
      source: the tensor that was copied.
      order: for each dimension of that tensor the one of the image.
      weights: the tensor that was copied for the filter, and the same of it; None without one.
    """

    operand: int
    pad: ir.Operation | None
    split: ir.Operation | None
    source: ir.Value
    order: tuple[int, ...]
    weights: tuple[ir.Value, tuple[int, ...]] | None = None


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Finds a convolution of a transposed copy of an image with channels last."""
    if (
        ops.in_region(root)
        or not convolutions.is_convolution(root)
        or not has_kernel(root, ctx.target)
    ):
        return None
    loops = convolution_loops.classify(root)
    if not isinstance(loops, ConvolutionLoops):
        return None
    image = root.operands[loops.image]
    split = ops.defining_op(image)
    if split is not None and split.name == "tensor.expand_shape" and ops.users(image) == [root]:
        groups, image = list(ops.reassociation(split)), split.operands[0]
    else:
        groups, split = [(d,) for d in range(len(ops.shape(image)))], None
    pad = spread_images.producer(image, split or root)
    if pad is not None:
        if pad.name != "tensor.pad" or (split and spread_images.split(pad, split) is None):
            return None
        image = pad.operands[0]
    copied = _copied(image)
    if copied is None or None in ops.shape(image):
        return None
    source, order = copied
    last = {loop for d in groups[order[-1]] for loop, _ in loops.image_dims[d]}
    single = ctx.target.cpu is None and loops.n_loop is None and not loops.group_loops
    if not single and not last <= {loops.channel_loop, *loops.group_loops}:
        return None
    weights = _copied(root.operands[loops.filter]) if single else None
    return Match(root, (root,), _Found(loops.image, pad, split, source, order, weights))


def _copied(value: ir.Value) -> tuple[ir.Value, tuple[int, ...]] | None:
    """The tensor of which a value is a transposed copy, and for each of its dimensions the value's.

    None where the value is no such copy.
    """
    copy = ops.defining_op(value)
    if copy is None or not ops.is_projection(copy) or ops.in_region(copy):
        return None
    read, written = ops.indexing_maps(copy)
    if read is None or written is None or set(read) != set(written) or None in read:
        return None
    order = tuple(written.index(loop) for loop in read)
    return None if order == tuple(range(len(order))) else (copy.operands[0], order)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the convolution of the tensor that was copied."""
    found: _Found = match.data
    new = convolution_builder.with_image_order(
        match.root, found.operand, found.pad, found.source, found.order, found.split
    )
    if found.weights is None:
        return new
    return convolution_builder.with_image_order(new, 1 - found.operand, None, *found.weights)


PASS = FusionPass(
    name="image_order_rewrite",
    summary="Convolutions read images with channels last, not transposed copies of them",
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
