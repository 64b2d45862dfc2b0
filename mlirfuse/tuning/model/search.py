"""The search: single settings by successive halving, then combinations by local search.

1. each proposed setting alone, in the order of the cost model, up to a number of candidates; those
   that give the program of the default are dropped, those with wrong results too;
2. successive halving: batches of candidates take turns with the default, the better half is
   measured with twice the rounds;
3. local search from the default: settings are added and removed while a program is faster outside
   the noise;
4. each setting that is left is measured by leaving it out; the ones that do not pay are dropped,
   unless they gain together what cannot be seen of one alone;
5. the result is measured beside the default, and is the default where it is not faster.

With a time limit the first three steps get a part of it each, and candidates that they have not
reached by then are left out; the last two always run, since they decide whether the result holds.

Batches are formed in the order of the candidates, so that a search that is resumed asks for the
same measurements and finds them in the store.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Sequence

from mlirfuse.benchmarking.verdict import FASTER, MIN_ROUNDS, SLOWER, Comparison
from mlirfuse.core import MlirfuseError
from mlirfuse.tuning.execution.task import Executor, Outcome, Task, run_all
from mlirfuse.tuning.model import jobs
from mlirfuse.tuning.model.problem import (
    MEMORY,
    Problem,
    Program,
    Settings,
    added,
    label,
    without,
)
from mlirfuse.tuning.model.space import Proposal
from mlirfuse.tuning_profile.entry import Setting

BATCH = 4
"""Candidates that take turns with the incumbent and its control."""

DEVICE_BATCH = 14
"""The same for a program of another device than the CPU: its processes start beside each other, and
each holds no more of the machine than its memory."""

COMPILE_PART, HALVING_PART, CLIMB_PART = 0.4, 0.65, 0.8
"""Parts of the time limit at which the compilation of single settings, successive halving and the
local search end. The rest is for the measurements that confirm the result."""

MAX_CANDIDATES = 96
"""Single settings that are tried where no other number is given."""

SURVIVORS = 6
"""Candidates that successive halving leaves for the local search."""

POOL = 12
"""Settings that the local search adds: those that were best alone, also where they did not pay."""

MIN_SMALL_GAIN = 1.003
"""Smallest gain, by the median, of a setting that is kept for what it gains with others: less is the
noise of a quiet machine."""

MAX_PAIRS = 16
"""Candidates with two changes of each kind, where no single change is faster."""

MAX_STEPS = 12
"""Upper limit of the steps of the local search."""

FINAL_ROUNDS = 4 * MIN_ROUNDS
"""Rounds of the measurement that a setting is kept by."""

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
    same: int = 0
    wrong: dict[str, str] = dataclasses.field(default_factory=dict)
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    measured: list[Judged] = dataclasses.field(default_factory=list)
    proposals: dict[str, Proposal] = dataclasses.field(default_factory=dict)


class Search:
    """One search.

    Args:
      problem: the model and the target.
      executor: runs the tasks.
      say: called with a stage, and how many of how many are done.
      max_candidates: number of single settings that are tried.
      extra: proposals beside those of the model.
      seconds: approximate time limit of `run`; None for none.
      parallel: compilations that are handed out at a time where there is a time limit, since all
        that are handed out are waited for; None for the number of cores.
      batch: candidates that are measured in a task.
    """

    def __init__(
        self,
        problem: Problem,
        executor: Executor,
        say: Say = lambda stage, done, total: None,
        max_candidates: int = MAX_CANDIDATES,
        extra: Iterable[Proposal] = (),
        *,
        seconds: float | None = None,
        parallel: int | None = None,
        batch: int = BATCH,
    ) -> None:
        """Nothing is tried yet."""
        self.problem = problem
        self._executor = executor
        self._say = say
        self._max = max_candidates
        self._extra = list(extra)
        self._seconds = seconds
        self._parallel = parallel or len(os.sched_getaffinity(0))
        self._batch_size = batch
        self._began = executor.now()
        self._programs: dict[Settings, Program | None] = {}
        self._verified: set[str] = set()
        self._bad: set[str] = set()
        self._reference: Outcome
        self._found: Found

    def run(self) -> Found:
        """Searches.

        Raises:
          MlirfuseError: the model cannot be compiled or called with the default settings.
        """
        self._began = self._executor.now()
        default = self._start()
        proposals = [*self._extra, *self._found.proposals.values()]
        singles = [added((), p.setting) for p in proposals][: self._max]
        candidates = self._compiled(singles, "compiling candidates", COMPILE_PART)
        survivors = self._halved(default, candidates)
        best = self._climb(default, survivors)
        self._prune(default, best)
        return self._found

    def _left(self, part: float) -> bool:
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
                if limit is not None and opened and not self._left(limit):
                    waiting.clear()
                    continue
                opened.add(self._executor.submit(waiting.popleft()))
                continue
            outcome = self._executor.wait()
            found[outcome.key] = outcome
            self._say(stage, len(found), len(tasks))
        return found

    def exhaustive(self, settings: Sequence[Setting]) -> list[tuple[Settings, float]]:
        """Every combination of some settings, with its speedup over the default, the best first."""
        default = self._start()
        combinations: list[Settings] = [()]
        for setting in settings:
            more = [added(c, setting) for c in combinations]
            combinations = list(dict.fromkeys([*combinations, *more]))
        candidates = self._compiled([c for c in combinations if c], "compiling combinations")
        judged = self._measured(default, candidates, FINAL_ROUNDS, "measuring combinations")
        found = [(j.program.settings, j.comparison.ratio.median) for j in judged]
        return sorted([((), 1.0), *found], key=lambda pair: -pair[1])

    def _start(self) -> Program:
        """Compiles the default and the unfused program, and makes the reference results."""
        self._say("compiling the default", 0, 0)
        tasks = [self.problem.compile_task((), stock=True), self.problem.compile_task(())]
        stock, made = run_all(self._executor, tasks)
        for outcome in (made, stock):
            if not outcome.ok:
                raise MlirfuseError(f"the model cannot be compiled: {outcome.message}")
        default = Program((), made.files[jobs.PROGRAM], made.value)
        self._programs[()] = default
        self._found = Found(default, default)
        for given in made.value["proposals"]:
            proposal = Proposal(Setting(**given["setting"]), given["where"], given["modelled_us"])
            self._found.proposals[proposal.setting.key] = proposal
        for form in self.problem.sources:
            if form:
                setting = Setting("attention", form)
                self._found.proposals[setting.key] = Proposal(setting)
        self._say("making reference results", 0, 0)
        (self._reference,) = run_all(self._executor, [self.problem.reference_task(stock)])
        if not self._reference.ok:
            raise MlirfuseError(f"the unfused program fails: {self._reference.message}")
        return default

    def _compiled(
        self, wanted: Sequence[Settings], stage: str, part: float | None = None
    ) -> list[Program]:
        """The programs of some candidates, without those that fail or have the code of others.

        Those that no time is left for are left out; a part of the limit of None compiles all.
        """
        new = [s for s in dict.fromkeys(wanted) if s not in self._programs]
        tasks = {s: self.problem.compile_task(s) for s in new}
        done = self._outcomes(list(tasks.values()), stage, part, self._parallel)
        for settings, task in tasks.items():
            outcome = done.get(task.key)
            if outcome is None:
                continue
            self._found.tried += 1
            if outcome.ok:
                program = Program(settings, outcome.files[jobs.PROGRAM], outcome.value)
                self._programs[settings] = program
            else:
                self._programs[settings] = None
                self._found.failed[label(settings)] = outcome.message
        return self._distinct([s for s in wanted if s in self._programs])

    def _distinct(self, wanted: Sequence[Settings]) -> list[Program]:
        """The compiled programs with code of their own, in order."""
        seen = {self._found.default.digest}
        found = []
        for settings in dict.fromkeys(wanted):
            program = self._programs[settings]
            if program is None or program.digest in self._bad:
                continue
            if program.digest in seen:
                self._found.same += bool(settings)
                continue
            seen.add(program.digest)
            found.append(program)
        return found

    def _measured(
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
        size = self._batch_size
        batches = [programs[i : i + size] for i in range(0, len(programs), size)]
        tasks = [self._batch(incumbent, batch, rounds) for batch in batches]
        outcomes = self._outcomes(tasks, stage, part, 1)
        found = []
        for task, batch in zip(tasks, batches, strict=True):
            if task.key in outcomes:
                found += self._judged(incumbent, batch, outcomes[task.key])
        self._found.measured += found
        return found

    def _batch(self, incumbent: Program, batch: Sequence[Program], rounds: int) -> Task:
        digests = {p.digest for p in (incumbent, *batch)}
        verify = not digests <= self._verified
        return self.problem.measure_task(incumbent, batch, self._reference, rounds, verify=verify)

    def _judged(
        self, incumbent: Program, batch: Sequence[Program], outcome: Outcome
    ) -> list[Judged]:
        if not outcome.ok:
            for program in batch:
                self._found.failed[label(program.settings)] = outcome.message
            return []
        wrong, seconds = outcome.value["wrong"], outcome.value["seconds"]
        found = []
        for index, program in enumerate(batch):
            name = f"candidate {index}"
            if name in wrong:
                kind = self._found.wrong if wrong[name].startswith("wrong") else self._found.failed
                kind[label(program.settings)] = wrong[name]
                self._bad.add(program.digest)
                continue
            self._verified.add(program.digest)
            comparison, rounds = self.problem.comparison(seconds, name, jobs.INCUMBENT)
            if self.problem.objective == MEMORY:
                comparison = self.problem.bytes_compared(program, incumbent)
            found.append(Judged(program, comparison, rounds))
        self._verified.add(incumbent.digest)
        return found

    def _halved(self, default: Program, candidates: Sequence[Program]) -> list[Judged]:
        """The candidates that successive halving leaves, the best first."""
        rounds, rung = MIN_ROUNDS, 1
        found: list[Judged] = []
        left = list(candidates)
        while left:
            stage = f"measuring, rung {rung}"
            found = self._measured(default, left, rounds, stage, HALVING_PART)
            found = [j for j in found if j.comparison.verdict != SLOWER]
            found.sort(key=lambda j: -j.comparison.ratio.median)
            last = len(found) <= SURVIVORS or rounds >= FINAL_ROUNDS
            if last or not self._left(HALVING_PART):
                break
            kept = {j.program.settings for j in found[: max(SURVIVORS, len(found) // 2)]}
            # In the order of the candidates, by which batches are formed.
            left = [p for p in left if p.settings in kept]
            rounds, rung = 2 * rounds, rung + 1
        return found[:SURVIVORS]

    def _climb(self, default: Program, survivors: Sequence[Judged]) -> Program:
        """Adds and removes settings while that is faster outside the noise.

        The first step takes all that were faster alone at once, and all that may have been: gains
        that are too small to be seen alone add up. Where no single setting is faster
        any more, two are changed at once: a setting may pay only beside another one.
        """
        best = default
        tried: set[Settings] = {()}
        everything: Settings = ()
        for judged in reversed(survivors):  # of two that exclude each other the better one stays
            if judged.comparison.verdict == FASTER:
                for setting in judged.program.settings:
                    everything = added(everything, setting)
        for step in range(MAX_STEPS):
            if step and not self._left(CLIMB_PART):
                break
            stage = f"local search, step {step + 1}"
            pool = self._pool()
            around = [everything, self._hopeful()] if step == 0 else []
            around += [added(best.settings, s) for s in pool if s not in best.settings]
            around += [without(best.settings, s) for s in best.settings]
            better = self._better(best, around, tried, stage)
            if better is None and self._left(CLIMB_PART):
                better = self._better(best, _two_apart(best.settings, pool), tried, stage)
            if better is None:
                break
            best = better
        return best

    def _pool(self) -> list[Setting]:
        """The settings that were measured alone, the best first, up to `POOL`."""
        return [setting for _, setting in self._alone()[:POOL]]

    def _hopeful(self) -> Settings:
        """The settings that were faster alone by the median, the best ones, all at once."""
        found: Settings = ()
        for ratio, setting in reversed(self._alone()[:POOL]):
            if ratio >= MIN_SMALL_GAIN:
                found = added(found, setting)
        return found

    def _alone(self) -> list[tuple[float, Setting]]:
        """The settings that were measured alone, and their gains, the best first."""
        alone: dict[str, tuple[float, Setting]] = {}
        rounds: dict[str, int] = {}
        for judged in self._found.measured:
            settings = judged.program.settings
            if len(settings) == 1 and judged.program.digest not in self._bad:
                found = judged.comparison.ratio.median, settings[0]
                if judged.rounds > rounds.get(settings[0].key, 0):
                    alone[settings[0].key] = found
                    rounds[settings[0].key] = judged.rounds
        return sorted(alone.values(), key=lambda pair: -pair[0])

    def _better(
        self, best: Program, around: Sequence[Settings], tried: set[Settings], stage: str
    ) -> Program | None:
        """The fastest of some candidates that are new; None where none is faster than the best."""
        wanted = [s for s in dict.fromkeys(around) if s not in tried]
        tried |= set(wanted)
        programs = self._compiled(wanted, stage, CLIMB_PART)
        programs = [p for p in programs if p.digest != best.digest]
        judged = self._measured(best, programs, 2 * MIN_ROUNDS, stage, CLIMB_PART)
        faster = [j for j in judged if j.comparison.verdict == FASTER]
        if not faster:
            # More rounds tell apart what may be faster.
            close = [j.program for j in judged if j.comparison.interval[1] > j.comparison.noise]
            judged = self._measured(best, close, FINAL_ROUNDS, stage, CLIMB_PART)
            faster = [j for j in judged if j.comparison.verdict == FASTER]
        if not faster:
            return None
        return max(faster, key=lambda j: j.comparison.ratio.median).program

    def _prune(self, default: Program, best: Program) -> None:
        """Drops settings that do not pay, and fills in the result."""
        while best.settings:
            fewer = {s: without(best.settings, s) for s in best.settings}
            stage = "leaving settings out"
            self._compiled(list(fewer.values()), stage)
            programs = {s: self._programs[f] for s, f in fewer.items()}
            same = [s for s, p in programs.items() if p is None or p.digest == best.digest]
            if same and programs[same[0]] is not None:
                best = self._program(fewer[same[0]])
                continue
            others = [p for p in programs.values() if p is not None]
            judged = {
                j.program.settings: j for j in self._measured(best, others, FINAL_ROUNDS, stage)
            }
            kept = []
            for setting, settings in fewer.items():
                found = judged.get(settings)
                if found is not None:
                    kept.append(Kept(setting, _inverted(found.comparison), found.rounds))
            idle = [k for k in kept if k.comparison.verdict != FASTER]
            if not idle:
                self._confirm(default, best, kept)
                return
            together = self._together(best, idle, stage)
            if together is not None:
                names = {k.setting for k in idle}
                kept = [
                    dataclasses.replace(k, together=together) if k.setting in names else k
                    for k in kept
                ]
                self._confirm(default, best, kept)
                return
            if not self._left(1.0):
                costly = [k for k in idle if _no_gain(k)] or idle
                left = tuple(s for s in best.settings if s not in {k.setting for k in costly})
                self._compiled([left], stage)
                best = self._programs[left] or default
                continue
            worst = min(idle, key=lambda k: k.comparison.ratio.median)
            best = self._program(fewer[worst.setting])
        self._found.best = default

    def _together(self, best: Program, idle: Sequence[Kept], stage: str) -> Comparison | None:
        """The gain of settings that are not seen alone, of which each may gain a little.

        None where it is not outside the noise, or where one of them seems to cost time.
        """
        if len(idle) < 2 or any(_no_gain(k) for k in idle):
            return None
        names = {k.setting for k in idle}
        left = tuple(s for s in best.settings if s not in names)
        self._compiled([left], stage)
        program = self._programs[left]
        if program is None or program.digest == best.digest:
            return None
        judged = self._measured(best, [program], FINAL_ROUNDS, stage)
        if not judged or judged[0].comparison.verdict != SLOWER:
            return None
        return _inverted(judged[0].comparison)

    def _program(self, settings: Settings) -> Program:
        program = self._programs[settings]
        assert program is not None
        return program

    def _confirm(self, default: Program, best: Program, kept: list[Kept]) -> None:
        """Measures the result beside the default, and takes it where it is faster."""
        (outcome,) = run_all(
            self._executor,
            [
                self.problem.measure_task(
                    default, [best], self._reference, FINAL_ROUNDS, verify=True
                )
            ],
        )
        judged = self._judged(default, [best], outcome)
        if not judged or judged[0].comparison.verdict != FASTER:
            return
        samples = self.problem.samples(outcome.value["seconds"])
        found = self._found
        found.best, found.settings = best, kept
        found.whole, found.rounds = judged[0].comparison, judged[0].rounds
        found.milliseconds = (
            samples.milliseconds(jobs.INCUMBENT),
            samples.milliseconds("candidate 0"),
        )


def _two_apart(settings: Settings, pool: Sequence[Setting]) -> list[Settings]:
    """Two settings of the pool more, up to `MAX_PAIRS`; and one in place of another, as many."""
    new = [s for s in pool if s not in settings]
    pairs = itertools.islice(itertools.combinations(new, 2), MAX_PAIRS)
    swaps = itertools.islice(itertools.product(new, settings), MAX_PAIRS)
    return [
        *(added(added(settings, one), other) for one, other in pairs),
        *(added(without(settings, old), one) for one, old in swaps),
    ]


def _no_gain(kept: Kept) -> bool:
    """Whether the program is as fast without the setting by the median, too."""
    return kept.comparison.ratio.median < MIN_SMALL_GAIN


def _inverted(comparison: Comparison) -> Comparison:
    """The comparison said of the other program."""
    low, high = comparison.interval
    ratio = comparison.ratio
    said = {FASTER: SLOWER, SLOWER: FASTER}.get(comparison.verdict, comparison.verdict)
    return Comparison(
        type(ratio)(1 / ratio.median, 1 / ratio.high, 1 / ratio.low),
        (1 / high if high else 0.0, 1 / low if low else float("inf")),
        comparison.noise,
        said,
    )
