"""Whole models beside PyTorch, ONNX Runtime, OpenVINO and IREE: `python -m benchmarks cpu`.

Each system of a model is a process that compiles and then waits, stopped; in each round every one
of them makes a burst of calls, in turns. A ratio is the median of the rounds' ratios. Results are
compared with float64. The record of this machine is saved after each model; models that it lacks
come first, then those whose times are the oldest, so a run with --minutes continues the last one.
A run of some of the systems has a record of its own.

  python -m benchmarks cpu
  python -m benchmarks cpu --only=ResNet,BERT --threads=2 --target=cpu:x86-64-v3 --minutes=20
  python -m benchmarks cpu --only=smoke             a tiny model: which systems run here
  python -m benchmarks cpu --compile-only --systems=ours,stock     dispatches and times of compiling

ONNX Runtime and OpenVINO are in the extra `bench`: pip install 'mlirfuse[bench,demo]'. With a
target of AVX2 alone on a wider machine PyTorch, MKL, oneDNN and torch.compile are limited to AVX2
too, and ONNX Runtime and OpenVINO are copies that see no more; PyTorch's quantized layers are not.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.cpu import record, report, rows, systems
from benchmarks.cpu.rows import Row
from mlirfuse import targets
from mlirfuse.benchmarking.environment import environment
from mlirfuse.benchmarking.process import Process, started
from mlirfuse.benchmarking.rounds import bursts
from mlirfuse.benchmarking.timing import Samples
from mlirfuse.core import MlirfuseError, UsageError, nearest
from mlirfuse.targets.base import Target

_log = logging.getLogger("benchmarks")


def main(words: list[str] | None = None) -> int:
    """Measures models and saves the record of this machine."""
    given = _arguments(words)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    _log.setLevel(logging.INFO)
    try:
        chosen = rows.select([word for word in given.only.split(",") if word])
        if not chosen:
            raise UsageError(f"--only={given.only} names no model{nearest(given.only, rows.WORK)}")
        if given.list:
            print("\n".join(row.name for row in chosen))
            return 0
        return _run(given, chosen)
    except MlirfuseError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks cpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", default="", metavar="WORD,...", help="models whose name or type has a word"
    )
    parser.add_argument("--threads", default="1,2", metavar="N,...", help="numbers of threads")
    parser.add_argument("--target", default="cpu", help="as for mlirfuse-compile")
    parser.add_argument(
        "--systems",
        default=",".join(systems.SYSTEMS),
        metavar="NAME,...",
        help=f"some of {', '.join(systems.SYSTEMS)}",
    )
    parser.add_argument("--minutes", type=float, default=600.0, help="no model starts after them")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="of the bursts of a model with N threads"
    )
    parser.add_argument(
        "--patience", type=float, default=600.0, metavar="SECONDS", help="for one compilation"
    )
    parser.add_argument("--compile-only", action="store_true", help="of IREE's systems; no times")
    parser.add_argument("--list", action="store_true", help="print the models")
    parser.add_argument("--results", type=Path, default=results.FOLDER, metavar="FOLDER")
    return parser.parse_args(words)


def _run(given: argparse.Namespace, chosen: Sequence[Row]) -> int:
    target = targets.parse(given.target)
    if target.name != "cpu":
        raise UsageError(f"--target={given.target} is not a CPU")
    counts = _counts(given.threads)
    names = [name for name in given.systems.split(",") if name]
    for name in names:
        if name not in systems.SYSTEMS:
            raise UsageError(f"no system '{name}'{nearest(name, systems.SYSTEMS)}")
    load = os.getloadavg()[0]
    if load > results.MAX_QUIET_LOAD:
        _log.warning("other processes are running (load %.1f): the ratios are uncertain", load)
    if given.compile_only:
        names = [name for name in names if name in systems.IREE]
        counts = counts[:1]
    whole = set(names) == set(systems.SYSTEMS) and rows.SMOKE not in chosen
    file = record.FILE if whole else record.PARTIAL_FILE
    known = {n: record.load(record.key(target.arch, n), given.results, file) for n in counts}
    narrow = report.is_limited(target.arch, record.instructions())
    end = time.monotonic() + 60 * given.minutes
    failed = 0
    for row in record.oldest_first(chosen, known.values()):
        if time.monotonic() > end:
            break
        with tempfile.TemporaryDirectory(prefix="mlirfuse-cpu-") as folder:
            measurement = Measurement(row, names, target, Path(folder), given.patience)
            for threads, found in measurement.rows(counts, given.seconds, given.compile_only):
                print(report.line(found, threads, is_narrow=narrow), flush=True)
                failed += "said" in found.details["systems"].get(systems.OURS, {})
                if not given.compile_only:
                    record.save(found, target.arch, threads, load, given.results, file)
    if not given.compile_only:
        report.show(record.load_all(given.results, file), target.arch, counts)
    return 1 if failed else 0


def _counts(text: str) -> list[int]:
    words = text.split(",")
    if not all(word.isdecimal() and int(word) for word in words):
        raise UsageError(f"--threads={text} is not a list of numbers from 1")
    return [int(word) for word in words]


class Measurement:
    """One row with its processes.

    Args:
      row: the row.
      names: the systems.
      target: the target of IREE's systems.
      folder: empty directory for programs and models.
      patience: seconds that a system may take to compile.
    """

    def __init__(
        self, row: Row, names: Sequence[str], target: Target, folder: Path, patience: float
    ) -> None:
        self.row, self.names, self.target = row, names, target
        self.patience = patience
        self._request = {"row": row.name, "target": str(target), "folder": str(folder)}
        self._environment = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}

    def rows(
        self, counts: Iterable[int], seconds: float, compile_only: bool
    ) -> Iterable[tuple[int, results.Row]]:
        """The results with each number of threads."""
        exported = self._export()
        for threads in counts:
            with contextlib.ExitStack() as processes:
                notes: dict[str, dict[str, Any]] = {}
                ready: dict[str, Process] = {}
                for system in self.names:
                    process, notes[system] = self._start(system, threads, exported, processes)
                    if process is not None:
                        ready[system] = process
                samples = Samples({}) if compile_only else bursts(ready, notes, seconds)
            yield threads, record.row(self.row, notes, samples)

    def _export(self) -> dict[str, Any]:
        _log.info("%s: exporting", self.row.name)
        with started(systems.WORKER, {**self._request, "system": systems.EXPORT}, {}) as process:
            found = process.line(self.patience)
            if found is None:
                raise MlirfuseError(f"{self.row.name}: {process.end()}")
        return found

    def _start(
        self,
        system: str,
        threads: int,
        exported: dict[str, Any],
        processes: contextlib.ExitStack,
    ) -> tuple[Process | None, dict[str, Any]]:
        from_onnx = system in systems.FROM_ONNX or (
            self.row.dtype == "i8" and system in systems.IREE
        )
        if from_onnx and "onnx_said" in exported:
            return None, {"said": exported["onnx_said"]}
        _log.info("%s: %s, %d threads", self.row.name, system, threads)
        variables = self._environment | environment(threads, self.target.arch)
        request = {**self._request, "system": system, "threads": threads}
        process = processes.enter_context(started(systems.WORKER, request, variables))
        found = process.line(self.patience)
        if found is None:
            return None, {"said": process.end()}
        if "said" in found:
            process.end()
            return None, found
        process.stop()
        return process, found
