"""Faster, slower, or no difference outside the noise: a verdict about the times of two programs.

    interval(ratios)       the 95 % interval of the median of the rounds' ratios, from their order
    noise(control)         the ratios of two processes of one program, which ought to be 1
    verdict(...)           a difference counts where the whole interval lies outside the noise

The interval is that of the sign test: it assumes nothing about the distribution of the times.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Any

from mlirfuse.benchmarking.timing import Ratio, Samples

CONFIDENCE = 0.95
"""Smallest probability with which an interval holds the median."""

RESOLUTION = 0.02
"""Smallest difference that is reported. Two processes of one program differ by about as much for
as long as they live, since their memory lies elsewhere."""

MIN_RATIOS = 6
"""Smallest number of ratios with an interval: the range of five holds the median too seldom."""

MIN_ROUNDS = 12
"""Smallest number of rounds for a verdict: some of them are alike."""

FASTER = "faster"
SLOWER = "slower"
NO_DIFFERENCE = "no difference outside the noise"

Interval = tuple[float, float]


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """A program beside another one.

    Attributes:
      ratio: the other one's time as a multiple of this program's.
      interval: 95 % interval of the ratio's median.
      noise: factor within which a ratio does not count.
      verdict: `FASTER`, `SLOWER` or `NO_DIFFERENCE`, said of this program.
    """

    ratio: Ratio
    interval: Interval
    noise: float
    verdict: str

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON; an open end of the interval is None."""
        ends = [end if math.isfinite(end) else None for end in self.interval]
        return {
            "ratio": self.ratio.median,
            "quartiles": [self.ratio.low, self.ratio.high],
            "interval": ends,
            "verdict": self.verdict,
        }


def compare(samples: Samples, ours: str, other: str, control: str | None) -> Comparison:
    """The verdict about two systems.

    Args:
      samples: times of the rounds.
      ours: the system that the verdict is about.
      other: the one that it is compared with.
      control: another process of the program of `ours`; None where it ended early.
    """
    found = interval(samples.ratios(other, ours))
    factor = noise(None if control is None else samples.ratios(control, ours))
    return Comparison(samples.ratio(other, ours), found, factor, verdict(found, factor))


def interval(ratios: Sequence[float]) -> Interval:
    """The interval of the median that the order of the ratios gives, at `CONFIDENCE`.

    It is from the smallest ratio to the largest for few independent ones, and open, from 0 to
    infinity, for fewer than `MIN_RATIOS`.

    Args:
      ratios: of the rounds, in the order in which they were made.
    """
    ordered, count = sorted(ratios), len(ratios)
    independent = _independent(ratios)
    outside, below = 0, 0
    while outside < independent // 2:
        below += math.comb(independent, outside)
        if 2 * below / 2**independent > 1 - CONFIDENCE:
            break
        outside += 1
    if count < MIN_RATIOS:
        return 0.0, math.inf
    left_out = max(1, outside * count // independent) if independent else 1
    return ordered[left_out - 1], ordered[count - left_out]


def _independent(ratios: Sequence[float]) -> int:
    """The number of independent ratios that say as much as these.

    Rounds that follow each other are alike while other work on the machine goes on.
    """
    count = len(ratios)
    middle = statistics.median(ratios)
    signs = [1 if ratio > middle else -1 for ratio in ratios if ratio != middle]
    if len(signs) < 2:
        return count
    pairs = sum(one * other for one, other in itertools.pairwise(signs))
    alike = max(0.0, pairs / (len(signs) - 1))
    return math.floor(count * (1 - alike) / (1 + alike))


def noise(control: Sequence[float] | None) -> float:
    """The factor within which a ratio does not count.

    Args:
      control: ratios of two processes of one program; None to know no more than `RESOLUTION`.
    """
    if control is None:
        return 1 + RESOLUTION
    low, high = interval(control)
    return max(1 + RESOLUTION, high, 1 / low if low else math.inf)


def verdict(found: Interval, factor: float) -> str:
    """The verdict about the program in the denominator of the ratios.

    Args:
      found: interval of the ratios' median.
      factor: result of `noise`.
    """
    low, high = found
    if low > factor:
        return FASTER
    return SLOWER if high * factor < 1 else NO_DIFFERENCE
