"""Processes of systems: all but one are stopped at any time."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TextIO

from mlirfuse.benchmarking.messages import json_lines
from mlirfuse.benchmarking.timing import turn_times, warm
from mlirfuse.support import exit_code, module_process, watchdog

BURST_SECONDS = 0.05
"""Approximate total time of the timed calls of a burst."""

NO_ANSWER = "no answer in time"
"""The reason of a process that hangs."""

BURST_PATIENCE = 120.0
"""Seconds after which a burst of calls counts as hung."""

ENDING_SECONDS = 5.0
"""Seconds that a process takes to end after its last line."""


class Process:
    """A process of a worker, in a process group that is stopped between bursts.

    Threads of the systems wait for each other by spinning; a stopped process takes no core from
    the system whose turn it is.

    Attributes:
      ended: whether it was ended from here.

    Args:
      worker: name of the module that runs as the process. It reads the request from standard
        input, writes a line of JSON once its system is ready, and calls `serve`.
      request: its first line of input, as JSON.
      environment: its variables beside those of this process.
    """

    def __init__(
        self, worker: str, request: Mapping[str, Any], environment: Mapping[str, str]
    ) -> None:
        # A pipe that nobody reads would block the process.
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, *module_process.arguments(worker)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        self._end, self._late, self._told = 0.0, False, ""
        self.ended = False
        assert self._process.stdout is not None
        self._lines = json_lines(
            self._process.stdout.fileno(), lambda: self._end - time.monotonic()
        )
        self._send(json.dumps(request))

    @property
    def group(self) -> int:
        """Its process group."""
        return self._process.pid

    def line(self, seconds: float) -> dict[str, Any] | None:
        """The next line; None where the process ended or took longer."""
        self._end = time.monotonic() + seconds
        found = next(self._lines, None)
        self._late = found is None and time.monotonic() >= self._end
        return found

    def burst(self) -> list[float] | None:
        """The seconds of some calls; None where the process ended, failed or hung."""
        self.signal(signal.SIGCONT)
        found = self.ask("")
        self.stop()
        return found

    def ask(self, which: str) -> list[float] | None:
        """As `burst`, of a process that is not stopped.

        Args:
          which: its line of input; the process knows what it calls for it.
        """
        self._send(which)
        found = self.line(BURST_PATIENCE)
        if found is not None and "said" in found:
            self._told = found["said"]
            return None
        return None if found is None else list(found["seconds"])

    def stop(self) -> None:
        """Stops the process until its next burst."""
        self.signal(signal.SIGSTOP)

    def signal(self, number: int) -> None:
        """Sends a signal to the process and those that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.group, number)

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()

    def end(self) -> str:
        """Ends the process; returns the reason why it gave no answer, with its last line."""
        if self._told:
            self.close()
            return self._told
        if not self._late:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(ENDING_SECONDS)
        code = self._process.poll()
        line = exit_code.last_line(self._said)
        self.close()
        if code is None:
            return NO_ANSWER
        how = f"its process {exit_code.how(code)}"
        return f"{how}: {line}" if line else how

    def close(self) -> None:
        """Ends the process and what it started."""
        self.ended = True
        self.signal(signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self._said.close()


@contextlib.contextmanager
def started(
    worker: str, request: Mapping[str, Any], environment: Mapping[str, str]
) -> Iterator[Process]:
    """A process that ends with the block, and with this process however it ends.

    Arguments are those of `Process`.
    """
    process = Process(worker, request, environment)
    with watchdog.watched(process.group):
        try:
            yield process
        finally:
            process.close()


def opened() -> tuple[TextIO, dict[str, Any]]:
    """In a worker: the stream for its lines of JSON, and the request.

    Compilers write to standard output, so the lines go to a duplicate of it.
    """
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return lines, json.loads(sys.stdin.readline())


def serve(lines: TextIO, about: Mapping[str, Any], call: Callable[[], object]) -> None:
    """In a worker: warms the call up, says that it is ready, and answers each line with a burst.

    Args:
      lines: stream for lines of JSON.
      about: facts about the system, for the first line.
      call: a call that returns when its work is done.
    """
    calls = warm(call, turn_seconds=BURST_SECONDS)
    lines.write(json.dumps(about) + "\n")
    for _ in sys.stdin:
        lines.write(json.dumps({"seconds": turn_times(call, calls)}) + "\n")
