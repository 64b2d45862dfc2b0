"""Killed, interrupted, without room: never a partial output, never a broken cache."""

import os
import signal
import subprocess
import sys
import time
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

SWEEP = {("SIGKILL", 0.3), ("SIGINT", 0.0), ("no_room", 0.02)}
"""Moments for which there is a like one; `benchmarks.reliability` has many at random."""

TOOLS = Path(sys.executable).parent


@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        pytest.param(kind, moment, marks=pytest.mark.sweep if (kind, moment) in SWEEP else ())
        for kind in MOMENTS
        for moment in MOMENTS[kind]
    ],
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


RUNNING = """
import pathlib, sys, threading
from mlirfuse.support import subprocess as process
process.find_tool = lambda tool: pathlib.Path(sys.executable)
def run():
    process.run_tool("sleep", ["-c", "import time; time.sleep(60)"], stage="codegen")
threads = [threading.Thread(target=run) for _ in range(3)]
for thread in threads:
    thread.start()
print("started", flush=True)
threads[0].join()
"""


def children(pid):
    """Ids of the processes that a process and its threads started."""
    return [
        int(child)
        for thread in Path(f"/proc/{pid}/task").iterdir()
        for child in (thread / "children").read_text().split()
    ]


def is_gone(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return True
    return state == "Z"


def eventually(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_tools_end_with_the_process_that_started_them(number):
    with subprocess.Popen(
        [sys.executable, "-c", RUNNING], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as starter:
        assert starter.stdout.readline() == b"started\n"
        assert eventually(lambda: len(children(starter.pid)) == 4)  # and the watcher
        started = children(starter.pid)
        time.sleep(0.2)  # until the watcher knows the last of them
        starter.send_signal(number)
        # Threads that wait keep Python from ending at one SIGINT; two that arrive together are one.
        while number == signal.SIGINT and starter.poll() is None:
            time.sleep(0.2)
            starter.send_signal(number)
        starter.wait(20)
    assert eventually(lambda: all(map(is_gone, started)))
