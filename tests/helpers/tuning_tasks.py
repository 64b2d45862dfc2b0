"""Functions of tasks for tests of executors: they return, hang, die, and give errors."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from mlirfuse.core import MlirfuseError
from mlirfuse.support import device_lock
from mlirfuse.tuning.execution.task import COMPILE, DeviceFaultError, Task

MODULE = "helpers.tuning_tasks"


def task(function, resource=COMPILE, timeout=60.0, files=None, **request):
    return Task(f"{MODULE}:{function}", request, files or {}, resource, timeout, function)


def run(request, files, output):
    """Notes its call in a file, copies its input, returns."""
    if "log" in request:
        with Path(request["log"]).open("a") as file:
            file.write(f"{request['name']}\n")
    time.sleep(request.get("seconds", 0))
    text = files["input"].read_text() if "input" in files else ""
    (output / "result").write_text(text + request["name"])
    return {"name": request["name"]}


def alone(request, files, output):
    """Fails where another call holds the device; says how many were prepared meanwhile."""
    place = Path(request["folder"]) / "running"
    began = Path(request["folder"]) / f"began{request['name']}"
    began.touch()
    with device_lock.held():
        place.mkdir()
        time.sleep(request["seconds"])
        place.rmdir()
        beside = len(list(place.parent.glob("began*")))
        began.unlink()
    return {"beside": beside}


def meet(request, files, output):
    """Waits until a call of `alone` runs; fails where none does."""
    end = time.monotonic() + request["seconds"]
    while not (Path(request["folder"]) / "running").exists():
        if time.monotonic() > end:
            raise TimeoutError("nothing runs beside it")
        time.sleep(0.01)
    return {}


def on_device(request, files, output):
    """Fails where another call runs on the same device; says which device it sees."""
    device = os.environ["TEST_VISIBLE_DEVICES"]
    place = Path(request["folder"]) / f"device{device}"
    with device_lock.held():
        place.mkdir()
        deadline = time.monotonic() + request["seconds"]
        together = 0
        while time.monotonic() < deadline:
            together = max(together, len(list(place.parent.glob("device*"))))
            time.sleep(0.02)
        place.rmdir()
    return {"device": device, "together": together}


def hang(request, files, output):
    """Starts a process, and never ends."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(request["pids"]).write_text(f"{os.getpid()} {child.pid}")
    time.sleep(600)


def crash(request, files, output):
    os.kill(os.getpid(), signal.SIGSEGV)


def refuse(request, files, output):
    raise MlirfuseError("refused")


def raise_error(request, files, output):
    raise ZeroDivisionError("no number")


def faulty_device(request, files, output):
    """Fails as a device would, the first times that it is called."""
    place = Path(request["folder"])
    calls = len(list(place.iterdir()))
    (place / f"call{calls}").touch()
    if calls < request["failures"]:
        raise DeviceFaultError("the device fell off the bus")
    return {"calls": calls + 1}


def killed(request, files, output):
    """Is killed from outside, the first times that it is called."""
    place = Path(request["folder"])
    calls = len(list(place.iterdir()))
    (place / f"call{calls}").touch()
    if calls < request["deaths"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"calls": calls + 1}
