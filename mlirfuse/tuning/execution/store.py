"""Results of tasks on disk: no task runs twice, also after the tuner was killed.

The store is a folder: `results.jsonl` has a line for each result, `files` the files of tasks. Lines
are added under a lock, so that several tuners may share the folder; a line that was cut short by a
kill is skipped.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path
from typing import Any

import filelock

from mlirfuse.core import UsageError
from mlirfuse.tuning.execution.task import DEVICE, DIED, Executor, Outcome, Task

RESULTS = "results.jsonl"
FILES = "files"


class Store:
    """The folder of results.

    Args:
      folder: the folder; it is made where there is none.

    Raises:
      UsageError: the folder cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        """Reads what is there."""
        self.folder = folder
        try:
            (folder / FILES).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot make the folder {folder}: {error.strerror}") from None
        self._lock = filelock.FileLock(folder / f"{RESULTS}.lock")
        self._found: dict[str, Outcome] = {}
        self._offset = 0
        self._read()

    def find(self, key: str) -> Outcome | None:
        """The outcome of a task; None where it has none that lasts, or its files are lost."""
        if key not in self._found:
            self._read()
        found = self._found.get(key)
        if found is None or not all(path.exists() for path in found.files.values()):
            return None
        return found

    def add(self, task: Task, outcome: Outcome) -> Outcome:
        """Keeps an outcome and its files; returns it with the files where they are kept.

        An outcome that another try may change is not kept.
        """
        if outcome.status in (DIED, DEVICE):
            return outcome
        kept = {}
        place = self.folder / FILES / outcome.key
        if outcome.files:
            place.mkdir(exist_ok=True)
        for name, path in outcome.files.items():
            kept[name] = place / name
            staged = place / f".{name}.{os.getpid()}"
            shutil.copyfile(path, staged)
            staged.replace(kept[name])
        outcome = dataclasses.replace(outcome, files=kept)
        line = {
            **dataclasses.asdict(outcome),
            "files": sorted(kept),
            "function": task.function,
            "label": task.label,
        }
        with self._lock, (self.folder / RESULTS).open("ab") as file:
            # The line before may have been cut short.
            start = b"\n" if self._cut_short() else b""
            file.write(start + json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._found[outcome.key] = outcome
        return outcome

    def _cut_short(self) -> bool:
        with (self.folder / RESULTS).open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"

    def _read(self) -> None:
        """Reads the lines that were added since the last time."""
        path = self.folder / RESULTS
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            outcome = self._parsed(line)
            if outcome is not None:
                self._found[outcome.key] = outcome

    def _parsed(self, line: bytes) -> Outcome | None:
        try:
            found: dict[str, Any] = json.loads(line)
            place = self.folder / FILES / found["key"]
            fields = {field.name for field in dataclasses.fields(Outcome)}
            known = {name: value for name, value in found.items() if name in fields}
            return Outcome(**{**known, "files": {name: place / name for name in found["files"]}})
        except (ValueError, KeyError, TypeError):
            return None


class Stored:
    """An executor that runs no task whose outcome is in a store.

    Args:
      executor: runs the others.
      store: the store.
    """

    def __init__(self, executor: Executor, store: Store) -> None:
        """Nothing runs."""
        self._executor = executor
        self._store = store
        self._open: dict[str, Task] = {}
        self._ready: list[Outcome] = []
        self.hits = 0

    @property
    def open_measurements(self) -> int:
        """Number of measurements that are worth handing out at a time."""
        return self._executor.open_measurements

    def submit(self, task: Task) -> str:
        """Takes a task."""
        key = task.key
        found = self._store.find(key)
        if found is not None:
            self.hits += 1
            self._ready.append(found)
        elif key not in self._open:
            self._open[key] = task
            self._executor.submit(task)
        return key

    def wait(self) -> Outcome:
        """The next outcome: one of the store first."""
        if self._ready:
            return self._ready.pop()
        outcome = self._executor.wait()
        return self._store.add(self._open.pop(outcome.key), outcome)

    def now(self) -> float:
        """Seconds on the executor's clock."""
        return self._executor.now()

    def close(self) -> None:
        """Ends what runs."""
        self._executor.close()
