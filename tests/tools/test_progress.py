"""Long work shows its stage, count and time on a terminal, and nothing when piped."""

import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from helpers import planted
from mlirfuse.support import stages
from mlirfuse.support.stages import Counted
from mlirfuse.tools import progress, tune

TOOLS = Path(sys.executable).parent


def on_a_terminal(words, folder):
    """The text that a command writes to a terminal as its stderr."""
    reading, writing = pty.openpty()
    text = []

    def read():
        while True:
            try:
                data = os.read(reading, 4096)
            except OSError:  # the command has ended
                return
            if not data:
                return
            text.append(data)

    thread = threading.Thread(target=read)
    thread.start()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    environment["MLIRFUSE_CACHE_DIR"] = str(folder / "cache")
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=writing, cwd=folder, env=environment, check=False
    )
    os.close(writing)
    thread.join()
    os.close(reading)
    return done.returncode, b"".join(text).decode()


def test_compiling_shows_its_stages(tmp_path):
    (tmp_path / "model.mlir").write_text(planted.model(1))
    words = [str(TOOLS / "mlirfuse-compile"), "model.mlir", "-o", "model.vmfb", "--measure"]
    code, text = on_a_terminal(words, tmp_path)
    assert code == 0, text
    for stage in ("IREE's code generation", "measuring: round"):
        assert stage in text
    assert re.search(r"\d:\d\d:\d\d", text), "the time"
    assert re.search(r"\d+/60", text), "the count"
    assert "main: fused " in text.rstrip().splitlines()[-1], "the line of progress is gone"


def test_nothing_is_shown_in_a_pipe(tmp_path):
    (tmp_path / "model.mlir").write_text(planted.model(1))
    words = [str(TOOLS / "mlirfuse-compile"), "model.mlir", "-o", "model.vmfb", "--no-cache"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_a_stage_is_told_to_the_innermost_listener():
    outer, inner = [], []
    stages.show("nobody listens")
    with stages.listened(lambda *told: outer.append(told)):
        with stages.listened(lambda *told: inner.append(told)):
            stages.show("one", 1, 2)
        stages.show("two")
    assert inner == [("one", 1, 2)]
    assert outer == [("two", 0, 0)]


def test_steps_that_begin_and_end_in_any_order_are_counted():
    told = []
    steps = Counted("building kernels")
    with stages.listened(lambda _, done, total: told.append((done, total))):
        steps.begin()
        steps.begin()
        steps.end()
        steps.begin()
        steps.end()
        steps.end()
        steps.begin()
    assert told == [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (3, 3), (0, 1)]


def test_kernels_that_are_built_are_counted(monkeypatch):
    from mlirfuse.kernels import triton_compiler

    built = threading.Event()

    def compiled(program, arch):
        assert built.wait(30)
        return "kernel"

    monkeypatch.setattr(triton_compiler, "_compiled", compiled)
    monkeypatch.setattr(triton_compiler, "_building", Counted("building kernels"))
    told = []
    triton_compiler.forget()
    try:
        with stages.listened(lambda *found: told.append(found)):
            triton_compiler.prefetch(["one", "two"], "sm_90")
            built.set()
            assert triton_compiler.build("one", "sm_90") == "kernel"
            assert triton_compiler.build("two", "sm_90") == "kernel"
            triton_compiler._pool().shutdown()
    finally:
        triton_compiler.forget()
    assert told[:2] == [("building kernels", 0, 1), ("building kernels", 0, 2)]
    assert told[-1] == ("building kernels", 2, 2)


@pytest.mark.parametrize("lines", [True, False])
def test_tuning_says_its_candidates(lines, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: not lines, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with tune._said("building", lines=lines) as say:
        say("[3/12] matmul: 1024 bytes")
    err = capsys.readouterr().err
    assert "[3/12] matmul: 1024 bytes" in err
    assert (err == "[3/12] matmul: 1024 bytes\n") == lines
    assert ("0:00:00" in err) != lines


def test_progress_without_a_terminal_takes_its_calls(capsys):
    with progress.shown("stage") as show:
        show("stage", 1, 2)
        stages.show("other")
    assert capsys.readouterr() == ("", "")
