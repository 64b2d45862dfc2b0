"""The layout of a filter in memory that convolution kernels read best."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.kernels.convolution.problem import PACKED_CHANNELS
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import convolutions
from mlirfuse.structured.recognize.convolutions import Sliding


@dataclasses.dataclass(frozen=True, slots=True)
class FilterLayout:
    """An order of the loops of a filter.

    Attributes:
      operand: index of the filter among the operands.
      loops: its loops, outermost first.
    """

    operand: int
    loops: tuple[int, ...]


def preferred_filter_layout(op: ir.Operation) -> FilterLayout | None:
    """The layout for a convolution of images with channels last; None for other ops.

    K-contiguous, or N-contiguous where a tap has too few channels for aligned blocks of K.
    """
    found = convolutions.sliding(op)
    if not isinstance(found, Sliding) or found.channel is None:
        return None
    if found.terms[-1] != ((found.channel, 1),):
        return None
    k_loops = (*found.windows, found.channel)
    packed = (ops.loop_sizes(op)[found.channel] or 0) < PACKED_CHANNELS
    loops = (*k_loops, found.column) if packed else (found.column, *k_loops)
    return FilterLayout(found.filter, loops)
