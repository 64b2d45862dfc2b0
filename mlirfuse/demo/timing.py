"""Times programs in turns, so that all see the same state of the machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

_PAUSE_SECONDS = 0.03
"""Sleep before each call: PyTorch's threads spin for some milliseconds after their last work, and
would take the cores from the next program."""

_WARMUP_ROUNDS = 3


def interleave(
    programs: Mapping[str, Callable[[], object]], rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Calls every program once a round, each round starting with another one.

    Args:
      programs: name -> a call that returns when its work is done.
      rounds: number of measured rounds, at least 1, after a few for warm-up.

    Returns:
      The median time of each program in milliseconds, and its speedup over the first one: the
      median over the rounds of the quotient of their times.
    """
    names = list(programs)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(_WARMUP_ROUNDS + rounds):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            time.sleep(_PAUSE_SECONDS)
            began = time.perf_counter()
            programs[name]()
            seconds[name].append(time.perf_counter() - began)
    counted = {name: taken[_WARMUP_ROUNDS:] for name, taken in seconds.items()}
    first = counted[names[0]]
    medians = {name: statistics.median(taken) * 1e3 for name, taken in counted.items()}
    ratios = {
        name: statistics.median(a / b for a, b in zip(first, taken, strict=True))
        for name, taken in counted.items()
    }
    return medians, ratios
