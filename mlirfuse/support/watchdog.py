"""Ends the tools of a process that was killed: SIGKILL runs no handler of its own.

    start()
    process = subprocess.Popen(...)
    with watched(process.pid):
        process.wait()

One small process for each that runs tools holds the reading end of a pipe; when the writing end is
closed, however the process ended, it kills the process groups that are registered. The
kernel's own signal to children (PR_SET_PDEATHSIG) would have to be requested between fork and
exec, where a process with threads may run no Python.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

_PROGRAM = """
import os, signal, sys
groups = set()
for line in sys.stdin.buffer:
    (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


def start() -> None:
    """Starts the watcher of this process, so that a tool is without one for a write to a pipe."""
    _watcher.send("")


@contextlib.contextmanager
def watched(group: int) -> Iterator[None]:
    """Registers a process group to be killed if this process dies within the block."""
    _watcher.send(f"+{group}\n")
    try:
        yield
    finally:
        _watcher.send(f"-{group}\n")


class _Watcher:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def send(self, line: str) -> None:
        """Writes a line; without a watcher, as on Windows, nothing happens."""
        if sys.platform == "win32" or not sys.executable:
            return
        with self._lock, contextlib.suppress(OSError):
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _PROGRAM],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            assert self._process.stdin is not None
            os.write(self._process.stdin.fileno(), line.encode())

    def close(self) -> None:
        """Ends the watcher, whose tools have ended."""
        with self._lock:
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.close()
                self._process.wait()
                self._process = None

    def forget(self) -> None:
        """In a forked process: leaves the watcher to the parent, whose end it has to see."""
        self._lock = threading.Lock()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.returncode = 0
            self._process = None


_watcher = _Watcher()

atexit.register(_watcher.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_watcher.forget)
