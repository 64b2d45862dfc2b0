"""Times on a device: of the kernels by CUPTI, of calls by the wall clock, turn by turn.

A marker kernel stands before each call, so that one recording holds all sides in turns and each
kernel belongs to the call whose marker came last.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from mlirfuse.core import MlirfuseError

MARKER = "spin_kernel"
"""In the name of the kernel of `torch.cuda._sleep`."""

BETWEEN_HOST_AND_DEVICE = ("HtoD", "DtoH")
"""Copies that are no part of a program's work on the device."""


class Event(NamedTuple):
    """Something that ran on the device, in nanoseconds."""

    name: str
    start: int
    duration: int


def split(events: Iterable[Event]) -> list[float]:
    """Seconds in which the device was busy between each marker and the next."""
    found: list[list[Event]] = []
    for event in sorted(events, key=lambda e: e.start):
        if MARKER in event.name:
            found.append([])
        elif found and not any(word in event.name for word in BETWEEN_HOST_AND_DEVICE):
            found[-1].append(event)
    return [busy(turn) for turn in found]


def busy(events: Iterable[Event]) -> float:
    """Seconds of the union of events in order of their start."""
    total, end = 0, 0
    for event in events:
        stop = event.start + event.duration
        total += max(0, stop - max(event.start, end))
        end = max(end, stop)
    return total * 1e-9


def kernels(
    calls: Mapping[str, Callable[[int], None]], *, rounds: int, copies: int
) -> dict[str, list[float]]:
    """Seconds of the kernels of a call, by side, one for each round.

    Args:
      calls: side -> a call with a copy of the arguments that returns when its work is done.
      rounds: how many.
      copies: of the arguments.

    Raises:
      MlirfuseError: the profiler lost markers.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    order = turns(calls, rounds, copies)
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as recorder:
        for name, copy in order:
            torch.cuda._sleep(1)
            torch.cuda.synchronize()
            calls[name](copy)
            torch.cuda.synchronize()
    times = split(_recorded(recorder))
    if len(times) != len(order):
        raise MlirfuseError(f"the profiler saw {len(times)} markers of {len(order)}")
    found: dict[str, list[float]] = {name: [] for name in calls}
    for (name, _), seconds in zip(order, times, strict=True):
        found[name].append(seconds)
    return found


def turns(names: Iterable[str], rounds: int, copies: int) -> list[tuple[str, int]]:
    """Which side has its turn, and with which copy of the arguments.

    Each turn takes the next copy: with the copy of the side before it a side would find in the
    cache what that one has loaded. Each round has another order, because a side also pays for what
    the one before it has left in the cache to be written: up to 4 % of a kernel of 24 us.
    """
    sides, shuffled = [*names], random.Random(0)
    order = [name for _ in range(rounds) for name in shuffled.sample(sides, len(sides))]
    return [(name, number % copies) for number, name in enumerate(order)]


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
    """Seconds of a call that is waited for, by side, one for each round."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds):
        for name, call in calls.items():
            call(turn % copies)
            began = time.perf_counter()
            call(turn % copies)
            found[name].append(time.perf_counter() - began)
    return found


def queued(call: Callable[[int], Any], wait: Callable[[Any], None], *, calls: int) -> float:
    """Seconds of a call among several that are waited for at the end; the median of three."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        for _ in range(calls):
            found = call(0)
        wait(found)
        times.append((time.perf_counter() - began) / calls)
    return statistics.median(times)
