"""Compiles a model in a process that is killed, interrupted or out of room, and looks around.

inject(folder, "SIGKILL", 0.4)      # what is wrong afterwards; empty when nothing is
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
from mlirfuse.backend.cache import DIRECTORY_VARIABLE, Cache
from mlirfuse.core import MlirfuseError

KINDS = ("SIGKILL", "SIGINT", "SIGTERM", "no_room")

OUTPUT = "model.vmfb"

COMPILE = """
import resource, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
most = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
from mlirfuse.tools.compile import main
raise SystemExit(main())
"""
"""The command in a process of its own; the first argument is the largest file, -1 for any."""

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

WAIT = 60.0
"""Seconds after which a process counts as hung."""


def inject(folder: Path, kind: str, moment: float) -> str:
    """Lets one fault happen, and says what is wrong afterwards.

    Args:
      folder: an empty directory.
      kind: one of `KINDS`.
      moment: for a signal, seconds after the work began; for `no_room`, the largest file in
        thousandths of 100 KiB.
    """
    (folder / "tmp").mkdir()
    (folder / "model.mlir").write_text(MODEL, encoding="utf-8")
    (folder / OUTPUT).write_bytes(OLD)
    with _environment(folder):
        code, said = _compiled(folder, kind, moment)
        wrong = _looked(folder, kind, code, said)
        if not wrong and _finished(folder, -1)[0] != 0:
            wrong = "it does not compile afterwards"
        return wrong or _program(folder)


@contextlib.contextmanager
def _environment(folder: Path) -> Iterator[None]:
    """A cache and temporary files of its own, for this process and its children."""
    places = {DIRECTORY_VARIABLE: str(folder / "cache"), "TMPDIR": str(folder / "tmp")}
    before = {name: os.environ.get(name) for name in places}
    os.environ.update(places)
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
    while not list(folder.glob(".model.*")) and time.monotonic() < began + WAIT:
        time.sleep(0.005)  # until it has found that the output can be written
    time.sleep(moment)
    running.send_signal(getattr(signal, kind))
    with running:
        code = running.wait(timeout=WAIT)
        assert running.stderr is not None
        return code, running.stderr.read()


def _finished(folder: Path, most: int) -> tuple[int, str]:
    with _start(folder, most) as running:
        code = running.wait(timeout=WAIT)
        assert running.stderr is not None
        return code, running.stderr.read()


def _start(folder: Path, most: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", COMPILE, str(most), "model.mlir", "-o", OUTPUT],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )


def _looked(folder: Path, kind: str, code: int, said: str) -> str:
    """What is wrong with the output, the cache, or what is left beside them."""
    if "Traceback" in said or "internal error" in said or len(said.splitlines()) > 1:
        return f"it says {said[:300]}"
    if kind == "no_room" and code != 0 and not _NO_ROOM.search(said):
        return f"it does not say that there is no room: {said[:300]}"
    if code != 0 and (folder / OUTPUT).read_bytes() != OLD:
        return f"the output was touched, exit code {code}"
    cache = Cache.open()
    for record in cache.directory.glob("*.json"):
        if cache.find(record.stem) is None:
            return f"the cache entry {record.stem} is damaged"
    left = [*folder.glob(".model.*"), *(folder / "tmp").iterdir()]
    if left and kind != "SIGKILL":  # then nobody is there to remove them
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
    right = np.allclose(got, np.exp(powers / powers.sum(1, keepdims=True)), rtol=1e-5)
    return "" if right else "the program computes something else"
