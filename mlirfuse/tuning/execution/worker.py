"""A process of one task: reads its request from a folder, writes its response there.

python -m mlirfuse.tuning.execution.worker FOLDER
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlirfuse.core import MlirfuseError
from mlirfuse.support import exit_code, module_process, watchdog
from mlirfuse.tuning.execution.task import DEVICE, DIED, FAILED, OK, DeviceFaultError

MODULE = "mlirfuse.tuning.execution.worker"

REQUEST, RESPONSE, OUTPUT = "request.json", "response.json", "output"

MAX_ATTEMPTS = 3
"""Tries of a task whose process or machine is lost, until the task itself counts as the cause."""

ENDED = "the tuner was ended"
"""Message of a task that is lost because its executor was closed."""

_MESSAGE_CHARS = 400


def machine() -> str:
    """Name of this machine, for the record."""
    return socket.gethostname()


class Processes:
    """The processes of running tasks, which `kill` ends all at once."""

    def __init__(self) -> None:
        """Nothing runs."""
        self._running: set[int] = set()
        self._lock = threading.Lock()
        self._closed = False

    def run(
        self,
        folder: Path,
        function: str,
        request: Mapping[str, Any],
        files: Mapping[str, Path],
        timeout: float,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[str, Any]:
        """Runs a function of a task in a process.

        Args:
          folder: an empty folder, which gets the files of the task under `OUTPUT`.
          function: of the task.
          request: of the task.
          files: of the task.
          timeout: seconds until the process and all that it started are killed.
          environment: variables beside those of this process.

        Returns:
          `status`, `value`, `message`, `seconds`, and the names of the `files`.
        """
        (folder / OUTPUT).mkdir()
        text = {"function": function, "request": request, "files": {}}
        text["files"] = {name: os.fspath(path.resolve()) for name, path in files.items()}
        (folder / REQUEST).write_text(json.dumps(text), encoding="utf-8")
        began = time.monotonic()
        with tempfile.TemporaryFile(dir=folder) as said:
            status, message = self._wait(folder, timeout, said, environment)
        found: dict[str, Any] = {"status": status, "value": {}, "message": message}
        if status == OK:
            try:
                found |= json.loads((folder / RESPONSE).read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                found |= {"status": FAILED, "message": f"no response: {error}"}
        found["seconds"] = time.monotonic() - began
        found["files"] = sorted(path.name for path in (folder / OUTPUT).iterdir())
        return found

    def _wait(
        self, folder: Path, timeout: float, said: Any, environment: Mapping[str, str]
    ) -> tuple[str, str]:
        watchdog.start()
        with self._lock:
            if self._closed:
                return DIED, ENDED
            process = subprocess.Popen(
                [sys.executable, *module_process.arguments(MODULE, os.fspath(folder))],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env={**os.environ, **environment},
                start_new_session=True,
            )
            self._running.add(process.pid)
        try:
            with watchdog.watched(process.pid):
                code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            return FAILED, f"ran out of time after {timeout:g} s"
        finally:
            _kill(process.pid)
            process.wait()
            with self._lock:
                self._running.discard(process.pid)
        if code == 0:
            return OK, ""
        line = exit_code.last_line(said)
        message = f"{exit_code.how(code)}: {line}" if line else exit_code.how(code)
        return DIED if code == -signal.SIGKILL else FAILED, message

    @property
    def closed(self) -> bool:
        """Whether no process is started any more."""
        return self._closed

    def kill(self) -> None:
        """Ends every process, and starts no more."""
        with self._lock:
            self._closed = True
            for group in self._running:
                _kill(group)


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _function(name: str) -> Callable[[Any, dict[str, Path], Path], dict[str, Any]]:
    module, _, attribute = name.partition(":")
    found: Callable[[Any, dict[str, Path], Path], dict[str, Any]] = getattr(
        importlib.import_module(module), attribute
    )
    return found


def main() -> int:
    """Entry point of the process."""
    folder = Path(sys.argv[1])
    given = json.loads((folder / REQUEST).read_text(encoding="utf-8"))
    files = {name: Path(path) for name, path in given["files"].items()}
    response: dict[str, Any]
    try:
        value = _function(given["function"])(given["request"], files, folder / OUTPUT)
        response = {"status": OK, "value": value}
    except DeviceFaultError as error:
        response = {"status": DEVICE, "message": str(error)}
    except MlirfuseError as error:
        response = {"status": FAILED, "message": " ".join(str(error).split())[:_MESSAGE_CHARS]}
    (folder / RESPONSE).write_text(json.dumps(response), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
