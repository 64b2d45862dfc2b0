"""A discrete-event simulation of machines that run tasks, to see how a search scales.

The search is the real one; only time and results are modelled. The head, which hands tasks out and
keeps results, works on one task at a time; so does every compile worker and every device.
"""

from __future__ import annotations

import collections
import heapq
import itertools
from collections.abc import Callable

from mlirfuse.tuning.execution.task import COMPILE, MEASURE, Outcome, Task

Answer = Callable[[Task], Outcome]


class SimulatedExecutor:
    """Runs tasks in modelled time.

    Args:
      compilers: number of compile workers.
      devices: number of devices.
      answer: outcome of a task; its `seconds` are the time that it takes.
      head_seconds: time of the head for each task.
    """

    def __init__(
        self, compilers: int, devices: int, answer: Answer, head_seconds: float = 0.0
    ) -> None:
        """Nothing runs, at time 0."""
        self._idle = {COMPILE: compilers, MEASURE: devices}
        self._workers = dict(self._idle)
        self._waiting: dict[str, collections.deque[tuple[float, Task]]] = {
            COMPILE: collections.deque(),
            MEASURE: collections.deque(),
        }
        self._answer = answer
        self._head_seconds = head_seconds
        self._head_free = 0.0
        self._events: list[tuple[float, int, str, Outcome]] = []
        self._order = itertools.count()
        self._time = 0.0
        self._busy: dict[str, float] = {COMPILE: 0.0, MEASURE: 0.0}
        self._tasks: collections.Counter[str] = collections.Counter()

    @property
    def open_measurements(self) -> int:
        """Number of measurements that are worth handing out at a time."""
        return self._workers[MEASURE]

    def submit(self, task: Task) -> str:
        """Takes a task."""
        self._head_free = max(self._head_free, self._time) + self._head_seconds
        self._waiting[task.resource].append((self._head_free, task))
        self._start()
        return task.key

    def wait(self) -> Outcome:
        """The next outcome; the clock goes to its end."""
        end, _, resource, outcome = heapq.heappop(self._events)
        self._time = max(self._time, end)
        self._idle[resource] += 1
        self._start()
        return outcome

    def now(self) -> float:
        """The modelled time, in seconds."""
        return self._time

    def close(self) -> None:
        """Nothing runs beyond the simulation."""

    def utilisation(self, resource: str) -> float:
        """Part of the time that the workers of a resource were busy."""
        return self._busy[resource] / (self._workers[resource] * self._time) if self._time else 0.0

    def count(self, resource: str) -> int:
        """Number of tasks of a resource."""
        return self._tasks[resource]

    def _start(self) -> None:
        for resource, waiting in self._waiting.items():
            while waiting and self._idle[resource]:
                handed, task = waiting.popleft()
                outcome = self._answer(task)
                self._idle[resource] -= 1
                self._busy[resource] += outcome.seconds
                self._tasks[resource] += 1
                end = max(self._time, handed) + outcome.seconds
                heapq.heappush(self._events, (end, next(self._order), resource, outcome))
