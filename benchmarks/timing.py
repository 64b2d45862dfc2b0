"""Times several systems of one process in interleaved rounds.

Systems in processes of their own are timed by `mlirfuse.benchmarking.rounds`.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping

from mlirfuse.benchmarking.timing import PAUSE_SECONDS, Samples, turn_times, warm
from mlirfuse.support.environment_numbers import THREADS_VARIABLE

THREADS = 2
"""Threads of every system."""


def use_threads(count: int = THREADS) -> None:
    """Gives PyTorch and IREE's CPU runtime the same number of threads.

    It must be called before a program of IREE is loaded: its threads start once in a process.
    """
    import torch

    torch.set_num_threads(count)
    os.environ[THREADS_VARIABLE] = str(count)


def interleave(
    systems: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> Samples:
    """Gives each system one turn in each round, after warming all up.

    A turn is a pause, one untimed call, which brings the system's data back into the caches, and
    timed calls, whose median is the time of the turn. Each round starts with another system.

    Args:
      systems: name -> a call that returns when its work is done.
      rounds: number of rounds, at least 1.
      clock: current time in seconds.
      sleep: pauses for a time in seconds.
    """
    calls = {name: warm(call, clock, sleep) for name, call in systems.items()}
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    names = list(systems)
    for turn in range(rounds):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            sleep(PAUSE_SECONDS)
            seconds[name].append(statistics.median(turn_times(systems[name], calls[name], clock)))
    return Samples(seconds)
