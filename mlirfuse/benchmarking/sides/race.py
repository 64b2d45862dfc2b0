"""A race of a program of ours with other systems, and its outcome."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from mlirfuse.benchmarking import verdict
from mlirfuse.benchmarking.environment import environment
from mlirfuse.benchmarking.process import Process, started
from mlirfuse.benchmarking.rounds import MAX_ROUNDS, bursts
from mlirfuse.benchmarking.sides import CONTROL, OURS, SIDES, agreement, unsuited, worker
from mlirfuse.benchmarking.timing import Samples
from mlirfuse.benchmarking.verdict import Comparison
from mlirfuse.core import MlirfuseError
from mlirfuse.runtime import array_files
from mlirfuse.runtime.inputs import Array
from mlirfuse.support import temporary
from mlirfuse.support.stages import Show
from mlirfuse.targets.base import Target

SCHEMA = 1

PATIENCE_SECONDS = 1800.0
"""Seconds that a side may take to compile and to make its first calls."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A model and the circumstances of its calls.

    Attributes:
      model: MODEL as for `mlirfuse-compile`.
      target: the target.
      threads: number of threads of each side.
      seconds: approximate time of all rounds.
      options: the switches of ours.
      inputs: tensors of a call, in order; None for the model's example inputs, or random ones.
      function: the function to call, of MLIR with several.
      shapes: as for `mlirfuse-compile`.
      timeout: seconds that one step of IREE's compiler may take; None for no limit.
      tolerance: error between results up to which sides agree; None for that of `agreement`.
    """

    model: str
    target: Target
    threads: int
    seconds: float
    options: dict[str, Any]
    inputs: Sequence[Array] | None = None
    function: str | None = None
    shapes: str | None = None
    timeout: float | None = None
    tolerance: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The times of the sides.

    Attributes:
      work: the model.
      load: load average of the machine before the first round.
      samples: times of the sides that count, in each round.
      facts: side -> `said`, the reason why it does not count, or its `compile_s`, `min_ms`,
        `version`, ...
      comparisons: side -> ours beside it.
    """

    work: Work
    load: float
    samples: Samples
    facts: dict[str, dict[str, Any]]
    comparisons: dict[str, Comparison]

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return max(map(len, self.samples.seconds.values()), default=0)

    def to_dict(self) -> dict[str, Any]:
        """The outcome as JSON."""
        sides = {}
        for name, facts in self.facts.items():
            entry = dict(facts)
            if name in self.samples.seconds:
                entry["ms"] = self.samples.milliseconds(name)
            if name in self.comparisons:
                entry |= self.comparisons[name].to_dict()
            sides[name] = entry
        return {
            "schema": SCHEMA,
            "model": self.work.model,
            "target": str(self.work.target),
            "threads": self.work.threads,
            "rounds": self.rounds,
            "load": self.load,
            "noise": next((c.noise for c in self.comparisons.values()), None),
            "sides": sides,
        }


def run(work: Work, against: Sequence[str], show: Show) -> Outcome:
    """Compiles a model for each side, then gives each a burst of calls in each round.

    Args:
      work: the model.
      against: names of `SIDES`.
      show: shows the progress.

    Raises:
      MlirfuseError: our own program cannot be compiled or run.
    """
    with temporary.folder("mlirfuse-bench-") as folder, contextlib.ExitStack() as processes:
        crew = _Crew(work, Path(folder), processes)
        total = len(against) + 2
        ready: dict[str, Process] = {}
        facts: dict[str, dict[str, Any]] = {}
        for index, name in enumerate((OURS, *against, CONTROL)):
            show(f"preparing {name}", index, total)
            missing = None if name in (OURS, CONTROL) else crew.refusal(name)
            process, facts[name] = (None, {"said": missing}) if missing else crew.start(name)
            if process is not None:
                ready[name] = process
            elif name == OURS:
                raise MlirfuseError(f"{work.model}: ours does not run: {facts[name]['said']}")
        _leave_out_differing(work, Path(folder), ready, facts)
        load = os.getloadavg()[0]
        samples = bursts(
            ready,
            facts,
            work.seconds,
            lambda done: show("rounds", done, MAX_ROUNDS),
            time_of=min,
            min_rounds=verdict.MIN_ROUNDS,
        )
    return _judged(work, load, samples, facts)


def lacking(name: str) -> str | None:
    """The reason why a side cannot run in this installation; None where it can."""
    for module, remedy in SIDES[name].needs.items():
        if importlib.util.find_spec(module) is None:
            return f"needs {module}: {remedy}"
    return None


def versions(name: str) -> str:
    """Name and version of the packages of a side."""
    packages = ("mlirfuse",) if name in (OURS, CONTROL) else SIDES[name].packages
    return ", ".join(f"{package} {metadata.version(package)}" for package in packages)


class _Crew:
    """The processes of a race.

    Args:
      work: the model.
      folder: empty folder for programs, inputs and results.
      processes: ends the processes.
    """

    def __init__(self, work: Work, folder: Path, processes: contextlib.ExitStack) -> None:
        self.work, self.folder, self.processes = work, folder, processes
        self.kind: str | None = None
        self.inputs = (
            None
            if work.inputs is None
            else array_files.write(folder, worker.INPUT, list(work.inputs))
        )

    def refusal(self, name: str) -> str | None:
        """The reason why a side does not run, after ours was started; None where it may.

        A package that is missing comes last: to install it helps only where the side takes the
        model.
        """
        assert self.kind is not None
        return unsuited(name, self.kind, self.work.target.name) or lacking(name)

    def start(self, name: str) -> tuple[Process | None, dict[str, Any]]:
        """The stopped process of a side that is ready, and facts about it."""
        work = self.work
        request = worker.Request(
            side=name,
            model=work.model,
            target=str(work.target),
            threads=work.threads,
            folder=str(self.folder),
            options=work.options,
            inputs=self.inputs,
            kind=self.kind,
            function=work.function,
            shapes=work.shapes,
            timeout=work.timeout,
        )
        arch = work.target.arch if work.target.name == "cpu" else "host"
        variables = environment(work.threads, arch) | {
            "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor")
        }
        process = self.processes.enter_context(
            started(worker.MODULE, dataclasses.asdict(request), variables)
        )
        facts = process.line(PATIENCE_SECONDS)
        if facts is None:
            return None, {"said": process.end()}
        if "said" in facts:
            process.end()
            return None, facts
        process.stop()
        self.inputs = facts.pop("inputs", self.inputs)
        self.kind = facts.pop("kind", self.kind)
        return process, facts | {"version": versions(name)}


def _leave_out_differing(
    work: Work, folder: Path, ready: dict[str, Process], facts: dict[str, dict[str, Any]]
) -> None:
    """Stops the sides whose results are not those of most others.

    Raises:
      MlirfuseError: ours is one of them.
    """
    results = {
        name: array_files.read(folder, worker.results_stem(name), facts[name].pop("results"))
        for name in ready
    }
    results.pop(CONTROL, None)
    right, wrong = agreement.differing(results, work.tolerance)
    for name, distance in wrong.items():
        text = (
            f"its results differ from those of {right}: error {distance.error:.1e} of the largest"
            f" magnitude, allowed {distance.allowed:.1e}"
        )
        if name == OURS:
            raise MlirfuseError(f"{work.model}: ours is not timed: {text}")
        facts[name] = {"said": text}
        ready.pop(name).close()


def _judged(work: Work, load: float, samples: Samples, facts: dict[str, dict[str, Any]]) -> Outcome:
    """The outcome of the rounds.

    Raises:
      MlirfuseError: our process ended.
    """
    timed = samples.seconds
    if OURS not in timed:
        raise MlirfuseError(f"{work.model}: ours does not run: {facts[OURS]['said']}")
    control = CONTROL if CONTROL in timed else None
    comparisons = {
        name: verdict.compare(samples, OURS, name, control)
        for name in timed
        if name not in (OURS, CONTROL)
    }
    return Outcome(work=work, load=load, samples=samples, facts=facts, comparisons=comparisons)
