"""Finds the rewrite with which a model fails and without which it does not.

Rewrites are applied one after the other, so a limit on their number makes a program with the first
of them only. The search halves over the passes first, then over the rewrites of one pass: about
log2(n) compiles. Where the program still fails without the one that was found, the search goes on
without it, until nothing fails.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import shlex
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mlirfuse import numerics
from mlirfuse.api import Work
from mlirfuse.backend import cache
from mlirfuse.backend.compiler import Compiler
from mlirfuse.backend.grouping import Grouped, group
from mlirfuse.backend.outputs import replacing
from mlirfuse.core import CompileFailedError, Decision, MlirfuseError, Numerics, UsageError
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import resolve
from mlirfuse.runtime import isolated
from mlirfuse.runtime.inputs import Array, random_inputs
from mlirfuse.runtime.isolated import Called, Signature
from mlirfuse.standalone import Piece, Recorder

KINDS = ("compile", "crash", "numbers", "slower", "command")
"""Kinds of failure: code generation fails or dies; the compiler or the program dies; results differ
from the unfused program's; it is slower than that; a command of the user's says so."""

MAX_CULPRITS = 16
"""Rewrites that are found in one search before it gives up."""

FACTOR = 1.2
"""How much slower than the unfused program counts as a failure, where nobody says."""

REPEAT = 10
"""Timed calls in a process; the fastest counts."""

ROUNDS = 3
"""Processes in which each of two programs is timed, in turns."""

SKIP = 125
"""Exit code with which a command says that it cannot tell, as for `git bisect run`."""

ABORT = 128
"""Exit codes from here on end the search, as for `git bisect run`."""

_SCHEMA = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What counts as a failure.

    Attributes:
      kind: one of `KINDS`.
      tolerance: for `numbers`: error allowed relative to a result's largest magnitude; None for
        what `numerics.TOLERANCES` says.
      factor: for `slower`: times the unfused program's time.
      command: for `command`: words, `%s` in them stands for the program's `.vmfb`.
    """

    kind: str
    tolerance: float | None = None
    factor: float = FACTOR
    command: str = ""

    def __post_init__(self) -> None:
        """Refuses what makes no sense.

        Raises:
          UsageError: an unknown kind, or a command without `%s`.
        """
        if self.kind not in KINDS:
            raise UsageError(f"unknown failure '{self.kind}' (known: {', '.join(KINDS)})")
        if self.kind == "command" and "%s" not in self.command:
            raise UsageError("--command takes words with %s for the program, e.g. 'sh check.sh %s'")


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a program fails.

    Attributes:
      bad: whether it does.
      message: how.
    """

    bad: bool
    message: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """What is compiled and called.

    Attributes:
      source: a module at global-optimization level.
      signature: of the function that is called.
      inputs: its arguments.
    """

    source: Path
    signature: Signature
    inputs: Sequence[Array]


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


class Judge:
    """Says whether a grouped module of a subject fails."""

    def __init__(self, compiler: Compiler, failure: Failure, folder: Path) -> None:
        """Judges with a compiler; programs go into the folder."""
        self.compiler = compiler
        self.failure = failure
        self.folder = folder
        self.numerics = Numerics.REASSOCIATING
        self._stock: dict[Path, tuple[Path, Called]] = {}
        self._lock = threading.Lock()

    def judge(self, subject: Subject, grouped: Path, *, hinted: bool) -> Verdict:
        """Compiles the module and looks at it.

        Args:
          subject: what the module was made of.
          grouped: bytecode or text, past the engine.
          hinted: whether a contraction in it is marked for data tiling.

        Raises:
          MlirfuseError: it cannot be said, because it fails in another way.
        """
        kind = self.failure.kind
        program = grouped.with_suffix(".vmfb")
        try:
            self.compiler.generate(grouped, program, fused=True, data_tiling=hinted)
        except CompileFailedError as error:
            if error.stage != "codegen":
                raise
            if kind == "compile":
                return Verdict(True, str(error))
            if kind == "crash":
                died = error.returncode is None or error.returncode < 0
                return Verdict(died, str(error) if died else "")
            raise MlirfuseError(f"{error}; --failure=compile finds the rewrite") from error
        try:
            return getattr(self, f"_{kind}")(subject, program)  # type: ignore[no-any-return]
        finally:
            program.unlink(missing_ok=True)

    def _compile(self, subject: Subject, program: Path) -> Verdict:
        return Verdict(False)

    def _crash(self, subject: Subject, program: Path) -> Verdict:
        try:
            self._call(subject, program)
        except CompileFailedError as error:
            return Verdict(True, str(error))
        return Verdict(False)

    def _numbers(self, subject: Subject, program: Path) -> Verdict:
        found = numerics.compare(
            self._call(subject, program).results,
            self._unfused(subject)[1].results,
            None,
            numerics=self.numerics,
            tolerance=self.failure.tolerance,
        )
        worst = numerics.worst(found)
        return Verdict(worst is not None, str(worst or ""))

    def _slower(self, subject: Subject, program: Path) -> Verdict:
        stock = self._unfused(subject)[0]
        ours = theirs = float("inf")
        with self._lock:
            for _ in range(ROUNDS):
                ours = min(ours, *self._call(subject, program, REPEAT).seconds)
                theirs = min(theirs, *self._call(subject, stock, REPEAT).seconds)
        slower = ours > self.failure.factor * theirs
        said = f"{ours * 1e3:.3f} ms, unfused {theirs * 1e3:.3f} ms: {ours / theirs:.2f} times"
        return Verdict(slower, said if slower else "")

    def _command(self, subject: Subject, program: Path) -> Verdict:
        words = [w.replace("%s", str(program)) for w in shlex.split(self.failure.command)]
        try:
            code = subprocess.run(words, check=False, timeout=self.compiler.timeout).returncode
        except subprocess.TimeoutExpired:
            return Verdict(True, "the command ran out of time")
        except OSError as error:
            raise UsageError(f"--command: cannot run {words[0]}: {error.strerror}") from error
        if code == SKIP or not 0 <= code < ABORT:
            raise MlirfuseError(f"the command ended with {code}; expected 0 (good) or 1 to 124")
        return Verdict(code != 0, f"the command ended with {code}" if code else "")

    def _call(self, subject: Subject, program: Path, repeat: int = 0) -> Called:
        return isolated.call(
            program,
            subject.inputs,
            signature=subject.signature,
            device=self.compiler.target.device,
            timeout=self.compiler.timeout,
            repeat=repeat,
        )

    def _unfused(self, subject: Subject) -> tuple[Path, Called]:
        """The program without our passes, and what it returns."""
        with self._lock:
            if subject.source not in self._stock:
                program = self.folder / f"unfused{len(self._stock)}.vmfb"
                self.compiler.generate(subject.source, program, fused=False)
                self._stock[subject.source] = program, self._call(subject, program)
            return self._stock[subject.source]


class Bisect:
    """A search.

    Attributes:
      judge: says whether a program fails.
      subject: the model.
      compiles: programs compiled and judged so far.
    """

    def __init__(
        self,
        work: Work,
        failure: Failure,
        *,
        inputs: Sequence[Array] | None = None,
        seed: int = 0,
        jobs: int = 1,
        state: Path | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Prepares a search in a model that `api.opened` opened.

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
        self._key = [key, dataclasses.asdict(failure), seed, inputs is None]
        self._verdicts: dict[str, Verdict] = self._known()

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
        self.judge.numerics = numerics.loosest(first.report)
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

    def _group(self, source: Path, options: FusionOptions, observer: Any = None) -> Grouped:
        path = self.work.folder / f"trial{next(self._trials)}.mlirbc"
        with self._lock:
            target = self.work.compiler.target
            return group(source, path, target=target, options=options, observer=observer)

    # --- what is kept between runs --------------------------------------------------------------

    def _known(self) -> dict[str, Verdict]:
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
        """The smallest program that fails the same way: the match alone, or all before it.

        The pass rewrites the match again; where it does not take the ops on their own, its rewrite
        is taken as it was.
        """
        piece = self._piece(culprit)
        if piece is not None:
            folder = self.work.folder
            before, after = folder / "piece_before.mlir", folder / "piece_after.mlir"
            before.write_text(piece.before, encoding="utf-8")
            after.write_text(piece.after, encoding="utf-8")
            subject = Subject(
                before, piece.signature, random_inputs(piece.signature.inputs, self.seed)
            )
            pipeline = self._item(culprit.decision.pass_name)
            alone = dataclasses.replace(
                self.options,
                pipeline=pipeline,
                disable_pass=(),
                enable_pass=(culprit.decision.pass_name,),
                fusion_limit=None,
            )
            grouped = self._group(before, alone)
            if _taken(grouped) and self._fails(subject, grouped.path, hinted=grouped.hinted):
                return Case(subject, None, alone, grouped.hinted)
            if piece.after and self._fails(subject, after, hinted=False):
                return Case(subject, after, None, False)
        options = dataclasses.replace(
            self.options,
            disable_pass=(*self.options.disable_pass, *culprit.off),
            fusion_limit=culprit.limit,
        )
        return Case(self.subject, None, options, self._group(self.subject.source, options).hinted)

    def _fails(self, subject: Subject, grouped: Path, *, hinted: bool) -> bool:
        try:
            return self.judge.judge(subject, grouped, hinted=hinted).bad
        except MlirfuseError:
            return False

    def _item(self, name: str) -> str:
        return next(str(item) for item in resolve(self.options.pipeline) if item.name == name)

    def _piece(self, culprit: Culprit) -> Piece | None:
        decision = culprit.decision
        wanted = (decision.pass_name, decision.match)
        recorder = Recorder(lambda fusion, number: (fusion.name, number) == wanted)
        options = dataclasses.replace(
            self.options,
            disable_pass=(*self.options.disable_pass, *culprit.off),
            fusion_limit=culprit.limit,
        )
        self._group(self.subject.source, options, recorder)
        return next((p for p in recorder.pieces if p.before), None)


def _taken(grouped: Grouped) -> list[Decision]:
    return [d for d in grouped.report.decisions if d.taken]


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A program that fails, with all that is needed to see it.

    Attributes:
      subject: the module before the rewrite, and its inputs.
      rewritten: the module after it; None where `mlirfuse-opt` makes it.
      options: switches with which `mlirfuse-opt` makes it; None where it is `rewritten`.
      hinted: whether it is compiled with data tiling.
    """

    subject: Subject
    rewritten: Path | None
    options: FusionOptions | None
    hinted: bool
