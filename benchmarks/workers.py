"""Processes of a benchmark that compile or measure, and answer with lines of JSON."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.benchmarking.messages import json_lines, without_folders
from mlirfuse.core import Reason

if TYPE_CHECKING:
    from mlirfuse import FusedModule

SILENCE = 400.0
"""Seconds without a message after which a process counts as hung; a compiler's step has 300."""


class Pipeline:
    """Programs on their way through processes that compile, and those that measure.

    Args:
      package: the package of the modules `prepare` and `measure` that the processes run.
      names: names of the programs.
      request: the first line of each process.
      seconds: no program starts after them.
      line: a measured program as the run shows it, from its name and fields.

    Attributes:
      fields: what is known of each program.
      about: device, rates and versions.
    """

    def __init__(
        self,
        package: str,
        names: Sequence[str],
        request: Mapping[str, Any],
        seconds: float,
        line: Callable[[str, dict[str, Any]], str],
    ) -> None:
        self.fields: dict[str, dict[str, Any]] = {}
        self.about: dict[str, Any] = {}
        self._package, self._names, self._line = package, [*names], line
        self._request = dict(request)
        self._end = time.monotonic() + seconds
        self._waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._compilers: list[threading.Thread] = []
        self._timers: list[threading.Thread] = []

    def prepare(self, jobs: int, gpus: int) -> None:
        """Starts the processes that compile."""
        for name in self._names:
            self._waiting.put(name)
        for job in range(max(1, min(jobs, len(self._names)))):
            thread = threading.Thread(target=self._compile, args=(job % max(1, gpus),))
            thread.start()
            self._compilers.append(thread)

    def measure(self, gpus: int) -> None:
        """Starts the processes that measure."""
        for gpu in range(gpus):
            thread = threading.Thread(target=self._measure, args=(gpu,))
            thread.start()
            self._timers.append(thread)

    def wait_for_compilers(self, seconds: float | None = None) -> None:
        """Waits until all programs are compiled, or time is up.

        Args:
          seconds: time to wait at most; None for the time of the run.
        """
        end = None if seconds is None else time.monotonic() + seconds
        for thread in self._compilers:
            thread.join(None if end is None else max(0.0, end - time.monotonic()))

    def wait(self) -> None:
        """Waits until all programs are measured, or time is up."""
        self.wait_for_compilers()
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
            worker = worker or Worker(f"{self._package}.prepare", self._request, gpu)
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
                worker = Worker(f"{self._package}.measure", self._request, gpu)
                self.about = worker.line(self._end) or self.about
            found = worker.ask(name, self._end)
            if found is None:
                worker.stop()
                worker, found = None, {"ours_said": "its measuring process died or hung"}
            self.fields[name].update(found)
            known = self.fields[name]
            print(self._line(name, known), file=sys.stderr, flush=True)
        if worker is not None:
            worker.stop()

    def results(self) -> list[tuple[str, dict[str, Any]]]:
        """Name and fields of the programs that were reached, in their order."""
        return [(name, self.fields[name]) for name in self._names if name in self.fields]


class Worker:
    """A process that answers a line of JSON to each name.

    Args:
      module: the Python module that it runs.
      request: the first line that it reads.
      gpu: index of the GPU that it sees.
    """

    def __init__(self, module: str, request: dict[str, Any], gpu: int) -> None:
        environment = {
            **os.environ,
            "CUDA_VISIBLE_DEVICES": str(gpu),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "TEARDOWN_CUPTI": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
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


def facts(program: FusedModule, seconds: float) -> dict[str, Any]:
    """A compiled program in the line of a process: coverage, and passes that were left out.

    Args:
      program: the program.
      seconds: the time of its compilation.
    """
    report = program.report
    return {
        "compile_s": seconds,
        "coverage": report.coverage,
        "left": report.left,
        "fell_back": [
            without_folders(f"{d.pass_name}: {d.detail}")[:200]
            for d in report.decisions
            if d.reason is Reason.FELL_BACK
        ],
        "notes": [without_folders(note)[:200] for note in report.notes],
    }
