"""Times several callables side by side, turn by turn, and compares them turn by turn.

On a shared machine the speed of everything drifts by tens of percent within minutes. Two sides
timed in the same round drift together, so a ratio is the median of the ratios of the rounds, never
a ratio of two times taken apart.
"""

from __future__ import annotations

import dataclasses
import math
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from mlirfuse.runtime.devices import THREADS_VARIABLE

THREADS = 2
"""Threads that compute, for every side."""

PAUSE_SECONDS = 0.03
"""Sleep before each turn: PyTorch's OpenMP threads spin for some milliseconds after their last
work, and would take the cores from whoever comes next."""

TURN_SECONDS = 0.02
"""How long the timed calls of a turn last together, about."""

TURN_CALLS = 50
"""Most calls of a turn."""

WARM_CALLS = 12
"""Most calls for one side to become stable before it is timed."""

STABLE = 0.1
"""A side is warm when two calls in a row are faster by no more than this part than all before."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ratio:
    """How one side's time compares with another's, over the rounds.

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
    """Seconds of a call, by side, one for each round; the same rounds for all sides."""

    seconds: Mapping[str, Sequence[float]]

    def milliseconds(self, side: str) -> float:
        """The median time of a call."""
        return statistics.median(self.seconds[side]) * 1e3

    def ratio(self, side: str, over: str) -> Ratio:
        """The time of `side` as a multiple of the time of `over`."""
        ratios = [a / b for a, b in zip(self.seconds[side], self.seconds[over], strict=True)]
        if len(ratios) == 1:
            return Ratio(ratios[0], ratios[0], ratios[0])
        low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
        return Ratio(median, low, high)


def use_threads(count: int = THREADS) -> None:
    """Gives PyTorch and IREE's CPU runtime the same number of threads.

    Call it before a program of IREE is loaded: its threads start once in a process.
    """
    import torch

    torch.set_num_threads(count)
    os.environ[THREADS_VARIABLE] = str(count)


def interleave(
    sides: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> Samples:
    """Calls each side once a round, in turn, after warming all up.

    A turn is a pause, one call that does not count (it brings the side's own data back into the
    caches), and calls that count, of which the turn's time is the median. Each round starts with
    another side.

    Args:
      sides: name -> a call that returns when its work is done.
      rounds: how many, at least 1.
      clock: seconds.
      sleep: takes seconds.
    """
    calls = {name: _warm(call, clock, sleep) for name, call in sides.items()}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for turn in range(rounds):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            sleep(PAUSE_SECONDS)
            sides[name]()
            times = [_once(sides[name], clock) for _ in range(calls[name])]
            seconds[name].append(statistics.median(times))
    return Samples(seconds)


def _warm(
    call: Callable[[], object], clock: Callable[[], float], sleep: Callable[[float], None]
) -> int:
    """Calls until the time falls no more; returns how many calls a turn needs."""
    sleep(PAUSE_SECONDS)
    best = _once(call, clock)
    steady = 0
    for _ in range(WARM_CALLS):
        now = _once(call, clock)
        steady = steady + 1 if now >= (1 - STABLE) * best else 0
        best = min(best, now)
        if steady == 2:
            break
    return max(1, min(TURN_CALLS, math.ceil(TURN_SECONDS / max(best, 1e-9))))


def _once(call: Callable[[], object], clock: Callable[[], float]) -> float:
    began = clock()
    call()
    return clock() - began
