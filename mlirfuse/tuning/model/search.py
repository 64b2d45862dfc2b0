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

import dataclasses
import itertools
from collections.abc import Iterable, Sequence

from mlirfuse.benchmarking.verdict import FASTER, MIN_ROUNDS, SLOWER, Comparison
from mlirfuse.tuning.execution.task import Executor
from mlirfuse.tuning.model.problem import Problem, Program, Settings, added, without
from mlirfuse.tuning.model.space import Proposal
from mlirfuse.tuning.model.trials import Found, Judged, Kept, Say, Trials
from mlirfuse.tuning_profile.entry import Setting

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
"""Smallest gain, by the median, of a setting that is kept for what it gains with others: less is
noise of a quiet machine."""

MAX_PAIRS = 16
"""Candidates with two changes of each kind, where no single change is faster."""

MAX_STEPS = 12
"""Upper limit of the steps of the local search."""

FINAL_ROUNDS = 4 * MIN_ROUNDS
"""Rounds of the measurement that a setting is kept by."""


class Search:
    """One search.

    Args:
      problem: the model and the target.
      executor: runs the tasks.
      say: called with a stage, and how many of how many are done.
      max_candidates: number of single settings that are tried.
      extra: proposals beside those of the model.
      seconds, parallel, batch_bytes: as for `Trials`.
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
        batch_bytes: int | None = None,
    ) -> None:
        """Nothing is tried yet."""
        self._max = max_candidates
        self._extra = list(extra)
        self._trials = Trials(
            problem, executor, say, seconds=seconds, parallel=parallel, batch_bytes=batch_bytes
        )

    def run(self) -> Found:
        """Searches.

        Raises:
          MlirfuseError: the model cannot be compiled or called with the default settings.
        """
        default = self._trials.start()
        proposals = [*self._extra, *self._trials.found.proposals.values()]
        singles = [added((), p.setting) for p in proposals][: self._max]
        candidates = self._trials.compiled(singles, "compiling candidates", COMPILE_PART)
        survivors = self._halved(default, candidates)
        best = self._climb(default, survivors)
        self._prune(default, best)
        return self._trials.found

    def exhaustive(self, settings: Sequence[Setting]) -> list[tuple[Settings, float]]:
        """Every combination of some settings, with its speedup over the default, the best first."""
        default = self._trials.start()
        combinations: list[Settings] = [()]
        for setting in settings:
            more = [added(c, setting) for c in combinations]
            combinations = list(dict.fromkeys([*combinations, *more]))
        candidates = self._trials.compiled([c for c in combinations if c], "compiling combinations")
        judged = self._trials.measured(default, candidates, FINAL_ROUNDS, "measuring combinations")
        found = [(j.program.settings, j.comparison.ratio.median) for j in judged]
        return sorted([((), 1.0), *found], key=lambda pair: -pair[1])

    def _halved(self, default: Program, candidates: Sequence[Program]) -> list[Judged]:
        """The candidates that successive halving leaves, the best first."""
        rounds, rung = MIN_ROUNDS, 1
        found: list[Judged] = []
        left = list(candidates)
        while left:
            stage = f"measuring, rung {rung}"
            found = self._trials.measured(default, left, rounds, stage, HALVING_PART)
            found = [j for j in found if j.comparison.verdict != SLOWER]
            found.sort(key=lambda j: -j.comparison.ratio.median)
            # Calls that are short have more rounds in the time than were asked for.
            made = min((j.rounds for j in found), default=0)
            last = len(found) <= SURVIVORS or max(rounds, made) >= FINAL_ROUNDS
            if last or not self._trials.left(HALVING_PART):
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
            if step and not self._trials.left(CLIMB_PART):
                break
            stage = f"local search, step {step + 1}"
            pool = self._pool()
            around = [everything, self._hopeful()] if step == 0 else []
            around += [added(best.settings, s) for s in pool if s not in best.settings]
            around += [without(best.settings, s) for s in best.settings]
            better = self._better(best, around, tried, stage)
            if better is None and self._trials.left(CLIMB_PART):
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
        for judged in self._trials.found.measured:
            settings = judged.program.settings
            if len(settings) == 1 and judged.program.digest not in self._trials.bad:
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
        programs = self._trials.compiled(wanted, stage, CLIMB_PART)
        programs = [p for p in programs if p.digest != best.digest]
        judged = self._trials.measured(best, programs, 2 * MIN_ROUNDS, stage, CLIMB_PART)
        faster = [j for j in judged if j.comparison.verdict == FASTER]
        if not faster:
            # More rounds tell apart what may be faster.
            close = [j.program for j in judged if j.comparison.interval[1] > j.comparison.noise]
            judged = self._trials.measured(best, close, FINAL_ROUNDS, stage, CLIMB_PART)
            faster = [j for j in judged if j.comparison.verdict == FASTER]
        if not faster:
            return None
        return max(faster, key=lambda j: j.comparison.ratio.median).program

    def _prune(self, default: Program, best: Program) -> None:
        """Drops settings that do not pay, and fills in the result."""
        while best.settings:
            fewer = {s: without(best.settings, s) for s in best.settings}
            stage = "leaving settings out"
            self._trials.compiled(list(fewer.values()), stage)
            programs = {s: self._trials.programs[f] for s, f in fewer.items()}
            same = [s for s, p in programs.items() if p is None or p.digest == best.digest]
            if same and programs[same[0]] is not None:
                best = self._trials.program(fewer[same[0]])
                continue
            others = [p for p in programs.values() if p is not None]
            judged = {
                j.program.settings: j
                for j in self._trials.measured(best, others, FINAL_ROUNDS, stage)
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
            if not self._trials.left(1.0):
                costly = [k for k in idle if _no_gain(k)] or idle
                left = tuple(s for s in best.settings if s not in {k.setting for k in costly})
                self._trials.compiled([left], stage)
                best = self._trials.programs[left] or default
                continue
            worst = min(idle, key=lambda k: k.comparison.ratio.median)
            best = self._trials.program(fewer[worst.setting])
        self._trials.found.best = default

    def _together(self, best: Program, idle: Sequence[Kept], stage: str) -> Comparison | None:
        """The gain of settings that are not seen alone, of which each may gain a little.

        None where it is not outside the noise, or where one of them seems to cost time.
        """
        if len(idle) < 2 or any(_no_gain(k) for k in idle):
            return None
        names = {k.setting for k in idle}
        left = tuple(s for s in best.settings if s not in names)
        self._trials.compiled([left], stage)
        program = self._trials.programs[left]
        if program is None or program.digest == best.digest:
            return None
        judged = self._trials.measured(best, [program], FINAL_ROUNDS, stage)
        if not judged or judged[0].comparison.verdict != SLOWER:
            return None
        return _inverted(judged[0].comparison)

    def _confirm(self, default: Program, best: Program, kept: list[Kept]) -> None:
        """Measures the result beside the default, and takes it where it is faster."""
        confirmed = self._trials.confirmed(default, best, FINAL_ROUNDS)
        if confirmed is None or confirmed[0].comparison.verdict != FASTER:
            return
        judged, milliseconds = confirmed
        found = self._trials.found
        found.best, found.settings = best, kept
        found.whole, found.rounds = judged.comparison, judged.rounds
        found.milliseconds = milliseconds


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
