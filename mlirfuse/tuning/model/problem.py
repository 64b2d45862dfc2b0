"""The problem of a search: a model for a target, its shapes, the objective, and tasks for it."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlirfuse import targets
from mlirfuse.backend import cache
from mlirfuse.benchmarking import verdict
from mlirfuse.benchmarking.timing import Ratio, Samples
from mlirfuse.benchmarking.verdict import Comparison
from mlirfuse.tuning.execution.task import COMPILE, MEASURE, Outcome, Task
from mlirfuse.tuning.model import jobs
from mlirfuse.tuning.model.reference import EXACT, UNFUSED
from mlirfuse.tuning_profile import application
from mlirfuse.tuning_profile import entry as words
from mlirfuse.tuning_profile.entry import Setting

LATENCY, THROUGHPUT, MEMORY = "latency", "throughput", "memory"
OBJECTIVES = (LATENCY, THROUGHPUT, MEMORY)

COMPILE_SECONDS = 300.0
"""Time limit of the compilation of a candidate where none is given."""

MEASURE_SECONDS = 900.0
"""Time limit of a batch of measurements where none is given."""

_MODEL = "mlirfuse.tuning.model"

Settings = tuple[Setting, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Shapes:
    """Shapes of the arguments of a call, and how much they count.

    Attributes:
      shapes: of each argument; None for the model's own.
      weight: weight of a call's time.
    """

    shapes: tuple[tuple[int, ...], ...] | None = None
    weight: float = 1.0

    def __str__(self) -> str:
        """The shapes, and the weight where it is not 1."""
        if self.shapes is None:
            return "of the model"
        text = ",".join("x".join(map(str, shape)) for shape in self.shapes)
        return text if self.weight == 1.0 else f"{text}@{self.weight:g}"


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """A compiled candidate.

    Attributes:
      settings: its settings.
      path: the program.
      about: what the task said of it.
    """

    settings: Settings
    path: Path
    about: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """The digest of the program: equal for the same code."""
        return str(self.about["digest"])


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """The results that those of programs are compared with.

    Attributes:
      sets: for each set of shapes the entries of the unfused program's results, and of those in
        float64, which may be None.
      files: their files by name.
      note: why there are none in float64; empty where there are.
    """

    sets: list[dict[str, Any]]
    files: Mapping[str, Path]
    note: str

    @classmethod
    def of(cls, unfused: Outcome, exact: Outcome) -> Reference:
        """The results of the two tasks; of one in float64 that failed, there are none."""
        plain = unfused.value["sets"]
        wide = exact.value["sets"] if exact.ok else [None] * len(plain)
        return cls(
            [{UNFUSED: p, EXACT: w} for p, w in zip(plain, wide, strict=True)],
            {**unfused.files, **exact.files},
            exact.value["note"] if exact.ok else exact.message,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """A model for a target.

    Attributes:
      sources: form of attention -> the imported model as JSON, and its file. The empty text stands
        for the form that the user chose.
      target: spelling of the target.
      options: the switches of the user, as JSON.
      shapes: the sets of shapes.
      objective: one of `OBJECTIVES`.
      compile_seconds: time limit of a compilation.
      measure_seconds: time limit of a batch of measurements.
      seed: seed of random arguments.
      device: URI of iree-runtime's device; None for the target's.
    """

    sources: Mapping[str, tuple[Mapping[str, Any], Path]]
    target: str
    options: Mapping[str, Any]
    shapes: tuple[Shapes, ...] = (Shapes(),)
    objective: str = LATENCY
    compile_seconds: float = COMPILE_SECONDS
    measure_seconds: float = MEASURE_SECONDS
    seed: int = 0
    device: str | None = None

    def compile_task(self, settings: Settings, *, stock: bool = False) -> Task:
        """The task that compiles a candidate."""
        form = next((s.value for s in settings if s.set == words.ATTENTION), "")
        model, path = self.sources[form]
        return Task(
            f"{_MODEL}.jobs:compile_candidate",
            {
                "model": model,
                "target": self.target,
                "options": self.options,
                "settings": [s.to_dict() for s in ordered(settings)],
                "stock": stock,
                "timeout": self.compile_seconds,
            },
            {jobs.MODEL: path},
            COMPILE,
            # The phases of a compilation have the limit each.
            timeout=2 * self.compile_seconds,
            label="stock" if stock else label(settings),
            salt=_salt(),
        )

    def unfused_task(self, stock: Outcome) -> Task:
        """The task that makes the results of the unfused program."""
        return Task(
            f"{_MODEL}.reference:make_unfused",
            self._call(stock.value),
            {jobs.PROGRAM: stock.files[jobs.PROGRAM]},
            MEASURE,
            timeout=self.measure_seconds,
            label="results of the unfused program",
            salt=_salt(),
        )

    def exact_task(self, stock: Outcome) -> Task:
        """The task that makes results in float64, on the cores of a machine."""
        return Task(
            f"{_MODEL}.reference:make_exact",
            self._call(stock.value),
            {jobs.MODEL: self.sources[""][1]},
            COMPILE,
            timeout=self.measure_seconds,
            label="results in float64",
            salt=_salt(),
        )

    def measure_task(
        self,
        incumbent: Program,
        others: Sequence[Program],
        reference: Reference,
        rounds: int,
        *,
        verify: bool,
        alone: bool = False,
    ) -> Task:
        """The task that checks and times some programs beside the incumbent.

        Args:
          incumbent: the program.
          others: the programs beside it.
          reference: the results that theirs are compared with.
          rounds: number of rounds.
          verify: whether the results are compared.
          alone: whether each program has a process of its own.
        """
        names = [jobs.INCUMBENT, *(f"candidate {i}" for i in range(len(others)))]
        programs = dict(zip(names, [incumbent, *others], strict=True))
        checked = names if verify else []
        request = {
            **self._call(incumbent.about),
            "names": names,
            "verify": {name: programs[name].about["numerics"] for name in checked},
            "sets": reference.sets,
            "rounds": rounds,
            "alone": alone,
            "threads": 1 if self.objective == THROUGHPUT else None,
        }
        files = {name: program.path for name, program in programs.items()}
        return Task(
            f"{_MODEL}.measuring:measure",
            request,
            {**files, **(reference.files if verify else {})},
            MEASURE,
            timeout=self.measure_seconds,
            label=f"{len(others)} programs, {rounds} rounds",
            salt=_salt(),
        )

    def _call(self, about: Mapping[str, Any]) -> dict[str, Any]:
        model = self.sources[""][0]
        return {
            "model": model,
            "function": model["function"],
            "inputs": about["inputs"],
            "outputs": about["outputs"],
            "shapes": [s.shapes for s in self.shapes],
            "target": self.target,
            "device": self.device or targets.parse(self.target).device,
            "timeout": self.measure_seconds,
            "seed": self.seed,
        }

    def comparison(
        self, measured: Mapping[str, Sequence[Sequence[float]]], ours: str, other: str
    ) -> tuple[Comparison, int]:
        """The verdict about two programs of a batch, over all shapes, and the number of rounds.

        Args:
          measured: the `seconds` of a measurement.
          ours: name of the program that the verdict is about.
          other: name of the one that it is compared with.
        """
        samples = self.samples(measured)
        # The noise is that of the one program that has two processes.
        found = verdict.interval(samples.ratios(other, ours))
        noise = verdict.noise(samples.ratios(jobs.CONTROL, jobs.INCUMBENT))
        said = verdict.verdict(found, noise)
        rounds = len(samples.seconds[ours])
        return Comparison(samples.ratio(other, ours), found, noise, said), rounds

    def samples(self, measured: Mapping[str, Sequence[Sequence[float]]]) -> Samples:
        """The weighted time of one call with each set of shapes, in each round."""
        weights = [s.weight for s in self.shapes]
        found = {}
        for name, sets in measured.items():
            rounds = zip(*sets, strict=False)
            found[name] = [sum(w * t for w, t in zip(weights, r, strict=True)) for r in rounds]
        return Samples(found)

    def bytes_compared(self, ours: Program, other: Program) -> Comparison:
        """The verdict about the memory of two programs, which has no noise."""
        ratio = max(1, other.about["bytes"]) / max(1, ours.about["bytes"])
        interval = (ratio, ratio)
        said = verdict.verdict(interval, 1.0)
        return Comparison(Ratio(ratio, ratio, ratio), interval, 1.0, said)


@functools.cache
def _salt() -> str:
    """The versions that results hold for: of IREE, and of every source of ours."""
    return json.dumps([application.versions(), cache.sources()])


def ordered(settings: Settings) -> Settings:
    """The settings in the one order in which they are applied."""
    return tuple(sorted(settings, key=lambda s: s.key))


def label(settings: Settings) -> str:
    """The settings in few words."""
    return ", ".join(map(str, ordered(settings))) or "default"


def slot(setting: Setting) -> str:
    """The place that a setting takes: settings of one place exclude each other."""
    if setting.set == words.KERNEL:
        return Setting("kernel", [setting.value["family"], setting.value["problem"]]).key
    if setting.set == words.IREE_OPTION:
        return f"{setting.set} {str(setting.value).partition('=')[0]}"
    selector = setting.selector
    if selector is not None:
        return f"pass {selector}"
    if setting.set in ("disable_feature", "enable_feature"):
        return f"feature {setting.value}"
    return setting.set


def added(settings: Settings, setting: Setting) -> Settings:
    """The settings with one more, in the place of those that it excludes."""
    place = slot(setting)
    selector = setting.selector

    def excluded(other: Setting) -> bool:
        if slot(other) == place:
            return True
        name = other.selector
        # A pass as a whole, and one of its matches.
        same = selector is not None and name is not None and selector.name == name.name
        return same and (selector.whole or name.whole)  # type: ignore[union-attr]

    return ordered((*(s for s in settings if not excluded(s)), setting))


def without(settings: Settings, setting: Setting) -> Settings:
    """The settings without one of them."""
    return tuple(s for s in settings if s != setting)
