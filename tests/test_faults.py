"""Killed, interrupted, without room: never a partial output, never a broken cache."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.fuzz import faults
from mlirfuse.tools.compile import main as compile_main

MOMENTS = {
    "SIGKILL": (0.0, 0.3, 0.6),
    "SIGINT": (0.0, 0.4),
    "SIGTERM": (0.2,),
    "no_room": (0.0, 0.02, 0.1),
}
"""For a signal, seconds after the work began, which takes about one; for `no_room`, file sizes."""

TOOLS = Path(sys.executable).parent


@pytest.mark.parametrize(
    ("kind", "moment"), [(kind, moment) for kind in MOMENTS for moment in MOMENTS[kind]]
)
def test_a_fault_leaves_whole_files(tmp_path, kind, moment):
    assert faults.inject(tmp_path, kind, moment) == ""


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("model.mlir").write_text(faults.MODEL)


@pytest.mark.usefixtures("model")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_device_is_one_error():
    for tool in ("mlirfuse-compile", "mlirfuse-opt"):
        command = [TOOLS / tool, "model.mlir", "-o", "/dev/full"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr == f"{tool}: error: cannot write /dev/full: No space left on device\n"
    with open("/dev/full", "wb") as full:
        command = [TOOLS / "mlirfuse-opt", "--list-passes"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "mlirfuse-opt: error: cannot write an output: No space left on device\n"


@pytest.mark.usefixtures("model")
def test_a_cache_that_cannot_be_written_is_a_warning(monkeypatch, caplog):
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", os.devnull + "/cache")
    assert compile_main(["model.mlir", "-o", "model.vmfb"]) == 0
    (record,) = caplog.records
    assert record.getMessage().startswith(f"compile cache {os.devnull}/cache is not used: ")
    assert Path("model.vmfb").exists()
