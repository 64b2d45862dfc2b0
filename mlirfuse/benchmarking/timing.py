"""Times of calls, and ratios of times round by round.

The speed of a shared machine drifts by tens of percent within minutes. Systems timed in the same
round drift together, so a ratio is the median of the rounds' ratios, never a ratio of two separate
measurements.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

PAUSE_SECONDS = 0.03
"""Sleep before each turn: PyTorch's OpenMP threads spin for some milliseconds after their last
work, and would take the cores from the next system."""

TURN_SECONDS = 0.02
"""Approximate total time of the timed calls of a turn."""

MAX_TURN_CALLS = 50
"""Maximum number of timed calls of a turn."""

MAX_WARMUP_CALLS = 12
"""Maximum number of calls of a system before it is timed."""

STABLE_GAIN = 0.1
"""A system is warm when two consecutive calls improve on the best one by at most this fraction."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ratio:
    """The ratio of two systems' times, over the rounds.

    Attributes:
      median: the median of the rounds' ratios.
      low: their first quartile.
      high: their third quartile.
    """

    median: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True, slots=True)
class Samples:
    """System -> time of a call in each round, in seconds; all systems have the same rounds."""

    seconds: Mapping[str, Sequence[float]]

    def milliseconds(self, system: str) -> float:
        """The median time of a call, in milliseconds."""
        return statistics.median(self.seconds[system]) * 1e3

    def ratios(self, system: str, over: str) -> list[float]:
        """The time of `system` as a multiple of the time of `over`, in each round."""
        return [a / b for a, b in zip(self.seconds[system], self.seconds[over], strict=True)]

    def ratio(self, system: str, over: str) -> Ratio:
        """The time of `system` as a multiple of the time of `over`."""
        ratios = self.ratios(system, over)
        if len(ratios) == 1:
            return Ratio(ratios[0], ratios[0], ratios[0])
        low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
        return Ratio(median, low, high)


def turn_times(
    call: Callable[[], object], calls: int, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """One untimed call, and the times of `calls` more in seconds."""
    call()
    return [_once(call, clock) for _ in range(calls)]


def warm(
    call: Callable[[], object],
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
    turn_seconds: float = TURN_SECONDS,
) -> int:
    """Calls a system until its time is stable; returns the number of timed calls of a turn."""
    sleep(PAUSE_SECONDS)
    best = _once(call, clock)
    steady = 0
    for _ in range(MAX_WARMUP_CALLS):
        now = _once(call, clock)
        steady = steady + 1 if now >= (1 - STABLE_GAIN) * best else 0
        best = min(best, now)
        if steady == 2:
            break
    return max(1, min(MAX_TURN_CALLS, math.ceil(turn_seconds / max(best, 1e-9))))


def _once(call: Callable[[], object], clock: Callable[[], float]) -> float:
    began = clock()
    call()
    return clock() - began
