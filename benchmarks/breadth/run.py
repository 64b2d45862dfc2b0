"""Random programs beside eager PyTorch and torch.compile: `python -m benchmarks breadth --seed=7`.

Programs of one to six ops and of whole blocks are drawn from all classes of operators, in f16, bf16
and f32, with sizes that are log-uniform and often odd. Processes compile them, with the default
flags of mlirfuse and with torch.compile; a process for each GPU compares each result with float64
and times the kernels of a call. The same seed gives the same programs.

  python -m benchmarks breadth --seed=7 --programs=100
  python -m benchmarks breadth --seed=7 --compile-only --target=cuda:sm_90     without a GPU
  python -m benchmarks breadth --again=0.9     those of the record that were under 0.9
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.breadth import report
from benchmarks.breadth.classes import named
from mlirfuse.benchmarking.messages import json_lines
from mlirfuse.core import MlirfuseError

SILENCE = 150.0
"""Seconds without a message after which a process counts as hung."""


def main(words: list[str] | None = None) -> int:
    """Compiles and measures the programs of a seed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks breadth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--seed", type=int, default=None, metavar="N", help="new each run if left out"
    )
    parser.add_argument("--programs", type=int, default=100, metavar="N")
    parser.add_argument("--only", default="", metavar="NAME,...", help="classes of programs")
    parser.add_argument("--target", default="cuda", help="as for mlirfuse-compile")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--gpus", type=int, default=1, metavar="N")
    parser.add_argument("--minutes", type=float, default=30.0, help="no program starts after them")
    parser.add_argument("--compile-only", action="store_true", help="no GPU: coverage and failures")
    parser.add_argument("--results", type=Path, default=results.FOLDER, metavar="FOLDER")
    parser.add_argument(
        "--again",
        type=float,
        metavar="RATIO",
        help="programs of the file of results under a ratio, or not right; shown, not recorded",
    )
    given = parser.parse_args(words)
    seed = int(time.time()) % 1_000_000 if given.seed is None else given.seed
    try:
        names = chosen(seed, given)
        with tempfile.TemporaryDirectory(prefix="mlirfuse-breadth-") as folder:
            run = Run(seed, names, Path(folder), given.target, 60 * given.minutes)
            run.prepare(given.jobs, given.gpus)
            if not given.compile_only:
                run.measure(given.gpus)
            run.wait()
    except MlirfuseError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    record = run.record()
    if not given.compile_only and given.again is None:
        report.save(record, given.results)
    print(report.text(record))
    return 0


def chosen(seed: int, given: argparse.Namespace) -> list[str]:
    """Names of programs."""
    if given.again is not None:
        records = report.load(given.results).values()
        programs = [p for record in records for p in record["programs"]]
        names = [p["name"] for p in programs if (report.ratio(p) or 0.0) < given.again]
    else:
        names = [f"{seed}-{index}" for index in range(given.programs)]
    classes = {name for name in given.only.split(",") if name}
    names = [name for name in names if not classes or named(name).family in classes]
    if not names:
        raise MlirfuseError(f"no program to run: --only={given.only}, --again={given.again}")
    return names


class Run:
    """The programs of a seed on their way through the processes.

    Attributes:
      seed: the seed.
      chosen: names of the programs.
      fields: what is known of each program.
      about: device, rates and versions.
    """

    def __init__(
        self, seed: int, chosen: list[str], folder: Path, target: str, seconds: float
    ) -> None:
        self.seed, self.chosen = seed, chosen
        self.fields: dict[str, dict[str, Any]] = {}
        self.about: dict[str, Any] = {}
        self._request = {"folder": str(folder), "target": target}
        self._end = time.monotonic() + seconds
        self._waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._compilers: list[threading.Thread] = []
        self._timers: list[threading.Thread] = []

    def prepare(self, jobs: int, gpus: int) -> None:
        """Starts the processes that compile."""
        for name in self.chosen:
            self._waiting.put(name)
        for job in range(max(1, min(jobs, len(self.chosen)))):
            thread = threading.Thread(target=self._compile, args=(job % max(1, gpus),))
            thread.start()
            self._compilers.append(thread)

    def measure(self, gpus: int) -> None:
        """Starts the processes that measure."""
        for gpu in range(gpus):
            thread = threading.Thread(target=self._measure, args=(gpu,))
            thread.start()
            self._timers.append(thread)

    def wait(self) -> None:
        """Waits until all programs are measured, or time is up."""
        for thread in self._compilers:
            thread.join()
        for _ in self._timers:
            self._ready.put(None)
        for thread in self._timers:
            thread.join()

    def _compile(self, gpu: int) -> None:
        worker = None
        while time.monotonic() < self._end:
            try:
                name = self._waiting.get_nowait()
            except queue.Empty:
                break
            worker = worker or _Worker("prepare", self._request, gpu)
            found = worker.ask(name, self._end)
            if found is None:
                worker.stop()
                worker, found = None, {"said": "its compiling process died or hung"}
            self.fields.setdefault(name, {}).update(found)
            self._ready.put(name)
        if worker is not None:
            worker.stop()

    def _measure(self, gpu: int) -> None:
        worker = None
        while (name := self._ready.get()) is not None and time.monotonic() < self._end:
            if worker is None:
                worker = _Worker("measure", self._request, gpu)
                self.about = worker.line(self._end) or self.about
            found = worker.ask(name, self._end)
            if found is None:
                worker.stop()
                worker, found = None, {"ours_said": "its measuring process died or hung"}
            self.fields[name].update(found)
            known = self.fields[name]
            print(report.line(named(name), known), file=sys.stderr, flush=True)
        if worker is not None:
            worker.stop()

    def record(self) -> dict[str, Any]:
        """The results, by program."""
        programs = []
        for name in (name for name in self.chosen if name in self.fields):
            program = named(name)
            about = {"name": name, "class": program.family, "dtype": program.dtype}
            about |= {"text": program.text, "flops": program.drawn.flops}
            programs.append({**about, **self.fields[name]})
        return {"seed": self.seed, **self.about, "programs": programs}


class _Worker:
    """A process that answers a line of JSON to each name."""

    def __init__(self, module: str, request: dict[str, Any], gpu: int) -> None:
        environment = {
            **os.environ,
            "CUDA_VISIBLE_DEVICES": str(gpu),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "TEARDOWN_CUPTI": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.breadth.{module}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        assert self._process.stdout is not None
        self._end = 0.0
        self._lines = json_lines(
            self._process.stdout.fileno(), lambda: min(SILENCE, self._end - time.monotonic())
        )
        self._send(json.dumps(request))

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            pass

    def ask(self, name: str, end: float) -> dict[str, Any] | None:
        """The answer for a program; None where the process died or hung."""
        self._send(name)
        return self.line(end)

    def line(self, end: float) -> dict[str, Any] | None:
        """The next line; None where the process died or hung."""
        self._end = end
        return next(self._lines, None)

    def stop(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
