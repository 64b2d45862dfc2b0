"""Compiles a model in a process that is killed, interrupted or out of disk space.

inject(folder, "SIGKILL", 0.4)      # the damage; empty if there is none
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import mlirfuse
from mlirfuse.core import MlirfuseError
from mlirfuse.support.disk_cache import DIRECTORY_VARIABLE, Cache

KINDS = ("SIGKILL", "SIGINT", "SIGTERM", "no_room")

OUTPUT = "model.vmfb"

COMPILE = """
import resource, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from mlirfuse.tools.compile import main
raise SystemExit(main())
"""
"""The command as a script; its first argument limits the file size, in bytes; -1 for no limit."""

MODEL = """
func.func @main(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %e = tensor.empty() : tensor<4x64xf32>
  %y = linalg.softmax dimension(1) ins(%x : tensor<4x64xf32>)
      outs(%e : tensor<4x64xf32>) -> tensor<4x64xf32>
  %z = math.exp %y : tensor<4x64xf32>
  return %z : tensor<4x64xf32>
}
"""

OLD = b"what was there before"

_NO_ROOM = re.compile("cannot write|no directory can be written")

HANG_SECONDS = 60.0
"""Time after which a process counts as hung."""


def inject(folder: Path, kind: str, moment: float) -> str:
    """Injects one fault, and returns a message about the damage; an empty one if there is none.

    Args:
      folder: an empty directory.
      kind: one of `KINDS`.
      moment: for a signal, its time after the start of the work, in seconds; for `no_room`, the
        maximum file size in units of 100 KiB.
    """
    (folder / "tmp").mkdir()
    (folder / "model.mlir").write_text(MODEL, encoding="utf-8")
    (folder / OUTPUT).write_bytes(OLD)
    with _environment(folder):
        code, output = _compiled(folder, kind, moment)
        damage = _damage(folder, kind, code, output)
        if not damage and _finished(folder, -1)[0] != 0:
            damage = "it does not compile afterwards"
        return damage or _program(folder)


@contextlib.contextmanager
def _environment(folder: Path) -> Iterator[None]:
    """A separate cache and folder of temporary files, for this process and its children."""
    variables = {DIRECTORY_VARIABLE: str(folder / "cache"), "TMPDIR": str(folder / "tmp")}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _compiled(folder: Path, kind: str, moment: float) -> tuple[int, str]:
    if kind == "no_room":
        return _finished(folder, int(moment * 100) << 10)
    running = _start(folder, -1)
    began = time.monotonic()
    while not list(folder.glob(".model.*")) and time.monotonic() < began + HANG_SECONDS:
        time.sleep(0.005)  # until it has created the temporary output
    time.sleep(moment)
    running.send_signal(getattr(signal, kind))
    with running:
        code = running.wait(timeout=HANG_SECONDS)
        assert running.stderr is not None
        return code, running.stderr.read()


def _finished(folder: Path, limit: int) -> tuple[int, str]:
    with _start(folder, limit) as running:
        code = running.wait(timeout=HANG_SECONDS)
        assert running.stderr is not None
        return code, running.stderr.read()


def _start(folder: Path, limit: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", COMPILE, str(limit), "model.mlir", "-o", OUTPUT],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )


def _damage(folder: Path, kind: str, code: int, output: str) -> str:
    """Damage of the output or the cache, or temporary files that are left."""
    if "Traceback" in output or "internal error" in output or len(output.splitlines()) > 1:
        return f"it prints {output[:300]}"
    if kind == "no_room" and code != 0 and not _NO_ROOM.search(output):
        return f"it does not report the lack of space: {output[:300]}"
    if code != 0 and (folder / OUTPUT).read_bytes() != OLD:
        return f"the output was touched, exit code {code}"
    cache = Cache.open()
    for record in cache.directory.glob("*.json"):
        if cache.find(record.stem) is None:
            return f"the cache entry {record.stem} is damaged"
    left = [*folder.glob(".model.*"), *(folder / "tmp").iterdir()]
    if left and kind != "SIGKILL":  # a killed process cannot remove them
        return f"{left[0].name} is left"
    for path in left:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return "" if code == 0 else _code(kind, code)


def _code(kind: str, code: int) -> str:
    wanted = {"SIGKILL": -9, "SIGINT": 130, "SIGTERM": 143, "no_room": 1}[kind]
    return "" if code == wanted else f"the exit code is {code}; expected {wanted}"


def _program(folder: Path) -> str:
    x = np.linspace(-1, 1, 256, dtype=np.float32).reshape(4, 64)
    try:
        got = mlirfuse.load(folder / OUTPUT)(x)
    except MlirfuseError as error:
        return str(error)
    powers = np.exp(x.astype(np.float64))
    correct = np.allclose(got, np.exp(powers / powers.sum(1, keepdims=True)), rtol=1e-5)
    return "" if correct else "the program computes something else"
