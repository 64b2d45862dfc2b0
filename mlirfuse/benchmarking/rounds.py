"""Bursts of calls of several processes, in rounds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from mlirfuse.benchmarking.timing import Samples

MIN_ROUNDS, MAX_ROUNDS = 6, 60


class System(Protocol):
    """What takes turns: a process, or a program of one."""

    def burst(self) -> list[float] | None:
        """The seconds of some calls; None where it ended or hung."""

    def end(self) -> str:
        """Ends it; returns the reason why it gave no answer."""


SystemT = TypeVar("SystemT", bound=System)


def bursts(
    ready: dict[str, SystemT],
    notes: Mapping[str, dict[str, Any]],
    seconds: float,
    done: Callable[[int], object] = lambda _: None,
    time_of: Callable[[Sequence[float]], float] = statistics.median,
    min_rounds: int = MIN_ROUNDS,
) -> Samples:
    """Bursts of calls of all systems, in rounds that each start with another system.

    Args:
      ready: the systems. One that ends leaves them, and its system's note says so.
      notes: facts about each system.
      seconds: approximate time of all rounds.
      done: called with the number of rounds after each of them.
      time_of: the time of a burst from the times of its calls. `min` is that of a machine without
        other work, which only ever adds to a time.
      min_rounds: number of rounds that are made in any case.
    """
    found: dict[str, list[float]] = {system: [] for system in ready}
    end, index = time.monotonic() + seconds, 0
    while ready and index < MAX_ROUNDS and (index < min_rounds or time.monotonic() < end):
        names = list(ready)
        start = index % len(names)
        for system in names[start:] + names[:start]:
            times = ready[system].burst()
            if times is None:
                notes[system].clear()
                notes[system]["said"] = ready.pop(system).end()
                del found[system]
            else:
                found[system].append(time_of(times))
                shortest = 1e3 * min(times)
                notes[system]["min_ms"] = min(shortest, notes[system].get("min_ms", shortest))
        index += 1
        done(index)
    return Samples(found)
