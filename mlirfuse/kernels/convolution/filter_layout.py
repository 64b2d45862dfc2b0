"""The layout of a filter in memory that convolution kernels read best."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.kernels.convolution.problem import (
    MAX_DIRECT_CHANNELS,
    PACKED_CHANNELS,
    PERSISTENT_BITS,
)
from mlirfuse.kernels.matmul.cost_model import vector_bytes
from mlirfuse.kernels.matmul.persistent_sm90 import BLOCK_K
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import convolution_loops
from mlirfuse.structured.recognize.convolution_loops import ConvolutionLoops

F32_BITS = 32


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
    """The layout for a convolution in groups, or whose blocks of K are channels; None for others.

    K-contiguous, or N-contiguous where a tap has too few channels for aligned blocks of K, and
    where a group has rows of N that are better aligned. Groups are outermost.
    """
    found = convolution_loops.classify(op)
    if not isinstance(found, ConvolutionLoops) or found.channel_loop is None:
        return None
    last = found.image_dims[-1] == ((found.channel_loop, 1),)
    if found.n_loop is None and not found.group_loops and not last:
        return None  # the direct kernel has one weight for all positions
    sizes = ops.loop_sizes(op)
    k_loops = (*found.tap_loops, found.channel_loop)
    outer = (found.n_loop,) if found.n_loop is not None else ()
    channels = sizes[found.channel_loop] or 0
    n_contiguous = channels < PACKED_CHANNELS
    if found.group_loops:
        filters = 1 if found.n_loop is None else sizes[found.n_loop] or 0
        if filters <= MAX_DIRECT_CHANNELS and channels < PACKED_CHANNELS:
            return None  # small, and the direct kernel reads one element for all positions
        bits = ops.element_bits(op.operands[found.filter])
        n_contiguous |= vector_bytes(filters, bits) > vector_bytes(channels, bits)
    elif n_contiguous and not last:
        return None  # a block of K spans taps, as the rows of the filter do
    loops = (*k_loops, *outer) if n_contiguous else (*outer, *k_loops)
    return FilterLayout(found.filter, (*found.group_loops, *loops))


def is_coalesced(op: ir.Operation, layout: FilterLayout) -> bool:
    """Whether a kernel reads a filter well as it is, whose preferred layout is another one.

    Output channels that are innermost are loaded together, unless their rows are less aligned than
    those of input channels: on an H100 a 3x3 convolution from 64 to 401 channels of f32 took
    507 us, and 117 with the other layout. Of f32 aligned ones are slower, too: warpgroups read
    the parts of TF32 along K only, and 34 TFLOP/s of three such filters compare with 42 to 65 of
    filters along K. The persistent kernel alone reads channels. Of groups input channels are as
    good.
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
    if found.group_loops:
        return innermost in ((found.n_loop,), (found.channel_loop,))
    if innermost != (found.n_loop,) or persistent or found.n_loop is None:
        return False
    bits, filters = ops.element_bits(op.operands[layout.operand]), ops.loop_sizes(op)[found.n_loop]
    rows, columns = vector_bytes(channels or 0, bits), vector_bytes(filters or 0, bits)
    return columns > rows or (columns == rows and bits != F32_BITS)
