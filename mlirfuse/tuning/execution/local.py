"""Runs tasks on this machine: compilations beside each other, one measurement on each device."""

from __future__ import annotations

import collections
import dataclasses
import heapq
import itertools
import os
import queue
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from mlirfuse.support import device_lock
from mlirfuse.tuning.execution.task import COMPILE, DEVICE, DIED, FAILED, MEASURE, Outcome, Task
from mlirfuse.tuning.execution.worker import ENDED, MAX_ATTEMPTS, OUTPUT, Processes, machine

_Waiting = tuple[int, int, Task, "queue.Queue[Outcome]"]
"""Place of the search, place of the task in the order of all, the task, where its outcome goes."""

Environment = Mapping[str, str]

CORES_OF_MEASUREMENT = 2
"""Cores that compilations leave to a measurement that runs beside them: its own and the tuner's."""

PREPARED = 3
"""Measurements of a device that may be open at a time where they run beside compilations: one holds
the device, the others start their processes."""

ONE_DEVICE: tuple[Environment, ...] = ({},)
"""The environments of a single device: that of this process."""


class LocalExecutor:
    """Runs tasks in processes of this machine.

    On a CPU a measurement waits until nothing else runs, since compilations would take its cores,
    and while compilations wait: they go first. Several searches may share an executor by `share`:
    the tasks of an earlier one go first, so that it is measured while later ones are compiled.

    Args:
      folder: an existing folder for the tasks' files.
      workers: number of compilations at a time; None for the number of cores.
      measures_beside: whether a measurement runs beside compilations, as on a GPU whose programs
        take few cores.
      environments: of each device to measure on, the variables by which a process sees it alone.
        A device has one measurement at a time; where measurements run beside compilations, further
        ones start their processes and wait for its lock.
    """

    def __init__(
        self,
        folder: Path,
        workers: int | None = None,
        *,
        measures_beside: bool = False,
        environments: Sequence[Environment] = ONE_DEVICE,
    ) -> None:
        """Nothing runs."""
        self._folder = folder
        opened = environments
        if measures_beside:
            folder.mkdir(parents=True, exist_ok=True)
            opened = [
                {**environment, device_lock.VARIABLE: os.fspath(folder / f"device{index}.lock")}
                for _ in range(PREPARED)
                for index, environment in enumerate(environments)
            ]
        self._idle = collections.deque(opened)
        self._open_measurements = len(opened)
        cores = len(os.sched_getaffinity(0))
        if measures_beside:
            cores = max(1, cores - CORES_OF_MEASUREMENT * len(environments))
        self._workers = workers or cores
        self._beside = measures_beside
        self._lock = threading.Lock()
        self._waiting: dict[str, list[_Waiting]] = {COMPILE: [], MEASURE: []}
        self._shares, self._order = itertools.count(1), itertools.count()
        self._running: collections.Counter[str] = collections.Counter()
        self._done: queue.Queue[Outcome] = queue.Queue()
        self._processes = Processes()
        self._count = 0

    @property
    def open_measurements(self) -> int:
        """Number of measurements that are worth handing out at a time."""
        return self._open_measurements

    def share(self) -> Share:
        """An executor for one of several searches: it gets the outcomes of its own tasks alone."""
        return Share(self, next(self._shares))

    def submit(self, task: Task) -> str:
        """Takes a task."""
        return self.submit_for(self._done, task, 0)

    def submit_for(self, done: queue.Queue[Outcome], task: Task, place: int) -> str:
        """Takes a task whose outcome goes into a queue.

        Args:
          done: the queue.
          task: the task.
          place: of its search: tasks of a lower one go first.
        """
        with self._lock:
            heapq.heappush(self._waiting[task.resource], (place, next(self._order), task, done))
            self._start()
        return task.key

    def wait(self) -> Outcome:
        """The next outcome."""
        return self._done.get()

    def now(self) -> float:
        """Seconds of the machine's monotonic clock."""
        return time.monotonic()

    def close(self) -> None:
        """Ends what runs. Tasks that wait or run are lost, which their searches are told."""
        with self._lock:
            for waiting in self._waiting.values():
                for _, _, task, done in waiting:
                    done.put(Outcome(task.key, DIED, message=ENDED))
                waiting.clear()
        self._processes.kill()

    def _start(self) -> None:
        """Starts what may run now; the lock is held."""
        while self._waiting[COMPILE] and (self._beside or not self._running[MEASURE]):
            if self._running[COMPILE] >= self._workers:
                break
            self._run(heapq.heappop(self._waiting[COMPILE]))
        while self._waiting[MEASURE] and self._idle:
            if not self._beside and self._running[COMPILE]:
                break
            self._run(heapq.heappop(self._waiting[MEASURE]), self._idle.popleft())

    def _run(self, waiting: _Waiting, device: Environment | None = None) -> None:
        _, _, task, done = waiting
        self._running[task.resource] += 1
        self._count += 1
        folder = self._folder / f"task{self._count}"
        given = (task, done, folder, device)
        threading.Thread(target=self._work, args=given, daemon=True).start()

    def _work(
        self, task: Task, done: queue.Queue[Outcome], folder: Path, device: Environment | None
    ) -> None:
        outcome = self._outcome(task, folder, device or {})
        with self._lock:
            self._running[task.resource] -= 1
            if device is not None:
                self._idle.append(device)
            self._start()
        done.put(outcome)

    def _outcome(self, task: Task, folder: Path, environment: Environment) -> Outcome:
        outcome = Outcome(task.key, FAILED, message="not started")
        for attempt in range(1, MAX_ATTEMPTS + 1):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            try:
                found = self._processes.run(
                    folder, task.function, task.request, task.files, task.timeout, environment
                )
            except Exception as error:
                return Outcome(task.key, FAILED, message=f"{type(error).__name__}: {error}")
            files = {name: folder / OUTPUT / name for name in found.pop("files")}
            outcome = Outcome(task.key, **found, files=files, worker=machine(), attempts=attempt)
            if outcome.status not in (DIED, DEVICE) or self._processes.closed:
                break
        if outcome.status == DIED and not self._processes.closed:
            message = f"{outcome.message}, {outcome.attempts} times"
            outcome = dataclasses.replace(outcome, status=FAILED, message=message)
        return outcome


class Share:
    """The part of an executor that one search uses.

    Args:
      executor: runs the tasks.
      place: of the search: tasks of a lower one go first.
    """

    def __init__(self, executor: LocalExecutor, place: int) -> None:
        """Nothing runs."""
        self._executor, self._place = executor, place
        self._done: queue.Queue[Outcome] = queue.Queue()

    @property
    def open_measurements(self) -> int:
        """Number of measurements that are worth handing out at a time."""
        return self._executor.open_measurements

    def submit(self, task: Task) -> str:
        """Takes a task."""
        return self._executor.submit_for(self._done, task, self._place)

    def wait(self) -> Outcome:
        """The next outcome of a task that was submitted here."""
        return self._done.get()

    def now(self) -> float:
        """Seconds of the executor's clock."""
        return self._executor.now()

    def close(self) -> None:
        """The executor goes on for the others."""
