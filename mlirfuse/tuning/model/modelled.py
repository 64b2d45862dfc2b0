"""A model whose settings have known effects: answers of tasks for simulations of the search.

Compilations and measurements take times that were recorded; the programs are names alone.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlirfuse.tuning.execution.task import FAILED, OK, Outcome, Task
from mlirfuse.tuning.model import jobs
from mlirfuse.tuning.model.problem import Problem, Settings, ordered
from mlirfuse.tuning_profile.entry import Setting

BASE_SECONDS = 1e-3
"""Time of a call of the modelled program with the default settings."""


@dataclasses.dataclass(slots=True)
class ModelledModel:
    """A model of known effects.

    Attributes:
      folder: an existing folder for the files that stand for programs.
      effects: key of a setting -> its factor on the time of a call; a setting without one changes
        nothing, and gives the program of the default.
      pairs: keys of two settings -> a further factor where both are set.
      wrong: keys of settings that make results wrong.
      broken: keys of settings that cannot be compiled.
      idle: keys of further settings that change nothing.
      noise: standard deviation of the logarithm of a measured time.
      compile_seconds: recorded times of compilations, of which each takes one.
      measure_seconds: recorded times of measurements for each program in a batch and round.
      seed: seed of the choices.
      compiled: number of compilations of each candidate.
    """

    folder: Path
    effects: Mapping[str, float]
    pairs: Mapping[frozenset[str], float] = dataclasses.field(default_factory=dict)
    wrong: frozenset[str] = frozenset()
    broken: frozenset[str] = frozenset()
    idle: tuple[str, ...] = ()
    noise: float = 0.01
    compile_seconds: Sequence[float] = (5.0,)
    measure_seconds: Sequence[float] = (0.1,)
    seed: int = 0
    compiled: dict[str, int] = dataclasses.field(default_factory=dict)

    def problem(self, **fields: Any) -> Problem:
        """The problem of a search for it."""
        source = self.folder / "model"
        source.write_text("", encoding="utf-8")
        model = {"function": "main"}
        return Problem(sources={"": (model, source)}, target="cpu", options={}, **fields)

    def settings(self) -> list[Setting]:
        """The settings that are proposed: `target.cpu.setting0`, ..."""
        names = [*self.effects, *sorted(self.wrong | self.broken), *self.idle]
        return [setting(name) for name in dict.fromkeys(names)]

    def factor(self, settings: Settings) -> float:
        """The factor of some settings on the time of a call."""
        return self._factor([name(s) for s in settings])

    def _factor(self, keys: Sequence[str]) -> float:
        factor = math.prod(self.effects.get(key, 1.0) for key in keys)
        for pair, further in self.pairs.items():
            if pair <= set(keys):
                factor *= further
        return factor

    def answer(self, task: Task) -> Outcome:
        """The outcome of a task of the search."""
        generator = random.Random(f"{self.seed} {task.key}")
        kind = task.function.partition(":")[2]
        if kind == "compile_candidate":
            return self._compiled(task, generator.choice(self.compile_seconds))
        if kind in ("make_unfused", "make_exact"):
            value: dict[str, Any] = {"sets": [[] for _ in task.request["shapes"]], "note": ""}
            return Outcome(task.key, OK, value, seconds=generator.choice(self.compile_seconds))
        return self._measured(task, generator)

    def _compiled(self, task: Task, seconds: float) -> Outcome:
        settings = ordered(tuple(Setting(**given) for given in task.request["settings"]))
        keys = [name(s) for s in settings]
        self.compiled[task.key] = self.compiled.get(task.key, 0) + 1
        if self.broken & set(keys):
            return Outcome(task.key, FAILED, message="refused", seconds=seconds)
        counting = [key for key in keys if key in self.effects or key in self.wrong]
        code = json.dumps([counting, task.request["stock"]])
        path = self.folder / hashlib.sha256(code.encode()).hexdigest()[:24]
        path.write_text(code, encoding="utf-8")
        value: dict[str, Any] = {
            "digest": path.name,
            "inputs": [],
            "outputs": [],
            "numerics": "exact",
            "bytes": round(1e6 * self.factor(settings)),
        }
        if not settings:
            value["proposals"] = [
                {"setting": s.to_dict(), "where": "", "modelled_us": 0.0} for s in self.settings()
            ]
        return Outcome(task.key, OK, value, files={jobs.PROGRAM: path}, seconds=seconds)

    def _measured(self, task: Task, generator: random.Random) -> Outcome:
        rounds = task.request["rounds"]
        drift = [math.exp(generator.gauss(0, 0.05)) for _ in range(rounds)]
        wrong: dict[str, str] = {}
        times: dict[str, list[list[float]]] = {}
        for program in (*task.request["names"], jobs.CONTROL):
            path = task.files[jobs.INCUMBENT if program == jobs.CONTROL else program]
            keys = json.loads(path.read_text(encoding="utf-8"))[0]
            if self.wrong & set(keys):
                wrong[program] = "wrong: result 0 differs"
                continue
            base = BASE_SECONDS * self._factor(keys)
            times[program] = [
                [base * d * math.exp(generator.gauss(0, self.noise)) for d in drift]
                for _ in task.request["shapes"]
            ]
        seconds = rounds * len(times) * generator.choice(self.measure_seconds)
        return Outcome(task.key, OK, {"wrong": wrong, "seconds": times}, seconds=seconds)


def setting(key: str) -> Setting:
    """The setting of a name."""
    return Setting(f"target.cpu.{key}", 1)


def name(given: Setting) -> str:
    """The name of a setting."""
    return given.set.rpartition(".")[2]
