"""Profiled calls in the JSON form of Chrome's traces, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import collections
from typing import Any

from mlirfuse.profiling.capture import Capture, Launch
from mlirfuse.profiling.kernel_profile import KernelProfile
from mlirfuse.profiling.measured import Measured

_CALLS_LANE = 0
"""Thread of the trace that shows the calls; kernels follow, one thread for those that overlap."""


def events(profile: Measured) -> dict[str, Any]:
    """The document: a complete event for each call and launch, metadata for names."""
    made = _process(profile.source, profile.capture, 1, profile.kernels)
    if profile.comparison is not None:
        stock = profile.comparison.stock
        made += _process(f"{stock.source}, stock IREE", stock.capture, 2, stock.kernels)
    return {"traceEvents": made, "displayTimeUnit": "ns"}


def _process(
    name: str, capture: Capture, pid: int, kernels: tuple[KernelProfile, ...]
) -> list[dict[str, Any]]:
    names = collections.Counter(kernel.name for kernel in kernels)
    facts = {kernel.name: kernel for kernel in kernels if names[kernel.name] == 1}
    starts = [launch.start_ns for call in capture.calls for launch in call.launches]
    origin = min(starts, default=0)
    made = [_named(pid, "process_name", name), _named(pid, "thread_name", "calls", _CALLS_LANE)]
    lanes: list[int] = []
    for number, call in enumerate(capture.calls):
        if call.launches:
            start = call.launches[0].start_ns
            end = max(launch.end_ns for launch in call.launches)
            arguments = {"wall_us": call.wall_ns / 1e3}
            whole = Launch(f"call {number}", start, end)
            made.append(_event(pid, _CALLS_LANE, whole, origin, arguments))
        for launch in call.launches:
            lane = next((n for n, end in enumerate(lanes) if end <= launch.start_ns), len(lanes))
            lanes[lane : lane + 1] = [launch.end_ns]
            arguments = _arguments(launch, facts.get(launch.name))
            made.append(_event(pid, lane + 1, launch, origin, arguments))
    return made + [
        _named(pid, "thread_name", "kernels", lane + 1) for lane in range(max(1, len(lanes)))
    ]


def _event(
    pid: int, tid: int, launch: Launch, origin: int, arguments: dict[str, Any]
) -> dict[str, Any]:
    """A complete event; times are microseconds."""
    return {
        "name": launch.name,
        "cat": "call" if tid == _CALLS_LANE else "kernel",
        "ph": "X",
        "ts": (launch.start_ns - origin) / 1e3,
        "dur": launch.ns / 1e3,
        "pid": pid,
        "tid": tid,
        "args": arguments,
    }


def _arguments(launch: Launch, kernel: KernelProfile | None) -> dict[str, Any]:
    """Launch parameters, and facts about the kernel where its name is that of one kernel."""
    found: dict[str, Any] = {
        "workgroups": launch.workgroups,
        "workgroup_size": launch.workgroup_size,
    }
    if kernel is not None:
        found |= {
            "code": kernel.code,
            "pass": kernel.pass_name,
            "ops": kernel.ops,
            "bound": kernel.bound,
        }
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in found.items()
        if value
    }


def _named(pid: int, kind: str, name: str, tid: int = _CALLS_LANE) -> dict[str, Any]:
    """A metadata event; viewers ignore its times, and some demand them."""
    return {
        "name": kind,
        "ph": "M",
        "ts": 0,
        "dur": 0,
        "pid": pid,
        "tid": tid,
        "args": {"name": name},
    }
