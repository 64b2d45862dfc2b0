"""Finds the rewrite that makes a model fail, by bisection.

Rewrites are applied one after the other, so a limit on their count selects a prefix of them. The
search bisects over the passes first, then over the rewrites of one pass: about log2(n) compiles.
Where the program still fails without the culprit, the search continues without it, until nothing
fails.
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
from mlirfuse.backend.grouping import Grouped
from mlirfuse.backend.grouping_process import group
from mlirfuse.compilation import Compilation
from mlirfuse.core import Decision, MlirfuseError, UsageError
from mlirfuse.debug import compare
from mlirfuse.debug.oracle import Failure, Oracle, Subject, Verdict
from mlirfuse.debug.outline import OutlinedRewrite, Outliner
from mlirfuse.debug.reproducer import Reproducer
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines.faults import Faults
from mlirfuse.pipelines.pass_run import Observer
from mlirfuse.pipelines.resolve import resolve
from mlirfuse.plugins import registry
from mlirfuse.runtime.inputs import Array, random_inputs
from mlirfuse.runtime.isolated import Signature
from mlirfuse.support.atomic_file import replacing

MAX_CULPRITS = 16
"""Culprits of one search before it gives up."""

_SCHEMA = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Culprit:
    """A rewrite with which the program fails and without which it does not.

    Attributes:
      decision: the engine's decision for the rewrite.
      limit: limit on the count of rewrites that makes it the last one.
      disabled: selectors of the culprits that were found, and disabled, before it.
      message: description of the failure.
    """

    decision: Decision
    limit: int
    disabled: tuple[str, ...]
    message: str

    @property
    def selector(self) -> str:
        """The selector that disables this rewrite alone."""
        return f"{self.decision.pass_name}@match={self.decision.match}"

    def text(self) -> str:
        """Pass, match, failure, and ops with their source locations, as lines of text."""
        lines = [
            f"pass:   {self.decision.pass_name}",
            f"match:  {self.decision.match} in {self.decision.function}",
            f"fails:  {self.message}",
            "ops:",
        ]
        ops = zip(self.decision.ops, self.decision.op_names, strict=True)
        lines += [f"  {location}: {name}" for location, name in ops]
        return "".join(f"{line}\n" for line in lines)


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """The result of a search.

    Attributes:
      culprits: the failing rewrites; the program works without all of them.
      rewrites: count of rewrites without a limit.
      compiles: count of programs compiled and tested, without those of an earlier run.
    """

    culprits: tuple[Culprit, ...]
    rewrites: int
    compiles: int

    @property
    def switch(self) -> str:
        """The switch that avoids the failure."""
        return f"--disable-pass={','.join(c.selector for c in self.culprits)}"


class Bisect:
    """A search.

    Attributes:
      oracle: decides whether a program fails.
      subject: the model.
      compiles: count of programs compiled and tested so far.
      notes: warnings about the switches, once the search has begun.
      known: count of verdicts read from the file of an earlier run.
    """

    def __init__(
        self,
        compilation: Compilation,
        failure: Failure,
        *,
        inputs: Sequence[Array] | None = None,
        seed: int = 0,
        jobs: int = 1,
        state: Path | None = None,
        log: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Prepares a search in a model that `open_model` opened.

        Args:
          compilation: the model, the compiler and the switches.
          failure: the failure to search for.
          inputs: arguments of the model; None for random ones.
          seed: seed of random arguments.
          jobs: number of programs that are compiled and tested at once.
          state: file for the verdicts; those of an interrupted run of the same search are reused.
          log: called with a line of progress for each program.

        Raises:
          UsageError: `slower` with more than one job.
        """
        if failure.kind == "slower" and jobs > 1:
            raise UsageError("--failure=slower takes --jobs=1: other programs distort its time")
        self.compilation = compilation
        self.options: FusionOptions = compilation.compiler.options
        self.jobs = jobs
        self.seed = seed
        self.state = state
        self.log = log
        self.oracle = Oracle(compilation.compiler, failure, compilation.folder)
        model = compilation.imported
        self.subject = Subject(
            compilation.normalized,
            Signature(model.function, model.inputs, model.outputs),
            list(inputs) if inputs is not None else random_inputs(model.inputs, seed),
        )
        self.compiles = 0
        self._trials = itertools.count()
        self._lock = threading.Lock()
        self._faults = Faults()
        self.notes: tuple[str, ...] = ()
        key = cache.key(
            model.path,
            target=compilation.compiler.target,
            options=self.options.to_dict(),
            stock=False,
            input_type=model.input_type,
            keeps_f64=model.keeps_f64,
            normalized=model.normalized,
        )
        given = hashlib.sha256(b"".join(a.tobytes() for a in inputs or ())).hexdigest()
        self._key = [key, dataclasses.asdict(failure), seed, given]
        self._verdicts: dict[str, Verdict] = self._read()
        self.known = len(self._verdicts)

    def find(self) -> Finding:
        """Runs the search.

        Raises:
          MlirfuseError: the model does not fail, or fails without any rewrite, or a program fails
            in another way.
        """
        culprits: list[Culprit] = []
        disabled: tuple[str, ...] = ()
        first = self._grouped(None, disabled)
        total = len(_taken(first))
        self.notes = tuple(first.report.notes)
        self.oracle.numerics = compare.loosest(first.report)
        if not self._verdict(total, disabled).bad:
            raise MlirfuseError(f"the model does not fail with its {total} rewrites")
        if self._verdict(0, disabled).bad:
            raise MlirfuseError(
                "the model fails without any rewrite: no pass of ours is at fault"
                f" ({self._verdict(0, disabled).message})"
            )
        while len(culprits) < MAX_CULPRITS:
            taken = _taken(self._grouped(None, disabled))
            count = len(taken)
            if not self._verdict(count, disabled).bad:
                return Finding(tuple(culprits), total, self.compiles)
            ends = [n for n in range(1, count) if taken[n].pass_name != taken[n - 1].pass_name]
            low, high = self._first_bad([0, *ends, count], disabled)
            low, high = self._first_bad(list(range(low, high + 1)), disabled)
            found = Culprit(taken[high - 1], high, disabled, self._verdict(high, disabled).message)
            culprits.append(found)
            disabled = (*disabled, found.selector)
        raise MlirfuseError(
            f"the model still fails without {MAX_CULPRITS} rewrites:"
            f" {', '.join(c.selector for c in culprits)}"
        )

    def _first_bad(self, points: Sequence[int], disabled: tuple[str, ...]) -> tuple[int, int]:
        """Two neighbors among the points, of which the first is good and the second bad.

        Args:
          points: limits in ascending order; the first is known to be good, the last to be bad.
          disabled: selectors of rewrites that are disabled.
        """
        low, high = 0, len(points) - 1
        with ThreadPoolExecutor(self.jobs) as pool:
            while high - low > 1:
                parts = min(self.jobs + 1, high - low)
                tried = [low + (high - low) * n // parts for n in range(1, parts)]
                verdicts = pool.map(lambda n: self._verdict(points[n], disabled), tried)
                for index, verdict in zip(tried, verdicts, strict=True):
                    if verdict.bad:
                        high = index
                        break
                    low = index
        return points[low], points[high]

    def _verdict(self, limit: int, disabled: tuple[str, ...]) -> Verdict:
        name = "|".join([str(limit), *disabled])
        with self._lock:
            if name in self._verdicts:
                return self._verdicts[name]
        grouped = self._grouped(limit, disabled)
        verdict = self.oracle.verdict(self.subject, grouped.path, hinted=grouped.hinted)
        grouped.path.unlink(missing_ok=True)
        with self._lock:
            self.compiles += 1
            self._verdicts[name] = verdict
            self._save()
        outcome = f"bad: {verdict.message}" if verdict.bad else "good"
        without = f" without {', '.join(disabled)}" if disabled else ""
        self.log(f"program {self.compiles}: the first {limit} rewrites{without}: {outcome}")
        return verdict

    def _grouped(self, limit: int | None, disabled: tuple[str, ...]) -> Grouped:
        options = dataclasses.replace(
            self.options,
            disable_pass=(*self.options.disable_pass, *disabled),
            fusion_limit=self.options.fusion_limit if limit is None else limit,
        )
        return self._group(self.subject.source, options)

    def _group(
        self, source: Path, options: FusionOptions, observer: Observer | None = None
    ) -> Grouped:
        path = self.compilation.folder / f"trial{next(self._trials)}.mlirbc"
        with self._lock:
            target = self.compilation.compiler.target
            return group(
                source,
                path,
                target=target,
                options=options,
                observer=observer,
                faults=self._faults,
            )

    # --- state of interrupted runs --------------------------------------------------------------

    def _read(self) -> dict[str, Verdict]:
        if self.state is None:
            return {}
        try:
            document = json.loads(self.state.read_text(encoding="utf-8"))
            if document["schema"] != _SCHEMA or document["key"] != self._key:
                return {}
            return {name: Verdict(**entry) for name, entry in document["verdicts"].items()}
        except (OSError, ValueError, KeyError, TypeError):  # missing or foreign: start over
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

    def reduce(self, culprit: Culprit) -> Reproducer:
        """The smallest program that fails the same way: the match alone, or all rewrites up to it.

        The pass rewrites the outlined match again; where it does not match there, its recorded
        rewrite is used.
        """
        compiler, failure = self.compilation.compiler, self.oracle.failure
        folder = self.compilation.folder
        outlined = self._outlined(culprit)
        if outlined is not None:
            before = folder / "outlined_before.mlir"
            before.write_text(outlined.before, encoding="utf-8")
            inputs = random_inputs(outlined.signature.inputs, self.seed)
            subject = Subject(before, outlined.signature, inputs)
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
                return Reproducer(
                    compiler, failure, subject, verdict, grouped.hinted, True, options=alone
                )
            after = folder / "outlined_after.mlir"
            after.write_text(outlined.after, encoding="utf-8")
            verdict = Verdict(False)
            if outlined.after:
                verdict = self._verdict_of(subject, after, hinted=False)
            if verdict.bad:
                return Reproducer(compiler, failure, subject, verdict, False, True, rewritten=after)
        options = self._up_to(culprit)
        hinted = self._group(self.subject.source, options).hinted
        verdict = self._verdict(culprit.limit, culprit.disabled)
        return Reproducer(compiler, failure, self.subject, verdict, hinted, False, options=options)

    def _verdict_of(self, subject: Subject, grouped: Path, *, hinted: bool) -> Verdict:
        """The verdict on an outlined match; good where it fails in another way than the model."""
        try:
            return self.oracle.verdict(subject, grouped, hinted=hinted)
        except MlirfuseError:
            return Verdict(False)

    def _up_to(self, culprit: Culprit) -> FusionOptions:
        """The switches that make the culprit the last rewrite."""
        return dataclasses.replace(
            self.options,
            disable_pass=(*self.options.disable_pass, *culprit.disabled),
            fusion_limit=culprit.limit,
        )

    def _item(self, name: str) -> str:
        with registry.scope(self.options.load_pass):
            order = resolve(self.options.pipeline)
        return next(str(item) for item in order if item.name == name)

    def _outlined(self, culprit: Culprit) -> OutlinedRewrite | None:
        decision = culprit.decision
        wanted = (decision.pass_name, decision.match)
        outliner = Outliner(lambda fusion, match: (fusion.name, match) == wanted)
        self._group(self.subject.source, self._up_to(culprit), outliner)
        return next((found for found in outliner.outlined if found.before), None)


def _taken(grouped: Grouped) -> list[Decision]:
    return [d for d in grouped.report.decisions if d.taken]
