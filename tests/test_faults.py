"""Killed, interrupted, without room: never a partial output, never a broken cache."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import planted
import pytest

import mlirfuse
from mlirfuse.backend.cache import Cache

COMPILE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
from mlirfuse.tools.compile import main
raise SystemExit(main())
"""

WORDS = ["model.mlir", "-o", "model.vmfb"]

MOMENTS = (0.0, 0.15, 0.3, 0.5, 0.75)
"""Seconds after the work began; it takes about one."""


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    Path("model.mlir").write_text(planted.model(2))


def start():
    """A compilation that has begun: it has found that the output can be written."""
    running = subprocess.Popen(
        [sys.executable, "-c", COMPILE, *WORDS], stderr=subprocess.PIPE, text=True
    )
    waited = time.monotonic() + 60
    while not list(Path().glob(".model.*")) and time.monotonic() < waited:
        time.sleep(0.005)
    return running


def end(running, number):
    """Sends a signal; the exit code and stderr."""
    with running:
        running.send_signal(number)
        code = running.wait(timeout=60)
        return code, running.stderr.read()


def check_program(path="model.vmfb"):
    program = mlirfuse.load(path)
    arguments = [np.ones(s.shape, bool if s.dtype == "i1" else np.float32) for s in program.inputs]
    for result in program(*arguments):
        assert (result == result.shape[1]).all()


def check_cache():
    """Every entry is whole: what is not is no entry."""
    cache = Cache.open()
    for record in cache.directory.glob("*.json"):
        json.loads(record.read_text())
        assert cache.find(record.stem) is not None


def test_sigkill_leaves_the_old_output_and_whole_entries():
    old = b"what was there before"
    for moment in MOMENTS:
        Path("model.vmfb").write_bytes(old)
        running = start()
        time.sleep(moment)
        code, _ = end(running, signal.SIGKILL)
        if code == -signal.SIGKILL:
            assert Path("model.vmfb").read_bytes() == old
        else:
            check_program()
        check_cache()
        shutil.rmtree("cache", ignore_errors=True)
        for left in Path().glob(".model.*"):  # nobody was there to remove it
            left.unlink()
    running = start()
    with running:
        assert running.wait(timeout=60) == 0
    check_program()
    check_cache()


def test_an_interrupt_leaves_nothing():
    for moment in MOMENTS:
        running = start()
        time.sleep(moment)
        code, said = end(running, signal.SIGINT)
        if code == 0:
            check_program()
            Path("model.vmfb").unlink()
        else:
            assert (code, said) == (130, "mlirfuse-compile: interrupted\n")
        assert not Path("model.vmfb").exists()
        assert not list(Path().glob(".model.*"))
        assert not list(Path("tmp").iterdir())
        check_cache()
        shutil.rmtree("cache", ignore_errors=True)


def limited(kilobytes):
    """A compilation that may write files of this size only, as on a full disk."""
    import resource

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes << 10,) * 2)

    return subprocess.run(
        [sys.executable, "-c", COMPILE, *WORDS],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("kilobytes", [1, 6, 12])
def test_a_file_that_is_too_large_is_one_error(kilobytes):
    done = limited(kilobytes)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "File too large" in line
    assert not Path("model.vmfb").exists()
    assert not list(Path().glob(".model.*"))
    assert not list(Path("tmp").iterdir())
    check_cache()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_device_is_one_error():
    tools = Path(sys.executable).parent
    for command in (
        [tools / "mlirfuse-compile", "model.mlir", "-o", "/dev/full"],
        [tools / "mlirfuse-opt", "model.mlir", "-o", "/dev/full"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        said = f"{command[0].name}: error: cannot write /dev/full: No space left on device\n"
        assert done.stderr == said
    with open("/dev/full", "wb") as full:
        command = [tools / "mlirfuse-opt", "--list-passes"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "mlirfuse-opt: error: cannot write an output: No space left on device\n"


def test_a_cache_that_cannot_be_written_is_a_warning(monkeypatch):
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", os.devnull + "/cache")
    command = [sys.executable, "-c", COMPILE, *WORDS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"compile cache {os.devnull}/cache is not used: ")
    check_program()
