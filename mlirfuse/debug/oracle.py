"""Says whether a grouped module fails: does not compile, dies, computes something else, is slower.

judge = Judge(compiler, Failure(kind="numbers"), folder)
judge.judge(subject, grouped.path, hinted=grouped.hinted).bad
"""

from __future__ import annotations

import dataclasses
import shlex
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from mlirfuse.backend.compiler import Compiler
from mlirfuse.core import CompileFailedError, MlirfuseError, Numerics, UsageError
from mlirfuse.debug import compare
from mlirfuse.runtime import isolated
from mlirfuse.runtime.inputs import Array
from mlirfuse.runtime.isolated import Called, Signature
from mlirfuse.tuning.fused_vs_stock import race

KINDS = ("compile", "crash", "numbers", "slower", "command")
"""Kinds of failure: code generation fails or dies; the compiler or the program dies; results differ
from the unfused program's; it is slower than that; a command of the user's says so."""

FACTOR = 1.2
"""How much slower than the unfused program counts as a failure, where nobody says."""

RACES = 5
"""Races at the most until two in a row say the same of `slower`."""

SKIP = 125
"""Exit code with which a command says that it cannot tell, as for `git bisect run`."""

ABORT = 128
"""Exit codes from here on end the search, as for `git bisect run`."""


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
      result: for `numbers`: which result is furthest off.
      threshold: the difference in it that tells it from a right one.
      stage: for `crash`: what died, `codegen` or `run`.
    """

    bad: bool
    message: str = ""
    result: int | None = None
    threshold: float = 0.0
    stage: str = ""


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
                return Verdict(died, str(error) if died else "", stage=error.stage)
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
            return Verdict(True, str(error), stage=error.stage)
        return Verdict(False)

    def _numbers(self, subject: Subject, program: Path) -> Verdict:
        unfused = self._unfused(subject)[1].results
        found = compare.compare(
            self._call(subject, program).results,
            unfused,
            None,
            numerics=self.numerics,
            tolerance=self.failure.tolerance,
        )
        worst = compare.worst(found)
        if worst is None:
            return Verdict(False)
        result = found.index(worst)
        # The norms may differ by more than is allowed where no single element does.
        least = min(worst.allowed, worst.max_error / 2)
        return Verdict(True, str(worst), result, least * compare.scale(unfused[result]))

    def _slower(self, subject: Subject, program: Path) -> Verdict:
        programs = program, self._unfused(subject)[0]
        ours = theirs = float("inf")
        slower: bool | None = None
        for _ in range(RACES):
            with self._lock:
                times = race(programs, subject.inputs, subject.signature, self.compiler)
            ours, theirs = min(ours, times[0]), min(theirs, times[1])
            before, slower = slower, ours > self.failure.factor * theirs
            if slower == before:
                break
        said = f"{ours * 1e3:.3f} ms, unfused {theirs * 1e3:.3f} ms: {ours / theirs:.2f} times"
        return Verdict(bool(slower), said if slower else "")

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

    def _call(self, subject: Subject, program: Path) -> Called:
        return isolated.call(
            program,
            subject.inputs,
            signature=subject.signature,
            device=self.compiler.target.device,
            timeout=self.compiler.timeout,
        )

    def _unfused(self, subject: Subject) -> tuple[Path, Called]:
        """The program without our passes, and what it returns."""
        with self._lock:
            if subject.source not in self._stock:
                program = self.folder / f"unfused{len(self._stock)}.vmfb"
                self.compiler.generate(subject.source, program, fused=False)
                self._stock[subject.source] = program, self._call(subject, program)
            return self._stock[subject.source]
