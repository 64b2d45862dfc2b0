"""Times on a device, in interleaved rounds: kernels by CUPTI, calls by the wall clock.

A marker kernel precedes each call, so that one recording holds all systems, and each kernel belongs
to the call of the last marker.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from mlirfuse.core import MlirfuseError

MARKER = "spin_kernel"
"""Part of the name of the kernel of `torch.cuda._sleep`."""

WARM_CYCLES = 200_000_000
"""Cycles for which the device is busy before a recording: a tenth of a second."""

BETWEEN_HOST_AND_DEVICE = ("HtoD", "DtoH")
"""Parts of the names of copies that do not count as work on the device."""


class Event(NamedTuple):
    """A kernel or copy on the device; times in nanoseconds."""

    name: str
    start: int
    duration: int


def between_markers(events: Iterable[Event]) -> list[list[Event]]:
    """The work on the device between each marker and the next."""
    found: list[list[Event]] = []
    for event in sorted(events, key=lambda e: e.start):
        if MARKER in event.name:
            found.append([])
        elif found and not any(word in event.name for word in BETWEEN_HOST_AND_DEVICE):
            found[-1].append(event)
    return found


def busy(events: Iterable[Event]) -> float:
    """Duration of the union of events, which are sorted by their start, in seconds."""
    total, end = 0, 0
    for event in events:
        stop = event.start + event.duration
        total += max(0, stop - max(event.start, end))
        end = max(end, stop)
    return total * 1e-9


def kernels(
    calls: Mapping[str, Callable[[int], None]], *, rounds: int, copies: int
) -> dict[str, list[float]]:
    """Time of the kernels of a call by system, one for each round, in seconds.

    Arguments and errors are those of `profiled`.
    """
    found = profiled(calls, rounds=rounds, copies=copies)
    return {name: [busy(turn) for turn in turns_of] for name, turns_of in found.items()}


def profiled(
    calls: Mapping[str, Callable[[int], None]], *, rounds: int, copies: int
) -> dict[str, list[list[Event]]]:
    """The kernels and copies of a call by system, for each round.

    Args:
      calls: system -> a synchronous call with the copy of the arguments of an index.
      rounds: number of rounds.
      copies: number of copies of the arguments.

    Raises:
      MlirfuseError: the profiler lost markers.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    order = turns(calls, rounds, copies)
    # After seconds of compiling the device runs at a lower clock.
    torch.cuda._sleep(WARM_CYCLES)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as recorder:
        for name, copy in order:
            torch.cuda._sleep(1)
            torch.cuda.synchronize()
            calls[name](copy)
            torch.cuda.synchronize()
    seen = between_markers(_recorded(recorder))
    if len(seen) != len(order):
        raise MlirfuseError(f"the profiler saw {len(seen)} markers of {len(order)}")
    found: dict[str, list[list[Event]]] = {name: [] for name in calls}
    for (name, _), turn in zip(order, seen, strict=True):
        found[name].append(turn)
    return found


def turns(names: Iterable[str], rounds: int, copies: int) -> list[tuple[str, int]]:
    """The systems in the order of their turns, each with the index of a copy of the arguments.

    Each turn uses the next copy: the previous system's copy would be in the cache. Each round has
    another order, because a system also pays for dirty lines that the previous one has left in the
    cache: up to 4 % of a kernel of 24 us.
    """
    systems, shuffled = [*names], random.Random(0)
    order = [name for _ in range(rounds) for name in shuffled.sample(systems, len(systems))]
    return [(name, index % copies) for index, name in enumerate(order)]


def _recorded(recorder: Any) -> list[Event]:
    import torch

    device = torch.autograd.DeviceType.CUDA
    return [
        Event(e.name(), e.start_ns(), e.duration_ns())
        for e in recorder.profiler.kineto_results.events()
        if e.device_type() == device
    ]


def latencies(
    calls: Mapping[str, Callable[[int], None]], *, rounds: int, copies: int
) -> dict[str, list[float]]:
    """Wall time of a synchronous call by system, one for each round, in seconds."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds):
        for name, call in calls.items():
            call(turn % copies)
            began = time.perf_counter()
            call(turn % copies)
            found[name].append(time.perf_counter() - began)
    return found


def queued(call: Callable[[int], Any], wait: Callable[[Any], None], *, calls: int) -> float:
    """Wall time of a call among several with one wait at the end, in seconds; median of three."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        for _ in range(calls):
            found = call(0)
        wait(found)
        times.append((time.perf_counter() - began) / calls)
    return statistics.median(times)
