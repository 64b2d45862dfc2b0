"""Times programs side by side: in turns, so that all meet the same state of the machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

_PAUSE_SECONDS = 0.03
"""Sleep before each turn: PyTorch's threads spin for some milliseconds after their last work, and
would take the cores from whoever comes next."""

_WARM_ROUNDS = 3


def interleave(
    sides: Mapping[str, Callable[[], object]], rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Calls every side once a round, each round starting with another one.

    Args:
      sides: name -> a call that returns when its work is done.
      rounds: rounds that count, at least 1, after a few that do not.

    Returns:
      The median milliseconds of each side, and the median over the rounds of the first side's time
      as a multiple of each side's.
    """
    names = list(sides)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(_WARM_ROUNDS + rounds):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            time.sleep(_PAUSE_SECONDS)
            began = time.perf_counter()
            sides[name]()
            seconds[name].append(time.perf_counter() - began)
    counted = {name: taken[_WARM_ROUNDS:] for name, taken in seconds.items()}
    first = counted[names[0]]
    medians = {name: statistics.median(taken) * 1e3 for name, taken in counted.items()}
    ratios = {
        name: statistics.median(a / b for a, b in zip(first, taken, strict=True))
        for name, taken in counted.items()
    }
    return medians, ratios
