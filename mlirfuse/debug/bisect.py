"""Finds the rewrite with which a model fails and without which it does not.

Rewrites are applied one after the other, so a limit on their number makes a program with the first
of them only. The search halves over the passes first, then over the rewrites of one pass: about
log2(n) compiles. Where the program still fails without the one that was found, the search goes on
without it, until nothing fails.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mlirfuse.backend import cache
from mlirfuse.backend.grouping import Grouped, group
from mlirfuse.compilation import Compilation
from mlirfuse.core import Decision, MlirfuseError, UsageError
from mlirfuse.debug import compare
from mlirfuse.debug.oracle import Failure, Judge, Subject, Verdict
from mlirfuse.debug.outline import Piece, Recorder
from mlirfuse.debug.reproducer import Case
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines.pass_run import Observer
from mlirfuse.pipelines.resolve import resolve
from mlirfuse.plugins import registry
from mlirfuse.runtime.inputs import Array, random_inputs
from mlirfuse.runtime.isolated import Signature
from mlirfuse.support.atomic_file import replacing

MAX_CULPRITS = 16
"""Rewrites that are found in one search before it gives up."""

_SCHEMA = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Culprit:
    """A rewrite with which the program fails and without which it does not.

    Attributes:
      decision: the rewrite.
      limit: number of applied rewrites, it being the last.
      off: selectors of what was switched off before it was found.
      message: how the program fails with it.
    """

    decision: Decision
    limit: int
    off: tuple[str, ...]
    message: str

    @property
    def selector(self) -> str:
        """What switches off just this rewrite."""
        return f"{self.decision.pass_name}@match={self.decision.match}"

    def text(self) -> str:
        """Pass, match, ops with their source lines."""
        lines = [
            f"pass:   {self.decision.pass_name}",
            f"match:  {self.decision.match} in {self.decision.function}",
            f"fails:  {self.message}",
            "ops:",
        ]
        named = zip(self.decision.ops, self.decision.op_names, strict=True)
        lines += [f"  {place}: {name}" for place, name in named]
        return "".join(f"{line}\n" for line in lines)


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """What a search found.

    Attributes:
      culprits: the rewrites; the program does not fail without all of them.
      rewrites: number of rewrites that were applied at first.
      compiles: programs that were compiled and judged; those of an earlier run do not count.
    """

    culprits: tuple[Culprit, ...]
    rewrites: int
    compiles: int

    @property
    def switch(self) -> str:
        """The switch with which the program does not fail."""
        return f"--disable-pass={','.join(c.selector for c in self.culprits)}"


class Bisect:
    """A search.

    Attributes:
      judge: says whether a program fails.
      subject: the model.
      compiles: programs compiled and judged so far.
      known: verdicts taken from the file of an earlier run.
    """

    def __init__(
        self,
        work: Compilation,
        failure: Failure,
        *,
        inputs: Sequence[Array] | None = None,
        seed: int = 0,
        jobs: int = 1,
        state: Path | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Prepares a search in a model that `open_model` opened.

        Args:
          work: the model, the compiler and the switches.
          failure: what to look for.
          inputs: arguments of the model; None for random ones.
          seed: of these.
          jobs: programs that are compiled and judged at once.
          state: file for the verdicts; where it exists and is of the same search, they are taken
            from it.
          say: is told of the progress.

        Raises:
          UsageError: times are to be compared with more than one job.
        """
        if failure.kind == "slower" and jobs > 1:
            raise UsageError("--failure=slower takes --jobs=1: programs beside it change its time")
        self.work = work
        self.options: FusionOptions = work.compiler.options
        self.jobs = jobs
        self.seed = seed
        self.state = state
        self.say = say
        self.judge = Judge(work.compiler, failure, work.folder)
        model = work.imported
        self.subject = Subject(
            work.normalized,
            Signature(model.function, model.inputs, model.outputs),
            list(inputs) if inputs is not None else random_inputs(model.inputs, seed),
        )
        self.compiles = 0
        self._trials = itertools.count()
        self._lock = threading.Lock()
        key = cache.key(
            model.path,
            target=work.compiler.target,
            options=self.options.to_dict(),
            stock=False,
            input_type=model.input_type,
            normalized=model.normalized,
        )
        given = hashlib.sha256(b"".join(a.tobytes() for a in inputs or ())).hexdigest()
        self._key = [key, dataclasses.asdict(failure), seed, given]
        self._verdicts: dict[str, Verdict] = self._read()
        self.known = len(self._verdicts)

    def find(self) -> Finding:
        """Searches.

        Raises:
          MlirfuseError: the model does not fail, or fails without any rewrite of ours, or a program
            fails in another way than the one looked for.
        """
        culprits: list[Culprit] = []
        off: tuple[str, ...] = ()
        first = self._grouped(None, off)
        total = len(_taken(first))
        self.judge.numerics = compare.loosest(first.report)
        if not self._verdict(total, off).bad:
            raise MlirfuseError(f"the model does not fail with its {total} rewrites")
        if self._verdict(0, off).bad:
            raise MlirfuseError(
                "the model fails without any rewrite: no pass of ours is at fault"
                f" ({self._verdict(0, off).message})"
            )
        while len(culprits) < MAX_CULPRITS:
            taken = _taken(self._grouped(None, off))
            count = len(taken)
            if not self._verdict(count, off).bad:
                return Finding(tuple(culprits), total, self.compiles)
            ends = [n for n in range(1, count) if taken[n].pass_name != taken[n - 1].pass_name]
            low, high = self._first_bad([0, *ends, count], off)
            low, high = self._first_bad(list(range(low, high + 1)), off)
            found = Culprit(taken[high - 1], high, off, self._verdict(high, off).message)
            culprits.append(found)
            off = (*off, found.selector)
        raise MlirfuseError(
            f"the model still fails without {MAX_CULPRITS} rewrites:"
            f" {', '.join(c.selector for c in culprits)}"
        )

    def _first_bad(self, points: Sequence[int], off: tuple[str, ...]) -> tuple[int, int]:
        """The neighbours of which the first is good and the second bad.

        Args:
          points: limits in order; the first is known to be good, the last to be bad.
          off: selectors of what is switched off.
        """
        low, high = 0, len(points) - 1
        with ThreadPoolExecutor(self.jobs) as pool:
            while high - low > 1:
                parts = min(self.jobs + 1, high - low)
                tried = [low + (high - low) * n // parts for n in range(1, parts)]
                verdicts = pool.map(lambda n: self._verdict(points[n], off), tried)
                for number, verdict in zip(tried, verdicts, strict=True):
                    if verdict.bad:
                        high = number
                        break
                    low = number
        return points[low], points[high]

    def _verdict(self, limit: int, off: tuple[str, ...]) -> Verdict:
        name = "|".join([str(limit), *off])
        with self._lock:
            if name in self._verdicts:
                return self._verdicts[name]
        grouped = self._grouped(limit, off)
        verdict = self.judge.judge(self.subject, grouped.path, hinted=grouped.hinted)
        grouped.path.unlink(missing_ok=True)
        with self._lock:
            self.compiles += 1
            self._verdicts[name] = verdict
            self._save()
        word = f"bad: {verdict.message}" if verdict.bad else "good"
        without = f" without {', '.join(off)}" if off else ""
        self.say(f"program {self.compiles}: the first {limit} rewrites{without}: {word}")
        return verdict

    def _grouped(self, limit: int | None, off: tuple[str, ...]) -> Grouped:
        options = dataclasses.replace(
            self.options,
            disable_pass=(*self.options.disable_pass, *off),
            fusion_limit=self.options.fusion_limit if limit is None else limit,
        )
        return self._group(self.subject.source, options)

    def _group(
        self, source: Path, options: FusionOptions, observer: Observer | None = None
    ) -> Grouped:
        path = self.work.folder / f"trial{next(self._trials)}.mlirbc"
        with self._lock:
            target = self.work.compiler.target
            return group(source, path, target=target, options=options, observer=observer)

    # --- what is kept between runs --------------------------------------------------------------

    def _read(self) -> dict[str, Verdict]:
        if self.state is None:
            return {}
        try:
            document = json.loads(self.state.read_text(encoding="utf-8"))
            if document["schema"] != _SCHEMA or document["key"] != self._key:
                return {}
            return {name: Verdict(**entry) for name, entry in document["verdicts"].items()}
        except (OSError, ValueError, KeyError, TypeError):  # none, or not ours: begin anew
            return {}

    def _save(self) -> None:
        if self.state is None:
            return
        document = {
            "schema": _SCHEMA,
            "key": self._key,
            "verdicts": {name: dataclasses.asdict(v) for name, v in self._verdicts.items()},
        }
        with replacing(self.state) as path:
            path.write_text(f"{json.dumps(document, indent=1)}\n", encoding="utf-8")

    # --- the reduced program --------------------------------------------------------------------

    def reduce(self, culprit: Culprit) -> Case:
        """The smallest program that fails the same way: the match alone, or all up to it.

        The pass rewrites the match again; where it does not take the ops on their own, its rewrite
        is taken as it was.
        """
        compiler, failure = self.work.compiler, self.judge.failure
        piece = self._piece(culprit)
        if piece is not None:
            before = self.work.folder / "piece_before.mlir"
            before.write_text(piece.before, encoding="utf-8")
            inputs = random_inputs(piece.signature.inputs, self.seed)
            subject = Subject(before, piece.signature, inputs)
            alone = dataclasses.replace(
                self.options,
                pipeline=self._item(culprit.decision.pass_name),
                disable_pass=(),
                enable_pass=(culprit.decision.pass_name,),
                fusion_limit=None,
            )
            grouped = self._group(before, alone)
            verdict = self._verdict_of(subject, grouped.path, hinted=grouped.hinted)
            if _taken(grouped) and verdict.bad:
                return Case(
                    compiler, failure, subject, verdict, grouped.hinted, True, options=alone
                )
            after = self.work.folder / "piece_after.mlir"
            after.write_text(piece.after, encoding="utf-8")
            verdict = Verdict(False)
            if piece.after:
                verdict = self._verdict_of(subject, after, hinted=False)
            if verdict.bad:
                return Case(compiler, failure, subject, verdict, False, True, rewritten=after)
        options = self._up_to(culprit)
        hinted = self._group(self.subject.source, options).hinted
        verdict = self._verdict(culprit.limit, culprit.off)
        return Case(compiler, failure, self.subject, verdict, hinted, False, options=options)

    def _verdict_of(self, subject: Subject, grouped: Path, *, hinted: bool) -> Verdict:
        """Good where the piece fails in another way than the model does."""
        try:
            return self.judge.judge(subject, grouped, hinted=hinted)
        except MlirfuseError:
            return Verdict(False)

    def _up_to(self, culprit: Culprit) -> FusionOptions:
        """The switches with which the culprit is the last rewrite."""
        return dataclasses.replace(
            self.options,
            disable_pass=(*self.options.disable_pass, *culprit.off),
            fusion_limit=culprit.limit,
        )

    def _item(self, name: str) -> str:
        with registry.scope(self.options.load_pass):
            order = resolve(self.options.pipeline)
        return next(str(item) for item in order if item.name == name)

    def _piece(self, culprit: Culprit) -> Piece | None:
        decision = culprit.decision
        wanted = (decision.pass_name, decision.match)
        recorder = Recorder(lambda fusion, number: (fusion.name, number) == wanted)
        self._group(self.subject.source, self._up_to(culprit), recorder)
        return next((p for p in recorder.pieces if p.before), None)


def _taken(grouped: Grouped) -> list[Decision]:
    return [d for d in grouped.report.decisions if d.taken]
