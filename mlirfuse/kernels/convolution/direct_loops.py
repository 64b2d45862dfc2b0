"""Loops of direct convolutions over taps and channels: their order, and those that are unrolled."""

from __future__ import annotations

from collections.abc import Sequence

from mlirfuse.kernels.codegen.iteration_space import known_product, power_of_two
from mlirfuse.kernels.convolution.analysis import Analysis

MAX_UNROLLED = 128
"""Taps, times channels, that are unrolled in a kernel's text; outer loops of more are loops."""

MAX_UNROLLED_SUMS = 128
"""The same, times accumulators: with 512 of f16 ptxas hoists loads until registers spill."""

MAX_CHANNELS_AT_ONCE = 8
"""Channels of which a thread loads the taps at once: with one, seven taps of 64 channels of 8x5000
f16 took 14.4 us on an H200, with eight 10.4; 3x3 of 64 of 8x128x128 as long with either."""


def order(analysis: Analysis) -> list[int]:
    """The loops over taps and channels, the last of them, outermost first.

    Without groups there may be many channels, of each of which the taps are loaded at once.
    """
    taps, channels = [*range(len(analysis.taps))], len(analysis.taps)
    return [*taps, channels] if analysis.groups else [channels, *taps]


def unrolled(analysis: Analysis, run: int, sizes: Sequence[int], outputs: int) -> list[bool]:
    """Whether each loop is unrolled, with those inside it.

    Args:
      analysis: the convolution.
      run: outputs of a run.
      sizes: iterations of the loops over taps and channels; one of the taps of a run.
      outputs: output channels.
    """
    levels = order(analysis)
    counts = {
        level: known_product([sizes[n] for n in levels[at:]]) for at, level in enumerate(levels)
    }
    if not analysis.groups:
        counts[levels[0]] = analysis.in_channels * known_product(analysis.taps) * run
    return [_is_unrolled(counts[level], outputs) for level in range(len(sizes))]


def _is_unrolled(count: int, outputs: int) -> bool:
    """Whether a loop is unrolled that has so many iterations, with those of loops inside it."""
    return count <= MAX_UNROLLED and (outputs == 1 or count * outputs <= MAX_UNROLLED_SUMS)


def channels(analysis: Analysis, run: int) -> str:
    """The range over input channels; without groups several of them are loaded at once."""
    if analysis.groups:
        return f"range({analysis.in_channels})"
    at_once = MAX_UNROLLED // (known_product(analysis.taps) * run)
    factor = max(1, min(MAX_CHANNELS_AT_ONCE, power_of_two(at_once + 1) // 2))
    return f"tl.range(0, {analysis.in_channels}, loop_unroll_factor={factor})"
