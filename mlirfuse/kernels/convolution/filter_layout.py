"""The layout of a filter in memory that convolution kernels read best."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.kernels.convolution.problem import PACKED_CHANNELS, PERSISTENT_BITS
from mlirfuse.kernels.matmul.persistent_sm90 import BLOCK_K
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
    if not isinstance(found, ConvolutionLoops) or found.channel_loop is None or found.group_loops:
        return None
    if found.image_dims[-1] != ((found.channel_loop, 1),):
        return None
    k_loops = (*found.tap_loops, found.channel_loop)
    packed = (ops.loop_sizes(op)[found.channel_loop] or 0) < PACKED_CHANNELS
    outer = (found.n_loop,) if found.n_loop is not None else ()
    loops = (*k_loops, *outer) if packed else (*outer, *k_loops)
    return FilterLayout(found.filter, loops)


def is_coalesced(op: ir.Operation, layout: FilterLayout) -> bool:
    """Whether a kernel reads a filter well as it is, whose preferred layout is another one.

    Output channels that are innermost are loaded together; the persistent kernel alone reads
    channels.
    """
    found = convolution_loops.classify(op)
    assert isinstance(found, ConvolutionLoops)
    channels = ops.loop_sizes(op)[found.channel_loop] if found.channel_loop is not None else None
    persistent = (
        channels is not None
        and channels % BLOCK_K == 0
        and ops.element_bits(op.operands[layout.operand]) == PERSISTENT_BITS
    )
    innermost = (ops.indexing_maps(op)[layout.operand] or ())[-1:]
    return innermost == (found.n_loop,) and not persistent
