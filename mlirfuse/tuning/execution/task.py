"""Tasks and their outcomes, and the interface of what runs them.

A task is a function of a module by name, a request of JSON, and input files. It runs in a process
of its own, so that a crash or an endless loop ends no more than the task.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from mlirfuse.support.disk_cache import digest

COMPILE = "compile"
"""Resource of tasks that may run beside each other on the cores of a machine."""

MEASURE = "measure"
"""Resource of tasks that need a device for themselves."""

FAILED = "failed"
"""The task's function refused, crashed or ran out of time: another try gives the same."""

DIED = "died"
"""The worker was lost, from outside: another try may succeed."""

DEVICE = "device"
"""The device gave errors for a program that is known to be right: another device may do better."""

OK = "ok"


class DeviceFaultError(Exception):
    """A device gives errors for a program that ran before."""


@dataclasses.dataclass(frozen=True, slots=True)
class Task:
    """One piece of work.

    Attributes:
      function: `package.module:name`, called with the request, the files and an empty folder for
        its own files; it returns a dictionary of JSON.
      request: its request, of JSON.
      files: input files by name.
      resource: `COMPILE` or `MEASURE`.
      timeout: seconds until it is ended.
      label: a short name for people.
      salt: further text of the identity, as the fingerprint of large files that do not change.
    """

    function: str
    request: Mapping[str, Any]
    files: Mapping[str, Path] = dataclasses.field(default_factory=dict)
    resource: str = COMPILE
    timeout: float = 600.0
    label: str = ""
    salt: str = ""

    @property
    def key(self) -> str:
        """The identity: equal for the same function, request and content of files."""
        content = {name: digest(path) for name, path in self.files.items()}
        parts = [self.function, self.request, content, self.salt]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a task.

    Attributes:
      key: the task's key.
      status: `OK`, `FAILED`, `DIED` or `DEVICE`.
      value: what the function returned; empty where it did not.
      message: why it failed; empty where it did not.
      files: its files by name.
      seconds: wall time of the task.
      worker: name of the machine or worker.
      attempts: number of tries.
    """

    key: str
    status: str
    value: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    message: str = ""
    files: Mapping[str, Path] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    worker: str = ""
    attempts: int = 1

    @property
    def ok(self) -> bool:
        """Whether the function returned."""
        return self.status == OK


class Executor(Protocol):
    """Runs tasks; outcomes come in the order in which they end."""

    @property
    def open_measurements(self) -> int:
        """Number of measurements that are worth handing out at a time."""

    def submit(self, task: Task) -> str:
        """Takes a task; returns its key, by which its outcome is known."""

    def wait(self) -> Outcome:
        """The next outcome; a task must be open."""

    def now(self) -> float:
        """Seconds on the executor's clock."""

    def close(self) -> None:
        """Ends every task that runs."""


def run_all(executor: Executor, tasks: Iterable[Task]) -> list[Outcome]:
    """Runs tasks and returns their outcomes, in the order of the tasks."""
    keys = [executor.submit(task) for task in tasks]
    found: dict[str, Outcome] = {}
    while not found.keys() >= set(keys):
        outcome = executor.wait()
        found[outcome.key] = outcome
    return [found[key] for key in keys]
