"""Runs tasks on this machine: compilations beside each other, measurements alone."""

from __future__ import annotations

import collections
import dataclasses
import os
import queue
import shutil
import threading
import time
from pathlib import Path

from mlirfuse.tuning.execution.task import COMPILE, DEVICE, DIED, FAILED, MEASURE, Outcome, Task
from mlirfuse.tuning.execution.worker import MAX_ATTEMPTS, OUTPUT, Processes, machine


class LocalExecutor:
    """Runs tasks in processes of this machine.

    A measurement waits until nothing else runs, since compilations would take its cores, and while
    compilations wait: they go first.

    Args:
      folder: an existing folder for the tasks' files.
      workers: number of compilations at a time; None for the number of cores.
    """

    def __init__(self, folder: Path, workers: int | None = None) -> None:
        """Nothing runs."""
        self._folder = folder
        self._workers = workers or len(os.sched_getaffinity(0))
        self._waiting: dict[str, collections.deque[Task]] = {
            COMPILE: collections.deque(),
            MEASURE: collections.deque(),
        }
        self._running: collections.Counter[str] = collections.Counter()
        self._done: queue.Queue[tuple[Task, Outcome]] = queue.Queue()
        self._processes = Processes()
        self._count = 0

    def submit(self, task: Task) -> str:
        """Takes a task."""
        self._waiting[task.resource].append(task)
        self._start()
        return task.key

    def wait(self) -> Outcome:
        """The next outcome."""
        task, outcome = self._done.get()
        self._running[task.resource] -= 1
        self._start()
        return outcome

    def now(self) -> float:
        """Seconds of the machine's monotonic clock."""
        return time.monotonic()

    def close(self) -> None:
        """Ends what runs."""
        for waiting in self._waiting.values():
            waiting.clear()
        self._processes.kill()

    def _start(self) -> None:
        while self._waiting[COMPILE] and not self._running[MEASURE]:
            if self._running[COMPILE] >= self._workers:
                return
            self._run(self._waiting[COMPILE].popleft())
        if self._waiting[MEASURE] and not self._running.total():
            self._run(self._waiting[MEASURE].popleft())

    def _run(self, task: Task) -> None:
        self._running[task.resource] += 1
        self._count += 1
        folder = self._folder / f"task{self._count}"
        threading.Thread(target=self._work, args=(task, folder), daemon=True).start()

    def _work(self, task: Task, folder: Path) -> None:
        outcome = Outcome(task.key, FAILED, message="not started")
        for attempt in range(1, MAX_ATTEMPTS + 1):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            try:
                found = self._processes.run(
                    folder, task.function, task.request, task.files, task.timeout
                )
            except Exception as error:
                outcome = Outcome(task.key, FAILED, message=f"{type(error).__name__}: {error}")
                break
            files = {name: folder / OUTPUT / name for name in found.pop("files")}
            outcome = Outcome(task.key, **found, files=files, worker=machine(), attempts=attempt)
            if outcome.status not in (DIED, DEVICE):
                break
        if outcome.status == DIED:
            message = f"{outcome.message}, {outcome.attempts} times"
            outcome = dataclasses.replace(outcome, status=FAILED, message=message)
        self._done.put((task, outcome))
