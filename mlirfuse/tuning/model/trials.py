"""Candidates are compiled and measured: what a search knows, and how it learns more.

trials = Trials(problem, executor)
default = trials.start()
programs = trials.compiled([settings, ...], "a stage")
judged = trials.measured(default, programs, rounds, "a stage")
"""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import Callable, Sequence

from mlirfuse.benchmarking.verdict import Comparison
from mlirfuse.core import MlirfuseError
from mlirfuse.tuning.execution.task import Executor, Outcome, Task, run_all
from mlirfuse.tuning.model import jobs
from mlirfuse.tuning.model.problem import MEMORY, Problem, Program, Reference, Settings, label
from mlirfuse.tuning.model.space import Proposal
from mlirfuse.tuning_profile import entry as words
from mlirfuse.tuning_profile.entry import Setting

BATCH = 4
"""Candidates that take turns with the incumbent and its control: as few on a CPU, whose cores each
of them needs, and where that is all the memory that there is."""

MAX_BATCH = 30
"""Upper limit of the candidates on another device."""

PROCESSES = 2
"""Programs of a batch beside the candidates: the incumbent and its control."""

CONTEXT_BYTES = 512 << 20
"""Memory of a GPU that a process takes before its program, where each program has one."""

Say = Callable[[str, int, int], object]


@dataclasses.dataclass(frozen=True, slots=True)
class Judged:
    """A program beside the incumbent.

    Attributes:
      program: the program.
      comparison: the verdict about it; the ratio is the incumbent's time over its own.
      rounds: number of rounds.
    """

    program: Program
    comparison: Comparison
    rounds: int


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    """A setting of the result, and the measurement of leaving it out.

    Attributes:
      setting: the setting.
      comparison: the result beside the program without the setting.
      rounds: number of rounds.
      together: the result beside the program without this and other settings, which gain too little
        to be seen one at a time; None where the setting alone is outside the noise.
    """

    setting: Setting
    comparison: Comparison
    rounds: int
    together: Comparison | None = None


@dataclasses.dataclass(slots=True)
class Found:
    """The result of a search.

    Attributes:
      settings: the settings, with their evidence.
      whole: the result beside the default; None where the default is the result.
      rounds: number of rounds of it.
      default: the program with the default settings.
      best: the program with the result's settings.
      milliseconds: times of a call of the default and of the result.
      tried: number of candidates that were compiled.
      untried: number of those that no time was left for.
      same: number of those with the code of another one.
      wrong: settings with wrong results, and the difference.
      failed: settings that could not be compiled or called, and the reason.
      measured: every program that was measured beside the default or another incumbent.
      proposals: the proposed settings, by key.
    """

    default: Program
    best: Program
    settings: list[Kept] = dataclasses.field(default_factory=list)
    whole: Comparison | None = None
    rounds: int = 0
    milliseconds: tuple[float, float] = (0.0, 0.0)
    tried: int = 0
    untried: int = 0
    same: int = 0
    wrong: dict[str, str] = dataclasses.field(default_factory=dict)
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    measured: list[Judged] = dataclasses.field(default_factory=list)
    proposals: dict[str, Proposal] = dataclasses.field(default_factory=dict)


class Trials:
    """Compiles and measures candidates.

    Attributes:
      problem: the model and the target.
      found: what is known by now.
      programs: settings -> the program; None for one that cannot be compiled.
      bad: digests of programs with wrong results or failing calls.

    Args:
      problem: the model and the target.
      executor: runs the tasks.
      say: called with a stage, and how many of how many are done.
      seconds: approximate time limit from `start` on; None for none.
      parallel: compilations that are handed out at a time where there is a time limit, since all
        that are handed out are waited for; None for the number of cores.
      batch_bytes: memory of the device that the programs of a batch may take together; None for
        `BATCH` candidates.
    """

    def __init__(
        self,
        problem: Problem,
        executor: Executor,
        say: Say,
        *,
        seconds: float | None,
        parallel: int | None,
        batch_bytes: int | None,
    ) -> None:
        """Nothing is tried yet."""
        self.problem = problem
        self.found: Found
        self.programs: dict[Settings, Program | None] = {}
        self.bad: set[str] = set()
        self._executor = executor
        self._say = say
        self._seconds = seconds
        self._parallel = parallel or len(os.sched_getaffinity(0))
        self._batch_bytes = batch_bytes
        self._began = executor.now()
        self._verified: set[str] = set()
        self._unfused, self._exact = "", ""
        self._early: dict[str, Outcome] = {}
        self._reference: Reference | None = None

    def start(self) -> Program:
        """Compiles the default and the unfused program.

        The reference results are made beside the compilations that follow, and waited for before
        the first measurement.

        Raises:
          MlirfuseError: the model cannot be compiled.
        """
        self._began = self._executor.now()
        self._say("compiling the default", 0, 0)
        tasks = [self.problem.compile_task((), stock=True), self.problem.compile_task(())]
        stock, made = run_all(self._executor, tasks)
        for outcome in (made, stock):
            if not outcome.ok:
                raise MlirfuseError(f"the model cannot be compiled: {outcome.message}")
        default = Program((), made.files[jobs.PROGRAM], made.value)
        self.programs[()] = default
        self.found = Found(default, default)
        # Forms of attention are few, and change the most of a program.
        for form in filter(None, self.problem.sources):
            setting = Setting(words.ATTENTION, form)
            self.found.proposals[setting.key] = Proposal(setting)
        for given in made.value["proposals"]:
            proposal = Proposal(Setting(**given["setting"]), given["where"], given["modelled_us"])
            self.found.proposals[proposal.setting.key] = proposal
        self._exact = self._executor.submit(self.problem.exact_task(stock))
        self._unfused = self._executor.submit(self.problem.unfused_task(stock))
        return default

    def _references(self) -> Reference:
        """The results of the two tasks of `start`, which are waited for.

        Raises:
          MlirfuseError: the unfused program cannot be called.
        """
        if self._reference is None:
            if len(self._early) < 2:
                self._say("making reference results", 0, 0)
            while len(self._early) < 2:
                self._next()
            unfused = self._early[self._unfused]
            self._reference = Reference.of(unfused, self._early[self._exact])
        return self._reference

    def _next(self) -> Outcome | None:
        """The next outcome; None for one of the reference results.

        Raises:
          MlirfuseError: the unfused program cannot be called.
        """
        outcome = self._executor.wait()
        if outcome.key not in (self._unfused, self._exact):
            return outcome
        self._early[outcome.key] = outcome
        if outcome.key == self._unfused and not outcome.ok:
            raise MlirfuseError(f"no results to compare with: {outcome.message}")
        return None

    def left(self, part: float) -> bool:
        """Whether a part of the time limit has not passed yet."""
        if self._seconds is None:
            return True
        return self._executor.now() - self._began < part * self._seconds

    def _outcomes(
        self, tasks: Sequence[Task], stage: str, part: float | None, parallel: int
    ) -> dict[str, Outcome]:
        """The outcomes of some tasks by key: of those that began within a part of the time limit.

        Args:
          tasks: of a stage.
          stage: its name.
          part: of the time limit; None to run all.
          parallel: number of tasks that are handed out at a time where there is a limit.
        """
        limit = None if self._seconds is None else part
        waiting = collections.deque(tasks)
        opened: set[str] = set()
        found: dict[str, Outcome] = {}
        while waiting or not found.keys() >= opened:
            open_count = len(opened) - len(found)
            if waiting and (limit is None or open_count < parallel):
                if limit is not None and opened and not self.left(limit):
                    waiting.clear()
                    continue
                opened.add(self._executor.submit(waiting.popleft()))
                continue
            if (outcome := self._next()) is not None:
                found[outcome.key] = outcome
                self._say(stage, len(found), len(tasks))
        return found

    def program(self, settings: Settings) -> Program:
        """The program with settings that were compiled."""
        program = self.programs[settings]
        assert program is not None
        return program

    def compiled(
        self, wanted: Sequence[Settings], stage: str, part: float | None = None
    ) -> list[Program]:
        """The programs of some candidates, without those that fail or have the code of others.

        Those that no time is left for are left out; a part of the limit of None compiles all.
        """
        new = [s for s in dict.fromkeys(wanted) if s not in self.programs]
        tasks = {s: self.problem.compile_task(s) for s in new}
        done = self._outcomes(list(tasks.values()), stage, part, self._parallel)
        for settings, task in tasks.items():
            outcome = done.get(task.key)
            if outcome is None:
                self.found.untried += 1
                continue
            self.found.tried += 1
            if outcome.ok:
                program = Program(settings, outcome.files[jobs.PROGRAM], outcome.value)
                self.programs[settings] = program
            else:
                self.programs[settings] = None
                self.found.failed[label(settings)] = outcome.message
        return self._distinct([s for s in wanted if s in self.programs])

    def _distinct(self, wanted: Sequence[Settings]) -> list[Program]:
        """The compiled programs with code of their own, in order."""
        seen = {self.found.default.digest}
        found = []
        for settings in dict.fromkeys(wanted):
            program = self.programs[settings]
            if program is None or program.digest in self.bad:
                continue
            if program.digest in seen:
                self.found.same += bool(settings)
                continue
            seen.add(program.digest)
            found.append(program)
        return found

    def measured(
        self,
        incumbent: Program,
        programs: Sequence[Program],
        rounds: int,
        stage: str,
        part: float | None = None,
    ) -> list[Judged]:
        """The programs with right results beside the incumbent, in order.

        Those that no time is left for are left out; a part of the limit of None measures all.
        """
        size = self._batch_size()
        batches = [programs[i : i + size] for i in range(0, len(programs), size)]
        tasks = [self._batch(incumbent, batch, rounds) for batch in batches]
        what = f"{stage}, {len(programs)} programs: batch"
        outcomes = self._outcomes(tasks, what, part, self._executor.open_measurements)
        found = []
        for task, batch in zip(tasks, batches, strict=True):
            if task.key in outcomes:
                found += self._judged(incumbent, batch, outcomes[task.key])
        self.found.measured += found
        return found

    def confirmed(
        self, default: Program, best: Program, rounds: int
    ) -> tuple[Judged, tuple[float, float]] | None:
        """A program beside the default in new processes, and the milliseconds of a call of both."""
        task = self.problem.measure_task(
            default,
            [best],
            self._references(),
            rounds,
            verify=True,
            alone=self._batch_bytes is None,
        )
        (outcome,) = run_all(self._executor, [task])
        judged = self._judged(default, [best], outcome)
        if not judged:
            return None
        samples = self.problem.samples(outcome.value["seconds"])
        names = jobs.INCUMBENT, "candidate 0"
        return judged[0], (samples.milliseconds(names[0]), samples.milliseconds(names[1]))

    def _batch_size(self) -> int:
        if self._batch_bytes is None:
            return BATCH
        each = int(self.found.default.about["bytes"]) + CONTEXT_BYTES
        return max(BATCH, min(MAX_BATCH, self._batch_bytes // each - PROCESSES))

    def _batch(self, incumbent: Program, batch: Sequence[Program], rounds: int) -> Task:
        digests = {p.digest for p in (incumbent, *batch)}
        verify = not digests <= self._verified
        found = self._references()
        return self.problem.measure_task(incumbent, batch, found, rounds, verify=verify)

    def _judged(
        self, incumbent: Program, batch: Sequence[Program], outcome: Outcome
    ) -> list[Judged]:
        if not outcome.ok:
            for program in batch:
                self.found.failed[label(program.settings)] = outcome.message
            return []
        wrong, seconds = outcome.value["wrong"], outcome.value["seconds"]
        found = []
        for index, program in enumerate(batch):
            name = f"candidate {index}"
            if name in wrong:
                kind = self.found.wrong if wrong[name].startswith("wrong") else self.found.failed
                kind[label(program.settings)] = wrong[name]
                self.bad.add(program.digest)
                continue
            self._verified.add(program.digest)
            comparison, rounds = self.problem.comparison(seconds, name, jobs.INCUMBENT)
            if self.problem.objective == MEMORY:
                comparison = self.problem.bytes_compared(program, incumbent)
            found.append(Judged(program, comparison, rounds))
        self._verified.add(incumbent.digest)
        return found
