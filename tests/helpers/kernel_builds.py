"""Builds each kernel once a run, in a fork of a server that has imported Triton.

`share()` has `triton_compiler` of this process keep object code in a folder, by everything that it
depends on, and ask a server for kernels that are not there. A failure is not kept.
`python -m helpers.kernel_builds SOCKET` is the server; it ends when its standard input is closed.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlirfuse.kernels
from helpers import warm_commands
from mlirfuse.kernels import triton_compiler
from mlirfuse.support.atomic_file import replacing

WORKER = "mlirfuse.kernels.triton_worker"


@functools.cache
def versions() -> str:
    """A digest of all that a kernel is made of besides its request."""
    found = hashlib.sha256(version("triton").encode())
    root = Path(mlirfuse.kernels.__file__).parent
    for path in [root / "triton_worker.py", *sorted((root / "device").glob("*.py"))]:
        found.update(path.read_bytes())
    return found.hexdigest()


def share(folder: str | os.PathLike[str], server: Callable[[], str]) -> None:
    """Has this process, and its forks, build kernels that are not in the folder with a server.

    Args:
      folder: an existing one for object code.
      server: returns the socket of a server.
    """
    triton_compiler.subprocess = _Subprocess(Path(folder), server)


class _Subprocess:
    """The module `subprocess` for `triton_compiler`, which runs nothing but its worker."""

    def __init__(self, folder: Path, server: Callable[[], str]) -> None:
        self.folder = folder
        self.server = server

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    def run(self, command: list[str], *, input: str, **options: Any) -> Any:
        """Object code of the folder, or of a new build."""
        assert command[-1] == WORKER, command
        request = json.loads(input)
        output = Path(request.pop("output"))
        key = hashlib.sha256(f"{versions()}{json.dumps(request)}".encode()).hexdigest()
        printed, code = self.folder / f"{key}.json", self.folder / f"{key}.code"
        if printed.exists():
            output.write_bytes(code.read_bytes())
            return subprocess.CompletedProcess(command, 0, printed.read_text(encoding="utf-8"), "")
        done = _ask(self.server(), command, input, options)
        if done.returncode == 0:
            for path, data in ((code, output.read_bytes()), (printed, done.stdout.encode())):
                with replacing(path) as file:
                    file.write_bytes(data)
        return done


def _ask(server: str, command: list[str], text: str, options: dict[str, Any]) -> Any:
    """The result of `subprocess.run` for a fork of the server."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        files[0].write(text.encode())
        files[0].seek(0)
        line = stack.enter_context(socket.socket(socket.AF_UNIX))
        line.connect(server)
        asked = {"cwd": options["cwd"], "env": options["env"], "seconds": options["timeout"]}
        socket.send_fds(line, [json.dumps(asked).encode()], [file.fileno() for file in files])
        line.shutdown(socket.SHUT_WR)
        code = int(line.makefile().read())
        if code == -signal.SIGKILL:
            raise subprocess.TimeoutExpired(command, options["timeout"])
        streams = []
        for file in files[1:]:
            file.seek(0)
            streams.append(file.read().decode())
        return subprocess.CompletedProcess(command, code, *streams)


@functools.cache
def start() -> str:
    """Starts the server of this process, whose end is that of this process; returns its socket."""
    path = os.path.join(tempfile.mkdtemp(prefix="mlirfuse-builder-"), "socket")
    process = subprocess.Popen(
        [sys.executable, "-m", "helpers.kernel_builds", path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[1],
        env={name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"},
    )
    atexit.register(process.communicate)  # closes its standard input, and waits
    assert process.stdout is not None
    process.stdout.readline()  # it listens now
    return path


def serve(path: str) -> None:
    """Answers each connection by a fork of a fork: one to work, one to wait for it."""
    importlib.import_module("triton")
    importlib.import_module(WORKER)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(64)
        print("listening", flush=True)
        answering = 0
        while select.select([listening, sys.stdin], [], [])[0] == [listening]:
            line, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _answer(line)
                os._exit(0)
            line.close()
            answering += 1
            while answering and os.waitpid(-1, os.WNOHANG)[0]:
                answering -= 1
    for _ in range(answering):
        os.wait()


def _answer(line: socket.socket) -> None:
    """Runs the worker with the received arguments, and sends its exit code."""
    data, files, _, _ = socket.recv_fds(line, 1 << 20, 3)
    while more := line.recv(1 << 20):
        data += more
    asked = json.loads(data)
    process = warm_commands.Process(
        ["timeout", str(asked["seconds"]), "triton_worker"],
        stdin=files[0],
        stdout=files[1],
        stderr=files[2],
        cwd=asked["cwd"],
        env=asked["env"],
    )
    line.sendall(str(process.wait()).encode())


if __name__ == "__main__":
    serve(sys.argv[1])
