"""Measures the rows on this machine's GPU: `python -m benchmarks gpu [WORD...]`.

Programs that are not there yet are compiled first, where there is a compiler; on a machine without
one `--programs` names what `benchmarks.gpu.make` wrote elsewhere. It needs iree-base-runtime,
PyTorch and, for the side `xla`, JAX; a side that cannot run says so in its row.

The results are written after each row. A second run adds its sides and rows to the same file, so a
slow side may have a run of its own; `kernels` is in each of them, because ratios are of one run.
`--missing` goes on where a run was out of time. `--merge` keeps the rows that a later run, on a GPU
elsewhere, did not reach, and marks them as earlier ones.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import logging
import os
import select as selectors
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import results, tables, timing
from benchmarks.gpu import rows
from benchmarks.gpu.names import COPY, NEEDED, OURS, PROGRAM, SIDES, STOCK
from benchmarks.gpu.rows import Row
from benchmarks.suites import gpu
from mlirfuse.core import MlirfuseError, UsageError, nearest

MINUTES = 9.0
"""Of a run, as the default."""

SIDE_SECONDS = 45.0
"""That a side may take to compile a row, as the default."""

PATIENCE = 60.0
"""Seconds beyond those in which a process that says nothing counts as hung."""

WARM_PROCESSES = 8
"""That fill torch.compile's cache before the run; each wants about a gigabyte of the device."""

SUITE = "gpu"

PROGRAMS = Path(__file__).parent / "programs"
"""Where programs are kept, unless another folder is named."""

_log = logging.getLogger("benchmarks")


def main(words: Sequence[str] | None = None) -> int:
    """Measures what was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="*", metavar="WORD", help="rows whose name has it")
    parser.add_argument("--programs", type=Path, default=PROGRAMS, metavar="FOLDER")
    parser.add_argument("--sides", default=",".join(SIDES), metavar="NAME,...")
    parser.add_argument("--ranks", type=int, default=2, metavar="N", help="rows of ranks 0 to N")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="after which no row begins")
    parser.add_argument("--side-seconds", type=float, default=SIDE_SECONDS)
    parser.add_argument("--warm", type=int, default=WARM_PROCESSES, metavar="N")
    parser.add_argument("--results", type=Path, default=results.FOLDER, metavar="FOLDER")
    parser.add_argument("--missing", action="store_true", help="only rows without results yet")
    parser.add_argument(
        "--merge", type=Path, metavar="FOLDER", help="only put its results over those that are kept"
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
        sides = check_sides(given.sides.split(","))
        compile_missing(chosen, sides, given.programs)
        measured = run(
            chosen,
            sides,
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
    """The rows of which a folder has no results."""
    if not (folder / f"{SUITE}.json").exists():
        return list(chosen)
    known = {(entry.work, entry.dtype) for entry in results.load(SUITE, folder).rows}
    return [row for row in chosen if (row.work, row.dtype) not in known]


def check_sides(names: Iterable[str]) -> list[str]:
    """The sides in their order, ours among them.

    Raises:
      UsageError: there is no side of such a name.
    """
    wanted = {*NEEDED, *names}
    for name in wanted - {*SIDES}:
        raise UsageError(f"unknown side '{name}'{nearest(name, SIDES)}")
    return [side for side in SIDES if side in wanted]


def compile_missing(chosen: Sequence[Row], sides: Sequence[str], folder: Path) -> None:
    """Compiles what is not in the folder, where there is a compiler of IREE."""
    try:
        from benchmarks.gpu import make
    except ImportError:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for row in chosen:
        variants = {PROGRAM.get(side, side) for side in sides if side in OURS + STOCK}
        for side, said in make.make(row, folder, sorted(variants)).items():
            _log.warning("%s %s: %s does not compile: %s", row.work, row.dtype, side, said)


def run(
    chosen: Sequence[Row],
    sides: Sequence[str],
    folder: Path,
    *,
    minutes: float = MINUTES,
    side_seconds: float = SIDE_SECONDS,
    warm: int = WARM_PROCESSES,
    into: Path = results.FOLDER,
) -> results.Results:
    """Measures rows in processes of their own, and writes what is known after each.

    Args:
      chosen: the rows, in the order in which they are measured.
      sides: of `SIDES`.
      folder: of the programs.
      minutes: after which the run ends, whatever is left.
      side_seconds: that a side may take to compile a row.
      warm: how many processes fill torch.compile's cache first.
      into: folder of the results; a file there is added to.

    Raises:
      MlirfuseError: nothing could be measured.
    """
    end = time.monotonic() + 60 * minutes
    began = time.monotonic()
    left = {row.name: row for row in chosen}
    asked: dict[str, Any] = {"folder": str(folder), "sides": [*sides], "seconds": side_seconds}
    if warm and "torch_compile" in sides:
        _warm([*left], warm, end)
        _log.info("torch.compile's cache is filled after %.0f s", time.monotonic() - began)
    measured = Merged(into)
    skip: dict[str, dict[str, str]] = {}
    where = ""
    while left and time.monotonic() < end:
        last = ("", "", "")
        for line in _lines({**asked, "rows": [*left], "skip": skip, "warm": False}, end):
            if "begin" in line:
                said = line.get("said", "its process died or hung")
                last = line["begin"], line["side"], said
            elif "rates" in line:
                where = line["device"]
                measured.begin(where, line["rates"], line["versions"])
            elif "row" in line:
                row = left.pop(line["row"])
                measured.add(row, line["sides"], line.get(COPY))
                _log.info("%4.0f s %s", time.monotonic() - began, brief(measured.row(row)))
        if not left or time.monotonic() >= end:
            break
        name, side, said = last
        if not name or side in skip.get(name, {}):
            raise MlirfuseError(f"the process that measures dies before or after '{name} {side}'")
        if side == "timing":
            _log.warning("%s: left out, its calls died", left.pop(name).work)
        else:
            skip.setdefault(name, {})[side] = said
    if not where:
        raise MlirfuseError("nothing was measured: is there a GPU?")
    _log.info("%d rows were not reached", len(left))
    return measured.results


def _lines(asked: Mapping[str, Any], end: float) -> Iterator[dict[str, Any]]:
    """What a new process says, until it ends, hangs or time is up."""
    command = [sys.executable, "-m", "benchmarks.gpu.worker"]
    # Side by side, these processes compile in one thread each.
    threads = {"TORCHINDUCTOR_COMPILE_THREADS": "1"} if asked["warm"] else {}
    # PyTorch's profiler keeps CUPTI to itself for ever, and recordings of CUDA graphs need it.
    environment = {**os.environ, **threads, "TEARDOWN_CUPTI": "1"}
    patience = asked["seconds"] + PATIENCE
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(asked).encode())
        process.stdin.close()
        source, text = process.stdout.fileno(), b""
        try:
            while True:
                wait = min(patience, end - time.monotonic())
                if wait <= 0 or not selectors.select([source], [], [], wait)[0]:
                    return
                data = os.read(source, 1 << 16)
                if not data:
                    return
                *whole, text = (text + data).split(b"\n")
                yield from map(json.loads, whole)
        finally:
            process.kill()


def _warm(names: Sequence[str], count: int, end: float) -> None:
    """Lets torch.compile fill its cache, in several processes at a time."""
    from concurrent.futures import ThreadPoolExecutor

    def part(index: int) -> None:
        asked = {"rows": names[index::count], "warm": True, "seconds": SIDE_SECONDS}
        for _ in _lines(asked, end):
            pass

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(part, range(min(count, len(names)))))


# --- results -----------------------------------------------------------------------------------


def merge(newer: Path, folder: Path) -> None:
    """Puts the results of one folder over those of another, whose other rows are marked as earlier.

    Raises:
      UsageError: they are of different devices.
      MlirfuseError: one has none.
    """
    kept, later = results.load(SUITE, folder), results.load(SUITE, newer)
    if kept.device != later.device:
        raise UsageError(f"results of '{later.device}' cannot be put over those of '{kept.device}'")
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
    """Results that grow, in the file of an earlier run on the same device if there is one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.results = results.describe(
            SUITE, [], load=os.getloadavg()[0], quick=False, complete=True
        )
        self.results.device = ""

    def begin(self, device: str, rates: Mapping[str, float], versions: Mapping[str, str]) -> None:
        """Takes note of the machine, and of what is known of it already.

        Args:
          device: its name.
          rates: bytes and operations per second, measured at the start of this run.
          versions: of what runs there.
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
        sides: Mapping[str, Mapping[str, Any]],
        copy: Sequence[float] | None = None,
    ) -> None:
        """Adds the sides of a row, and writes the file."""
        entered(self.row(row), row, sides, self.results.rates, copy)
        _sort(self.results)
        self.results.save(self._folder)


def entered(
    entry: results.Row,
    row: Row,
    sides: Mapping[str, Mapping[str, Any]],
    rates: Mapping[str, float],
    copy: Sequence[float] | None = None,
) -> None:
    """Puts a run's sides into the entry of a row; ratios are of that run's rounds.

    Args:
      entry: changed.
      row: what was measured.
      sides: side -> what the worker says of it.
      rates: of the device.
      copy: seconds of a copy of as many bytes, in the same rounds.
    """
    cost = rows.cost(row)
    at = rates["copy"], rates[f"product_{row.dtype}"]
    entry.limit_ms = cost.limit_ms(*at)
    right = {
        side: said["seconds"]
        for side, said in sides.items()
        if "seconds" in said and said["error"] <= row.tolerance
    }
    ours = next((side for side in OURS if side in right), None)
    known = entry.details.setdefault("sides", {})
    samples = timing.Samples(right)
    for side, said in sides.items():
        note = {key: said[key] for key in ("error", "said") if key in said}
        if "seconds" in said:
            note["ms"] = timing.Samples({side: said["seconds"]}).milliseconds(side)
            if side not in right:
                note["said"] = f"wrong: error {said['error']:.1e} above {row.tolerance:.1e}"
        for key in ("kernels_s", "queued_s"):
            if key in said:
                note[key.replace("_s", "_ms")] = said[key] * 1e3
        known[side] = note
    if ours is not None:
        entry.ours_ms = samples.milliseconds(ours)
        entry.error = sides[ours]["error"]
        for side in right:
            if side != ours:
                entry.peers[side] = samples.milliseconds(side)
                entry.ratios[side] = dataclasses.asdict(samples.ratio(side, ours))
    if copy is not None:
        entry.details["copy_ms"] = timing.Samples({COPY: copy}).milliseconds(COPY)
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
    """One line about a row: microseconds of each side, ours first."""
    parts = []
    for side, note in entry.details["sides"].items():
        parts.append(f"{side} {note['ms'] * 1e3:.0f}" if "ms" in note else f"{side} -")
        if "said" in note:
            parts[-1] += f" ({note['said'][:60]})"
    limit = 0.0 if entry.limit_ms is None else entry.limit_ms * 1e3
    return f"{entry.work} {entry.dtype}: limit {limit:.0f} {', '.join(parts)}"
