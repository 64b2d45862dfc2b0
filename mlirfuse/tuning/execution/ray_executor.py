"""Runs tasks on the machines of a Ray cluster: `pip install mlirfuse[ray]`.

    ray start --head                             the head, which compiles
    ray start --address=HEAD:6379                a machine that compiles
    ray start --address=HEAD:6379 --num-cpus=0 --resources='{"mlirfuse_device": 1}'    that measures

Compilations are tasks of one core. Each device has an actor that holds its resource, so that there
is one measurement at a time on it. The actor of a device that gives errors is retired; what is lost
with a worker or a machine is tried elsewhere.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlirfuse.core import MlirfuseError, UsageError
from mlirfuse.support.disk_cache import digest
from mlirfuse.tuning.execution.task import COMPILE, DEVICE, DIED, FAILED, MEASURE, Outcome, Task
from mlirfuse.tuning.execution.worker import MAX_ATTEMPTS, OUTPUT, Processes, machine

RESOURCE = "mlirfuse_device"
"""Ray's custom resource of a machine with a device to measure on: their number."""

MAX_LOST = 10
"""Tries of a task whose workers or machines are lost, until it is given up."""

STRIKES = 2
"""Errors in a row for which a device is retired."""

_POLL_SECONDS = 1.0
"""Seconds between looks at the devices of the cluster while nothing ends."""

_GRACE_SECONDS = 60.0
"""Seconds beyond a measurement's limit after which its machine counts as hung."""

_NAME_CHARS = 120
"""Longest name of a task in the dashboard."""

_NO_DEVICE = f"no machine with the resource {RESOURCE} is left"


def import_ray() -> Any:
    """The package.

    Raises:
      UsageError: it is not installed.
    """
    try:
        import ray
    except ImportError:
        raise UsageError("Ray is not installed: pip install 'mlirfuse[ray]'") from None
    return ray


def perform(
    function: str, request: Mapping[str, Any], files: Mapping[str, Any], timeout: float
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """On a worker: runs a function of a task in a process; returns its outcome and its files.

    Args:
      function: of the task.
      request: of the task.
      files: name -> reference to the content.
      timeout: of the task.
    """
    ray = import_ray()
    with tempfile.TemporaryDirectory(prefix="mlirfuse-task-") as name:
        folder = Path(name)
        given = folder / "given"
        given.mkdir()
        contents = ray.get(list(files.values()))
        paths = {key: given / key for key in files}
        for path, content in zip(paths.values(), contents, strict=True):
            path.write_bytes(content)
        work = folder / "work"
        work.mkdir()
        found = Processes().run(work, function, request, paths, timeout)
        made = {name: (work / OUTPUT / name).read_bytes() for name in found.pop("files")}
    return {**found, "worker": machine()}, made


class Device:
    """An actor that measures on one device."""

    def ready(self) -> bool:
        """Whether it is there."""
        return True

    def perform(
        self, function: str, request: Mapping[str, Any], files: Mapping[str, Any], timeout: float
    ) -> tuple[dict[str, Any], dict[str, bytes]]:
        """See the function of that name."""
        return perform(function, request, files, timeout)


def _name(task: Task) -> str:
    """The name of a task in Ray's dashboard: what it does, and for which settings."""
    return f"{task.function.rpartition(':')[2]}: {task.label}"[:_NAME_CHARS]


@dataclasses.dataclass(slots=True)
class _Actor:
    """A device's actor.

    Attributes:
      handle: Ray's handle.
      coming: the answer that it is there; None once it came.
      busy: the measurement that runs; None for none.
      deadline: time until which it has to end.
      strikes: errors of the device in a row.
      retired: whether it is used no more.
    """

    handle: Any
    coming: Any
    busy: Any = None
    deadline: float = 0.0
    strikes: int = 0
    retired: bool = False


@dataclasses.dataclass(slots=True)
class _Open:
    """A task that has no outcome yet.

    Attributes:
      task: the task.
      key: its key.
      attempts: number of tries in which its process was killed, or its device gave errors.
      lost: number of tries in which its worker was lost.
      avoided: actors whose device gave an error for it.
    """

    task: Task
    key: str
    attempts: int = 0
    lost: int = 0
    avoided: set[int] = dataclasses.field(default_factory=set)


class RayExecutor:
    """Runs tasks on a Ray cluster.

    Args:
      folder: an existing folder for the files that tasks make.
      address: of the cluster, as `ray.init` takes it; None to start Ray on this machine.
      workers: cores to compile on where Ray is started here; None for all.
      gpus: whether a measurement needs one of Ray's GPUs, which it then sees alone.

    Raises:
      UsageError: Ray is not installed.
      MlirfuseError: there is no cluster at the address.
    """

    def __init__(
        self,
        folder: Path,
        address: str | None = None,
        workers: int | None = None,
        *,
        gpus: bool = False,
    ) -> None:
        """Connects to the cluster."""
        self._ray = import_ray()
        self._folder = folder
        self._gpus = gpus
        self._owned = not self._ray.is_initialized()
        if self._owned:
            self._connect(address, workers)
        self._compile = self._ray.remote(num_cpus=1, max_retries=0)(perform)
        self._contents: dict[str, Any] = {}
        self._waiting: dict[str, collections.deque[_Open]] = {
            COMPILE: collections.deque(),
            MEASURE: collections.deque(),
        }
        self._running: dict[Any, _Open] = {}
        self._actors: list[_Actor] = []
        self._ended: list[Outcome] = []
        self._count = 0
        self._find_devices()

    def _connect(self, address: str | None, workers: int | None) -> None:
        settings: dict[str, Any] = {"log_to_driver": False, "include_dashboard": None}
        if address is None:
            cores = workers or len(os.sched_getaffinity(0))
            settings |= {"num_cpus": cores, "resources": {RESOURCE: 1}, "include_dashboard": False}
        else:
            settings["address"] = address
        try:
            self._ray.init(**settings)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise MlirfuseError(f"cannot connect to Ray at {address}: {error}") from error

    @property
    def open_measurements(self) -> int:
        """Number of measurements that are worth handing out at a time."""
        return max(1, sum(not actor.retired for actor in self._actors))

    def submit(self, task: Task) -> str:
        """Takes a task."""
        opened = _Open(task, task.key)
        self._waiting[task.resource].append(opened)
        self._start()
        return opened.key

    def wait(self) -> Outcome:
        """The next outcome."""
        while not self._ended:
            self._find_devices()
            self._start()
            if not self._ended and self._running:
                done, _ = self._ray.wait(list(self._running), num_returns=1, timeout=_POLL_SECONDS)
                for reference in done:
                    self._end(reference)
                self._end_hung()
            elif not self._ended:
                time.sleep(_POLL_SECONDS)
        return self._ended.pop(0)

    def now(self) -> float:
        """Seconds of the machine's monotonic clock."""
        return time.monotonic()

    def close(self) -> None:
        """Ends what runs, and Ray where it was started here."""
        for waiting in self._waiting.values():
            waiting.clear()
        actors = {actor.busy for actor in self._actors}
        for reference in self._running:
            if reference not in actors:
                self._ray.cancel(reference, force=True)
        for actor in self._actors:
            self._ray.kill(actor.handle)
        self._running.clear()
        self._actors.clear()
        if self._owned:
            self._ray.shutdown()

    @property
    def _exclusive(self) -> bool:
        """Whether a machine both compiles and measures: then not at the same time."""
        nodes = (node["Resources"] for node in self._ray.nodes() if node["Alive"])
        return any(RESOURCE in found and found.get("CPU") for found in nodes)

    def _find_devices(self) -> None:
        """Makes an actor for each device of the cluster that has none, and forgets lost ones."""
        for actor in [a for a in self._actors if a.coming is not None]:
            if self._ray.wait([actor.coming], timeout=0)[0]:
                try:
                    self._ray.get(actor.coming)
                    actor.coming = None
                except self._ray.exceptions.RayError:
                    self._actors.remove(actor)
        count = round(self._ray.cluster_resources().get(RESOURCE, 0))
        gpus = {"num_gpus": 1} if self._gpus else {}
        for actor in [a for a in self._actors if a.coming is not None]:
            if len(self._actors) > count:  # its machine went before it was there
                self._ray.kill(actor.handle)
                self._actors.remove(actor)
        while len(self._actors) < count:
            make = self._ray.remote(num_cpus=0, resources={RESOURCE: 1}, **gpus)(Device)
            handle = make.remote()
            self._actors.append(_Actor(handle, handle.ready.remote()))

    def _start(self) -> None:
        compiling, measuring = self._waiting[COMPILE], self._waiting[MEASURE]
        if compiling or measuring:
            busy = any(actor.busy is not None for actor in self._actors)
            exclusive = self._exclusive
            while compiling and not (exclusive and busy):
                opened = compiling.popleft()
                named = self._compile.options(name=_name(opened.task))
                self._running[named.remote(*self._arguments(opened.task))] = opened
            others = len(self._running) - sum(a.busy is not None for a in self._actors)
            if not (exclusive and others):
                self._measure(measuring)

    def _measure(self, measuring: collections.deque[_Open]) -> None:
        for _ in range(len(measuring)):
            opened = measuring.popleft()
            left = [a for a in self._actors if not a.retired]
            fresh = [a for a in left if id(a) not in opened.avoided]
            if self._actors and not left:
                self._ended.append(Outcome(opened.key, DEVICE, message=_NO_DEVICE))
                continue
            idle = next((a for a in fresh or left if a.busy is None and a.coming is None), None)
            if idle is None:
                measuring.append(opened)
                continue
            named = idle.handle.perform.options(name=_name(opened.task))
            reference = named.remote(*self._arguments(opened.task))
            idle.busy = reference
            idle.deadline = self.now() + opened.task.timeout + _GRACE_SECONDS
            self._running[reference] = opened

    def _arguments(self, task: Task) -> tuple[Any, ...]:
        files = {name: self._content(path) for name, path in task.files.items()}
        return task.function, dict(task.request), files, task.timeout

    def _content(self, path: Path) -> Any:
        """A reference to the content of a file, which goes to the cluster once."""
        key = digest(path)
        if key not in self._contents:
            self._contents[key] = self._ray.put(path.read_bytes())
        return self._contents[key]

    def _end(self, reference: Any) -> None:
        opened = self._running.pop(reference)
        actor = next((a for a in self._actors if a.busy is reference), None)
        if actor is not None:
            actor.busy = None
        try:
            found, contents = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            self._ended.append(Outcome(opened.key, FAILED, message=str(error.cause)))
            return
        except self._ray.exceptions.RayError as error:
            self._lose(opened, actor, f"{type(error).__name__}")
            return
        attempts = opened.attempts + opened.lost + 1
        outcome = Outcome(opened.key, **found, attempts=attempts)
        if outcome.status == DEVICE and actor is not None:
            self._strike(opened, actor, outcome)
        elif outcome.status == DIED:
            self._again(opened, outcome)
        else:
            if actor is not None:
                actor.strikes = 0
            self._ended.append(dataclasses.replace(outcome, files=self._written(contents)))

    def _strike(self, opened: _Open, actor: _Actor, outcome: Outcome) -> None:
        """Counts an error of a device; its task goes to another one, if there is one."""
        actor.strikes += 1
        actor.retired = actor.strikes >= STRIKES
        opened.avoided.add(id(actor))
        self._again(opened, outcome)

    def _again(self, opened: _Open, outcome: Outcome) -> None:
        """Tries a task again, up to `MAX_ATTEMPTS` times."""
        opened.attempts += 1
        if opened.attempts < MAX_ATTEMPTS:
            self._waiting[opened.task.resource].append(opened)
            return
        status = FAILED if outcome.status == DIED else outcome.status
        message = f"{outcome.message}, {opened.attempts} times"
        self._ended.append(dataclasses.replace(outcome, status=status, message=message))

    def _lose(self, opened: _Open, actor: _Actor | None, reason: str) -> None:
        """Tries a task again whose worker or machine is lost."""
        if actor is not None:
            self._actors.remove(actor)
        opened.lost += 1
        if opened.lost < MAX_LOST:
            self._waiting[opened.task.resource].append(opened)
        else:
            message = f"its worker was lost {opened.lost} times: {reason}"
            self._ended.append(Outcome(opened.key, FAILED, message=message))

    def _end_hung(self) -> None:
        """Ends the actors of machines that do not answer."""
        for actor in [a for a in self._actors if a.busy is not None]:
            if self.now() > actor.deadline:
                opened = self._running.pop(actor.busy)
                self._ray.kill(actor.handle)
                self._lose(opened, actor, "no answer in time")

    def _written(self, contents: Mapping[str, bytes]) -> dict[str, Path]:
        self._count += 1
        place = self._folder / f"ray{self._count}"
        place.mkdir(parents=True)
        for name, content in contents.items():
            (place / name).write_bytes(content)
        return {name: place / name for name in contents}
