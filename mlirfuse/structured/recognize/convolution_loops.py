"""Loops of a convolution as those of an implicit GEMM."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.structured.ir import ops, strided_access
from mlirfuse.structured.recognize.convolutions import is_convolution


@dataclasses.dataclass(frozen=True, slots=True)
class ConvolutionLoops:
    """Loops of a convolution, or of a contraction of an image and a filter.

    Attributes:
      image: index of the image operand.
      filter: index of the filter operand.
      m_loops: M loops, in the result's order: batch and output positions.
      n_loop: N loop: output channels, of one group; None with a single one.
      group_loops: loops over groups of channels, in the result's order; empty without groups.
      tap_loops: K loops over filter taps, in the filter's order.
      channel_loop: K loop over input channels; None with a single channel.
      image_dims: for each dimension of the image, the loops that index it, with their strides.
    """

    image: int
    filter: int
    m_loops: tuple[int, ...]
    n_loop: int | None
    group_loops: tuple[int, ...]
    tap_loops: tuple[int, ...]
    channel_loop: int | None
    image_dims: tuple[strided_access.StridedDim, ...]


def classify(op: ir.Operation) -> ConvolutionLoops | str | None:
    """Classifies the loops of a convolution.

    A contraction is a 1x1 convolution if one operand, the image, has several loops of its own, and
    the other a single one; batches of both are groups of channels.

    Args:
      op: any op.

    Returns:
      The loops; a text that says why they cannot be classified; None for any other op.
    """
    if is_convolution(op):
        image = 0
    elif ops.is_contraction(op) and ops.is_generic(op):
        own = [_own(op, operand) for operand in range(2)]
        image = 0 if len(own[0]) >= len(own[1]) else 1
        if len(own[image]) < 2 or len(own[1 - image]) != 1:
            return None
    else:
        return None
    weight, maps = 1 - image, ops.indexing_maps(op)
    if not maps:
        return f"{op.name}, which is no generic op"
    terms = strided_access.strided_loops(op, image)
    out, taps = maps[2], maps[weight]
    if terms is None or out is None or taps is None or None in (*out, *taps):
        return f"an indexing map of {op.name}"
    kinds = ops.iterator_types(op)
    read = {loop for dim in terms for loop, _ in dim}
    loops = [d for d in out if d is not None]
    output_channels = [d for d in loops if d in taps and d not in read]
    reduced = [d for d in taps if d is not None and kinds[d] == "reduction"]
    alone = [dim[0][0] for dim in terms if len(dim) == 1]
    sizes = ops.loop_sizes(op)
    # A tap that indexes a dimension alone, over which there is one output position, is a channel
    # as well as the channels are: the most are the channels.
    channels = sorted((d for d in reduced if d in alone), key=lambda d: -(sizes[d] or 0))[:1]
    groups = [d for d in loops if d in taps and d in read]
    if any(d not in alone for d in groups):
        return "a filter of each output position"
    if len(output_channels) > 1 or any(d not in read for d in reduced):
        return "a convolution without one loop each of input and output channels"
    if any(d not in (*loops, *reduced) for d in read):
        return "a reduction over a loop that the filter lacks"
    return ConvolutionLoops(
        image,
        weight,
        tuple(d for d in loops if d in read and d not in groups),
        output_channels[0] if output_channels else None,
        tuple(groups),
        tuple(d for d in reduced if d not in channels),
        channels[0] if channels else None,
        terms,
    )


def _own(op: ir.Operation, operand: int) -> set[int | None]:
    """The loops that an operand shares with the result alone."""
    maps = ops.plain_maps(op)
    return set(maps[operand]) & set(maps[2]) - set(maps[1 - operand])
