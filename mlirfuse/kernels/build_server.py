"""Builds kernels in forks of one process that has imported Triton.

    done = build_server.run(request, folder, seconds)      as from `subprocess.run` of the worker

A start of the worker imports Triton for one to two seconds, and compiles a kernel in less. The
server is started by the first build, and ends with the process that started it. A kernel whose
compilation dies ends its own fork alone. Where there is no fork, each kernel has a process.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

from mlirfuse.support import module_process

WORKER = "mlirfuse.kernels.triton_worker"

SERVES = hasattr(os, "fork") and hasattr(socket, "AF_UNIX")

PATIENCE = 10.0
"""Seconds that the end of the server is waited for."""

_lock = threading.Lock()


class _Server:
    """The server of this process.

    Attributes:
      path: its socket; empty before the first build.
    """

    def __init__(self) -> None:
        self.path = ""
        self._stopped: weakref.finalize[..., _Server] | None = None

    def start(self) -> str:
        """The socket of the running server."""
        with _lock:
            if not self.path or not os.path.exists(self.path):
                self._start()
            return self.path

    def _start(self) -> None:
        folder = tempfile.mkdtemp(prefix="mlirfuse-builder-")
        path = os.path.join(folder, "socket")
        process = subprocess.Popen(
            [sys.executable, *module_process.arguments(WORKER, path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
        )
        assert process.stdout is not None
        with process.stdout as lines:
            listens = lines.readline()
        if not listens:
            _stop(process, folder)
            return
        self.path = path
        if self._stopped is not None:
            self._stopped()
        self._stopped = weakref.finalize(self, _stop, process, folder)


def _stop(process: subprocess.Popen[bytes], folder: str) -> None:
    """Closes the server's standard input, which ends it."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(PATIENCE)
    shutil.rmtree(folder, ignore_errors=True)


_server = _Server()


def use(path: str) -> None:
    """Lets this process ask a server that another one has started."""
    _server.path = path


def socket_path() -> str:
    """The socket of the server, which is started if there is none; empty if it cannot be."""
    return _server.start() if SERVES else ""


def run(request: str, folder: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """Runs the worker on a request.

    Args:
      request: the JSON that the worker reads.
      folder: its working directory.
      seconds: time limit.

    Raises:
      subprocess.TimeoutExpired: it ran out of time.
    """
    path = socket_path()
    if path:
        with contextlib.suppress(ConnectionError, FileNotFoundError):
            return _asked(path, request, folder, seconds)
    return subprocess.run(
        [sys.executable, *module_process.arguments(WORKER)],
        input=request,
        capture_output=True,
        text=True,
        timeout=seconds,
        cwd=folder,
        env=_environment(),
        check=False,
    )


def _environment() -> dict[str, str]:
    # Triton's interpreter, when this process uses it, is not for the one that compiles.
    return {name: v for name, v in os.environ.items() if name != "TRITON_INTERPRET"}


def _asked(
    path: str, request: str, folder: str, seconds: float
) -> subprocess.CompletedProcess[str]:
    """The answer of the server."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(path)
        asked: dict[str, Any] = {"request": request, "folder": folder, "seconds": seconds}
        line.sendall(json.dumps(asked).encode())
        line.shutdown(socket.SHUT_WR)
        with line.makefile() as answers:
            answer = answers.read()
    if not answer:
        raise ConnectionResetError("the server has died")
    code = int(answer)
    if code == TIMED_OUT:
        raise subprocess.TimeoutExpired(WORKER, seconds)
    out, err = (Path(folder, name) for name in (STDOUT, STDERR))
    texts = [file.read_text(errors="replace") if file.exists() else "" for file in (out, err)]
    return subprocess.CompletedProcess([WORKER], code, *texts)


TIMED_OUT = 1000
"""Answer for a fork that ran out of time; others are exit codes, negative for signals."""

STDOUT, STDERR = "stdout", "stderr"
"""Files of the worker's streams in its folder."""
