"""Measures the rows on this machine's GPU: `python -m benchmarks gpu [WORD...]`.

Missing programs are compiled first, if IREE's compiler is installed; otherwise `--programs` names
the output of `benchmarks.gpu.make`. It needs iree-base-runtime, PyTorch and, for the system `xla`,
JAX; the failure of a system is recorded in its row.

The results are written after each row. A second run adds its systems and rows to the same file, so
that a slow system can have a separate run; `kernels` is in each run, because ratios are of one run.
`--missing` continues a run that was out of time. `--merge` keeps the rows that a later run, on
another machine, did not reach, and marks them as earlier ones.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import results, tables
from benchmarks.gpu import rows
from benchmarks.gpu.rows import Row
from benchmarks.gpu.systems import COPY, NEEDED, OURS, PROGRAM, STOCK, SYSTEMS
from benchmarks.suites import gpu
from mlirfuse.benchmarking.messages import json_lines
from mlirfuse.benchmarking.timing import Samples
from mlirfuse.core import MlirfuseError, UsageError, nearest

MINUTES = 9.0
"""Default duration of a run."""

SIDE_SECONDS = 45.0
"""Default time limit of a system's compilation of a row."""

HANG_SECONDS = 60.0
"""Silence beyond the time limit of a compilation after which a process counts as hung."""

WARMUP_PROCESSES = 8
"""Processes that fill torch.compile's cache before the run; each uses about 1 GB of the device."""

SUITE = "gpu"

PROGRAMS = Path(__file__).parent / "programs"
"""Default folder of the programs."""

_log = logging.getLogger("benchmarks")


def main(words: Sequence[str] | None = None) -> int:
    """Measures the selected rows."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="*", metavar="WORD", help="rows with it in the name")
    parser.add_argument("--programs", type=Path, default=PROGRAMS, metavar="FOLDER")
    parser.add_argument("--sides", default=",".join(SYSTEMS), metavar="NAME,...")
    parser.add_argument("--ranks", type=int, default=2, metavar="N", help="rows of ranks 0 to N")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="no row starts after them")
    parser.add_argument("--side-seconds", type=float, default=SIDE_SECONDS)
    parser.add_argument("--warm", type=int, default=WARMUP_PROCESSES, metavar="N")
    parser.add_argument("--results", type=Path, default=results.FOLDER, metavar="FOLDER")
    parser.add_argument("--missing", action="store_true", help="only rows without results yet")
    parser.add_argument(
        "--merge", type=Path, metavar="FOLDER", help="only merge its results into the present ones"
    )
    given = parser.parse_intermixed_args(words)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    _log.setLevel(logging.INFO)
    try:
        if given.merge is not None:
            merge(given.merge, given.results)
            return 0
        chosen = [row for row in rows.select(given.words) if row.rank <= given.ranks]
        if not chosen:
            raise UsageError(f"no row has {' or '.join(given.words)} in its name")
        if given.missing:
            chosen = without(chosen, given.results)
            if not chosen:
                raise UsageError("no row is missing")
        systems = check_systems(given.sides.split(","))
        compile_missing(chosen, systems, given.programs)
        measured = run(
            chosen,
            systems,
            given.programs,
            minutes=given.minutes,
            side_seconds=given.side_seconds,
            warm=given.warm,
            into=given.results,
        )
        for table in gpu.tables(measured):
            tables.show(table)
        print(results.machine(measured))
    except MlirfuseError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def without(chosen: Sequence[Row], folder: Path) -> list[Row]:
    """The rows without results in a folder."""
    if not (folder / f"{SUITE}.json").exists():
        return list(chosen)
    known = {(entry.work, entry.dtype) for entry in results.load(SUITE, folder).rows}
    return [row for row in chosen if (row.work, row.dtype) not in known]


def check_systems(names: Iterable[str]) -> list[str]:
    """The named systems and ours, in the order of `SYSTEMS`.

    Raises:
      UsageError: a name is unknown.
    """
    wanted = {*NEEDED, *names}
    for name in wanted - {*SYSTEMS}:
        raise UsageError(f"unknown system '{name}'{nearest(name, SYSTEMS)}")
    return [system for system in SYSTEMS if system in wanted]


def compile_missing(chosen: Sequence[Row], systems: Sequence[str], folder: Path) -> None:
    """Compiles programs that are not in the folder, if IREE's compiler is installed."""
    try:
        from benchmarks.gpu import make
    except ImportError:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for row in chosen:
        variants = {PROGRAM.get(system, system) for system in systems if system in OURS + STOCK}
        for system, message in make.make(row, folder, sorted(variants)).items():
            _log.warning("%s %s: %s does not compile: %s", row.work, row.dtype, system, message)


def run(
    chosen: Sequence[Row],
    systems: Sequence[str],
    folder: Path,
    *,
    minutes: float = MINUTES,
    side_seconds: float = SIDE_SECONDS,
    warm: int = WARMUP_PROCESSES,
    into: Path = results.FOLDER,
) -> results.Results:
    """Measures rows in separate processes, and writes the results after each.

    Args:
      chosen: the rows, in the order of their measurement.
      systems: names from `SYSTEMS`.
      folder: directory of the programs.
      minutes: maximum duration of the run.
      side_seconds: time limit of a system's compilation of a row.
      warm: number of processes that fill torch.compile's cache first.
      into: directory of the results; they are added to a file that is there.

    Raises:
      MlirfuseError: nothing could be measured.
    """
    end = time.monotonic() + 60 * minutes
    began = time.monotonic()
    left = {row.name: row for row in chosen}
    request: dict[str, Any] = {
        "folder": str(folder),
        "systems": [*systems],
        "seconds": side_seconds,
    }
    if warm and "torch_compile" in systems:
        _warm([*left], warm, end)
        _log.info("torch.compile's cache is filled after %.0f s", time.monotonic() - began)
    measured = Merged(into)
    skip: dict[str, dict[str, str]] = {}
    device = ""
    while left and time.monotonic() < end:
        last = ("", "", "")
        for line in _lines({**request, "rows": [*left], "skip": skip, "warm": False}, end):
            if "begin" in line:
                message = line.get("said", "its process died or hung")
                last = line["begin"], line["system"], message
            elif "rates" in line:
                device = line["device"]
                measured.begin(device, line["rates"], line["versions"])
            elif "row" in line:
                row = left.pop(line["row"])
                measured.add(row, line["systems"], line.get(COPY))
                _log.info("%4.0f s %s", time.monotonic() - began, brief(measured.row(row)))
        if not left or time.monotonic() >= end:
            break
        name, system, message = last
        if not name or system in skip.get(name, {}):
            raise MlirfuseError(f"the measuring process dies before or after '{name} {system}'")
        if system == "timing":
            _log.warning("%s: left out, its calls died", left.pop(name).work)
        else:
            skip.setdefault(name, {})[system] = message
    if not device:
        raise MlirfuseError("nothing was measured: is there a GPU?")
    _log.info("%d rows were not reached", len(left))
    return measured.results


def _lines(request: Mapping[str, Any], end: float) -> Iterator[dict[str, Any]]:
    """The messages of a new process, until it ends, hangs or time is up."""
    command = [sys.executable, "-m", "benchmarks.gpu.worker"]
    # These processes run concurrently, with one compiling thread each.
    threads = {"TORCHINDUCTOR_COMPILE_THREADS": "1"} if request["warm"] else {}
    # PyTorch's profiler never releases CUPTI by default, and recording CUDA graphs needs it.
    environment = {**os.environ, **threads, "TEARDOWN_CUPTI": "1"}
    patience = request["seconds"] + HANG_SECONDS
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request).encode())
        process.stdin.close()
        try:
            yield from json_lines(
                process.stdout.fileno(), lambda: min(patience, end - time.monotonic())
            )
        finally:
            process.kill()


def _warm(names: Sequence[str], count: int, end: float) -> None:
    """Fills torch.compile's cache with several processes."""
    from concurrent.futures import ThreadPoolExecutor

    def part(index: int) -> None:
        request = {"rows": names[index::count], "warm": True, "seconds": SIDE_SECONDS}
        for _ in _lines(request, end):
            pass

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(part, range(min(count, len(names)))))


# --- results -----------------------------------------------------------------------------------


def merge(newer: Path, folder: Path) -> None:
    """Merges newer results into those of a folder, whose other rows are marked as earlier.

    Raises:
      UsageError: the devices differ.
      MlirfuseError: a folder has no results.
    """
    kept, later = results.load(SUITE, folder), results.load(SUITE, newer)
    if kept.device != later.device:
        raise UsageError(
            f"results of '{later.device}' cannot be merged into those of '{kept.device}'"
        )
    there = {(entry.work, entry.dtype) for entry in later.rows}
    for entry in kept.rows:
        if (entry.work, entry.dtype) not in there:
            entry.details["earlier"] = True
            later.rows.append(entry)
    _sort(later)
    later.save(folder)


def _sort(measured: results.Results) -> None:
    order = {(r.work, r.dtype): index for index, r in enumerate(rows.rows())}
    measured.rows.sort(key=lambda r: order.get((r.work, r.dtype), len(order)))


class Merged:
    """Growing results, which continue those of an earlier run on the same device and day."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.results = results.describe(
            SUITE, [], load=os.getloadavg()[0], quick=False, complete=True
        )
        self.results.device = ""

    def begin(self, device: str, rates: Mapping[str, float], versions: Mapping[str, str]) -> None:
        """Sets the machine, and loads its earlier results.

        Args:
          device: name of the device.
          rates: bytes and operations per second, measured at the start of this run.
          versions: package -> version on the device.
        """
        if self.results.device:
            return
        try:
            before = results.load(SUITE, self._folder)
        except MlirfuseError:
            before = None
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        if before is not None and (before.device, before.date) == (device, today):
            self.results = before
        self.results.device = device
        self.results.rates = dict(rates)
        self.results.versions.update(versions)

    def row(self, row: Row) -> results.Row:
        """The row's entry, a new one if there is none."""
        for entry in self.results.rows:
            if (entry.work, entry.dtype) == (row.work, row.dtype):
                return entry
        entry = results.Row(work=row.work, dtype=row.dtype, ours_ms=None)
        self.results.rows.append(entry)
        return entry

    def add(
        self,
        row: Row,
        systems: Mapping[str, Mapping[str, Any]],
        copy: Sequence[float] | None = None,
    ) -> None:
        """Adds the systems of a row, and writes the file."""
        entered(self.row(row), row, systems, self.results.rates, copy)
        _sort(self.results)
        self.results.save(self._folder)


def entered(
    entry: results.Row,
    row: Row,
    systems: Mapping[str, Mapping[str, Any]],
    rates: Mapping[str, float],
    copy: Sequence[float] | None = None,
) -> None:
    """Adds a run's systems to the entry of a row; ratios are of that run's rounds.

    Args:
      entry: entry of the results, which is changed.
      row: the measured row.
      systems: system -> the worker's fields.
      rates: rates of the device.
      copy: times of a copy of as many bytes in the same rounds, in seconds.
    """
    cost = rows.cost(row)
    at = rates["copy"], rates[f"product_{row.dtype}"]
    entry.limit_ms = cost.limit_ms(*at)
    correct = {
        system: fields["seconds"]
        for system, fields in systems.items()
        if "seconds" in fields and fields["error"] <= row.tolerance
    }
    ours = next((system for system in OURS if system in correct), None)
    known = entry.details.setdefault("sides", {})
    samples = Samples(correct)
    for system, fields in systems.items():
        note = {key: fields[key] for key in ("error", "said") if key in fields}
        if "seconds" in fields:
            note["ms"] = Samples({system: fields["seconds"]}).milliseconds(system)
            if system not in correct:
                note["said"] = f"wrong: error {fields['error']:.1e} above {row.tolerance:.1e}"
        for key in ("kernels_s", "queued_s"):
            if key in fields:
                note[key.replace("_s", "_ms")] = fields[key] * 1e3
        known[system] = note
    if ours is not None:
        entry.ours_ms = samples.milliseconds(ours)
        entry.error = systems[ours]["error"]
        for system in correct:
            if system != ours:
                entry.peers[system] = samples.milliseconds(system)
                entry.ratios[system] = dataclasses.asdict(samples.ratio(system, ours))
    if copy is not None:
        entry.details["copy_ms"] = Samples({COPY: copy}).milliseconds(COPY)
    entry.details.update(
        ours=ours,
        earlier=False,
        rank=row.rank,
        block=row.block,
        flops=cost.flops,
        bytes=cost.bytes,
        memory_bound=cost.memory_bound(*at),
    )


def brief(entry: results.Row) -> str:
    """One line about a row: time of each system in microseconds, ours first."""
    parts = []
    for system, note in entry.details["sides"].items():
        parts.append(f"{system} {note['ms'] * 1e3:.0f}" if "ms" in note else f"{system} -")
        if "said" in note:
            parts[-1] += f" ({note['said'][:60]})"
    limit = 0.0 if entry.limit_ms is None else entry.limit_ms * 1e3
    return f"{entry.work} {entry.dtype}: limit {limit:.0f} {', '.join(parts)}"
