"""The layout of a filter in memory that convolution kernels read best."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.kernels.convolution.problem import PACKED_CHANNELS
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import convolution_loops
from mlirfuse.structured.recognize.convolution_loops import ConvolutionLoops


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
    found = convolution_loops.classify(op)
    if not isinstance(found, ConvolutionLoops) or found.channel_loop is None:
        return None
    if found.image_dims[-1] != ((found.channel_loop, 1),):
        return None
    k_loops = (*found.tap_loops, found.channel_loop)
    packed = (ops.loop_sizes(op)[found.channel_loop] or 0) < PACKED_CHANNELS
    loops = (*k_loops, found.n_loop) if packed else (found.n_loop, *k_loops)
    return FilterLayout(found.filter, loops)
