"""Time of each dispatch of a program: `python -m benchmarks.profile MODEL.vmfb --input=...`.

IREE's runtime records the begin and end of each dispatch on the host. Recording takes time, so
compare dispatches with each other, and not their sum with the time of a plain run.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks import tables
from mlirfuse.core import MlirfuseError
from mlirfuse.support.subprocess import find_tool, run_tool

CALLS = 30


@dataclasses.dataclass(frozen=True, slots=True)
class Dispatch:
    """One dispatch function over all calls of the program.

    Attributes:
      name: IREE's name of the function.
      count: number of runs.
      shortest_us: time of the shortest run, in microseconds.
      total_us: time of all runs, in microseconds.
    """

    name: str
    count: int
    shortest_us: float
    total_us: float


def profile(
    program: Path,
    inputs: Sequence[str],
    *,
    function: str = "main",
    device: str = "local-task",
    calls: int = CALLS,
) -> list[Dispatch]:
    """Calls a program and returns its dispatches, the slowest first.

    Args:
      program: a `.vmfb`.
      inputs: in the syntax of IREE's tools: `4x128xi64=0`, `@file.npy`.
      function: name of the function to call.
      device: URI of a CPU driver of iree-runtime, which can record on the host.
      calls: number of calls.

    Raises:
      MlirfuseError: the program is missing, or does not accept the inputs.
    """
    if not program.is_file():
        raise MlirfuseError(f"cannot read {program}; a .vmfb file would be accepted")
    with tempfile.TemporaryDirectory(prefix="mlirfuse-profile-") as folder:
        record = Path(folder, "record.ireeprof")
        run_tool(
            "iree-benchmark-module",
            [
                f"--module={program}",
                f"--device={device}",
                f"--function={function}",
                *(f"--input={value}" for value in inputs),
                f"--benchmark_min_time={calls}x",
                "--device_profiling_mode=host-execution",
                f"--device_profiling_output={record}",
            ],
            stage="profile",
        )
        if not record.is_file():
            raise MlirfuseError(f"{program}: function '{function}' did not run")
        shown = subprocess.run(
            [find_tool("iree-profile"), "dispatch", "--format=jsonl", record],
            capture_output=True,
            text=True,
            check=False,
        )
    if shown.returncode:
        raise MlirfuseError(f"{program}: iree-profile refused the record: {shown.stderr[:200]}")
    return parse(shown.stdout.splitlines())


def parse(lines: Iterable[str]) -> list[Dispatch]:
    """Parses the output of `iree-profile dispatch --format=jsonl`."""
    found: dict[str, Dispatch] = {}
    for line in lines:
        entry = json.loads(line)
        if entry["type"] == "host_dispatch_group" and entry["valid"]:
            new = Dispatch(
                name=entry["key"],
                count=entry["valid"],
                shortest_us=entry["min_ns"] / 1e3,
                total_us=entry["total_ns"] / 1e3,
            )
            found[new.name] = _merged(found[new.name], new) if new.name in found else new
    return sorted(found.values(), key=lambda d: (-d.total_us, d.name))


def _merged(a: Dispatch, b: Dispatch) -> Dispatch:
    return Dispatch(
        a.name, a.count + b.count, min(a.shortest_us, b.shortest_us), a.total_us + b.total_us
    )


def table(program: str, dispatches: Sequence[Dispatch], calls: int) -> tables.Table:
    """The dispatches of a call, without those of the program's start, which run less often."""
    of_calls = [d for d in dispatches if d.count >= calls]
    total = sum(d.total_us for d in of_calls)
    rows = [
        [
            d.name,
            str(d.count // calls),
            f"{d.shortest_us:.1f}",
            f"{d.total_us / d.count:.1f}",
            f"{d.total_us / calls:.1f}",
            f"{d.total_us / total:.1%}",
        ]
        for d in of_calls
    ]
    each = sum(d.count for d in of_calls) // calls
    text = f"{total / calls / 1e3:.2f} ms in {each} dispatches a call, {calls} calls"
    header = ["dispatch", "runs a call", "min us", "avg us", "us a call", "share"]
    return tables.Table(program, text, header, rows)


def main(arguments: list[str] | None = None) -> int:
    """Profiles a program and prints its dispatches."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__)
    parser.add_argument("program", type=Path, metavar="MODEL.vmfb")
    parser.add_argument("--input", action="append", default=[], help="4x128xi64=0 or @file.npy")
    parser.add_argument("--function", default="main")
    parser.add_argument("--device", default="local-task")
    parser.add_argument("--calls", type=int, default=CALLS)
    given = parser.parse_args(arguments)
    try:
        found = profile(
            given.program,
            given.input,
            function=given.function,
            device=given.device,
            calls=given.calls,
        )
    except MlirfuseError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    tables.show(table(given.program.name, found, given.calls))
    return 0


if __name__ == "__main__":
    sys.exit(main())
