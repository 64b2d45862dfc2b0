"""Loops of a convolution as those of an implicit GEMM."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.structured.ir import ops, strided_access
from mlirfuse.structured.recognize.convolutions import is_convolution


@dataclasses.dataclass(frozen=True, slots=True)
class Sliding:
    """What the loops of a convolution, or of a product of an image and a filter, are.

    Attributes:
      image: number of the operand that is the image.
      filter: number of the operand that is the filter.
      rows: the loops of the image and the result, in the result's order: batch, places.
      column: the loop of the filter and the result: output channels.
      windows: the loops of the filter and the image's sums, in the filter's order.
      channel: the loop of both that is summed; None where there is but one channel.
      terms: for each dimension of the image the loops that it adds up, with their factors.
    """

    image: int
    filter: int
    rows: tuple[int, ...]
    column: int
    windows: tuple[int, ...]
    channel: int | None
    terms: tuple[tuple[tuple[int, int], ...], ...]


def sliding(op: ir.Operation) -> Sliding | str | None:
    """Sorts the loops of an image times a filter; what is in the way, or None for another op.

    A contraction counts where its image has several loops of its own: a 1x1 convolution.
    """
    if is_convolution(op):
        image = 0
    elif ops.is_contraction(op) and ops.is_generic(op):
        own = [_own(op, number) for number in range(2)]
        image = 0 if len(own[0]) >= len(own[1]) else 1
        if len(own[image]) < 2 or len(own[1 - image]) != 1:
            return None
    else:
        return None
    number = 1 - image
    terms = strided_access.strided_loops(op, image)
    out, weight = (ops.indexing_maps(op)[n] for n in (2, number))
    if terms is None or out is None or weight is None or None in (*out, *weight):
        return f"an indexing map of {op.name}"
    kinds = ops.iterator_types(op)
    read = {loop for sums in terms for loop, _ in sums}
    loops = [d for d in out if d is not None]
    columns = [d for d in loops if d in weight and d not in read]
    summed = [d for d in weight if d is not None and kinds[d] == "reduction"]
    alone = [sums[0][0] for sums in terms if len(sums) == 1]
    channels = [d for d in summed if d in alone]
    if any(d in weight and d in read for d in loops):
        return "a grouped convolution"
    if len(columns) != 1 or any(d not in read for d in summed) or len(channels) > 1:
        return "a convolution without one loop each of output channels and channels"
    if any(d not in (*loops, *summed) for d in read):
        return "a sum over what the filter has no loop of"
    return Sliding(
        image,
        number,
        tuple(d for d in loops if d in read),
        columns[0],
        tuple(d for d in summed if d not in channels),
        channels[0] if channels else None,
        terms,
    )


def _own(op: ir.Operation, number: int) -> set[int | None]:
    """The loops of an operand that only the result has too."""
    maps = ops.plain_maps(op)
    return set(maps[number]) & set(maps[2]) - set(maps[1 - number])
