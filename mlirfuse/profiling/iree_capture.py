"""Profiled calls on the CPU and on Vulkan, by IREE's own profiler.

iree-runtime 3.13's Python bindings cannot begin a profile (they give no sink for its records), so
`iree-benchmark-module` calls the program in a process of its own, one repetition a call, and
`iree-profile export` makes JSON lines of the records:

    iree-benchmark-module --device_profiling_mode=host-execution --device_profiling_output=FILE ...

Records are flushed between calls, outside of the time that is measured.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlirfuse.profiling.capture import Capture, Launch, ProfileError, split
from mlirfuse.support import temporary
from mlirfuse.support.subprocess import run_tool

MODES = {
    "local-sync": "host-execution",
    "local-task": "host-execution",
    "vulkan": "dispatch-events",
}
"""Driver -> the records that time its dispatches. IREE 3.13's drivers of CUDA and HIP have none."""

_CLOCKS = {
    "host-execution": "IREE's profiler, host clock from the first to the last workgroup",
    "dispatch-events": "IREE's profiler, timestamps of the device",
}

_NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}

_COMMANDS = ("copy", "fill", "update")
"""Work of a device that is no dispatch."""

Argument = tuple[str, Any]
"""The shape and type of an argument, `2x3xf32`, and its array; `scalar` and the number for one."""


def capture(
    program: Path,
    function: str,
    arguments: Sequence[Argument],
    *,
    device: str,
    threads: int | None,
    calls: int,
    warmup: int,
    parameters: Mapping[str, str | os.PathLike[str]],
    timeout: float | None = None,
) -> Capture:
    """Calls a function of a program, and records its launches.

    Args:
      program: a `.vmfb`.
      function: name of the function.
      arguments: of every call.
      device: URI of the device.
      threads: threads of `local-task`; None for IREE's choice.
      calls: calls that are kept.
      warmup: calls before them.
      parameters: scope -> archive of the program's parameters.
      timeout: seconds for all calls; None for no limit.

    Raises:
      ProfileError: the driver has no profiler, or a call has too many events for it.
      CompileFailedError: in stage `run`: the program failed.
    """
    driver = device.partition(":")[0]
    mode = MODES.get(driver)
    if mode is None:
        raise ProfileError(
            f"device '{device}' has no profiler: IREE times dispatches on {', '.join(MODES)}"
        )
    with temporary.folder("mlirfuse-profile-") as folder:
        records, times = folder / "records.ireeprof", folder / "times.json"
        flags = [
            f"--module={program}",
            f"--function={function}",
            f"--device={device}",
            "--benchmark_min_time=1x",
            f"--benchmark_repetitions={warmup + calls}",
            f"--benchmark_out={times}",
            "--benchmark_out_format=json",
            f"--device_profiling_mode={mode}",
            f"--device_profiling_output={records}",
            *(_spelled(folder, n, argument) for n, argument in enumerate(arguments)),
            *(f"--parameters={scope}={path}" for scope, path in parameters.items()),
        ]
        if driver.startswith("local"):
            flags.append("--device_allocator=caching")
        if driver == "local-task" and threads is not None:
            flags.append(f"--task_topology_max_group_count={threads}")
        run_tool("iree-benchmark-module", flags, stage="run", timeout=timeout)
        launches = _launches(records, folder / "records.jsonl")
        found = split(launches, _walls(times), warmup)
    return Capture(device, threads if driver == "local-task" else None, _CLOCKS[mode], found)


def _spelled(folder: Path, number: int, argument: Argument) -> str:
    """The flag of an argument; an array is a file of its bytes."""
    kind, value = argument
    if kind == "scalar":
        return f"--input={value}"
    path = folder / f"input{number}.bin"
    path.write_bytes(np.ascontiguousarray(value).tobytes())
    return f"--input={kind}=@{path}"


def _walls(path: Path) -> list[int]:
    """Nanoseconds of each call, from the JSON of Google Benchmark."""
    entries = json.loads(path.read_text(encoding="utf-8"))["benchmarks"]
    return [
        round(entry["real_time"] * _NANOSECONDS[entry["time_unit"]])
        for entry in entries
        if entry["run_type"] == "iteration"
    ]


def _launches(records: Path, exported: Path) -> list[Launch]:
    """The launches in a file of records.

    Raises:
      ProfileError: the profiler dropped records.
    """
    run_tool(
        "iree-profile",
        ["export", "--format=ireeperf-jsonl", f"--output={exported}", str(records)],
        stage="profile",
    )
    found = []
    with exported.open(encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            if entry["record_type"] == "diagnostic":
                raise ProfileError(
                    "a call has more events than IREE's profiler keeps, which is 4096:"
                    f" {entry.get('dropped_records', 'some')} were dropped"
                )
            if entry["record_type"] == "host_execution_event":
                if entry["op"] == "dispatch" or entry["op"] in _COMMANDS:
                    times = entry["start_host_time_ns"], entry["end_host_time_ns"]
                    found.append(_launch(entry, *times))
            elif entry["record_type"] == "dispatch_event" and entry["valid"]:
                # The clock fit of the whole file scales ticks; their differences stay exact.
                start = entry["start_driver_host_cpu_time_ns"]
                found.append(_launch(entry, start, start + entry["duration_ns"]))
    return found


def _launch(entry: Mapping[str, Any], start: int, end: int) -> Launch:
    name = entry["key"]
    if name is None:
        return Launch(entry["op"], start, end)
    size = tuple(entry["workgroup_size"])
    return Launch(
        name,
        start,
        end,
        workgroups=tuple(entry["workgroup_count"]),
        workgroup_size=None if size == (1, 1, 1) else size,
    )
