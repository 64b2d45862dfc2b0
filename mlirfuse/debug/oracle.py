"""Decides whether a grouped module fails: in compilation, by a crash, in its results, or in speed.

oracle = Oracle(compiler, Failure(kind="numbers"), folder)
oracle.verdict(subject, grouped.path, hinted=grouped.hinted).bad
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
from mlirfuse.debug.race import race
from mlirfuse.runtime import isolated
from mlirfuse.runtime.inputs import Array
from mlirfuse.runtime.isolated import Called, Signature

KINDS = ("compile", "crash", "numbers", "slower", "command")
"""Kinds of failure: code generation fails; the compiler or the program crashes; results differ from
the unfused program's; the program is slower than the unfused one; a command of the user fails."""

DEFAULT_FACTOR = 1.2
"""Default ratio of the times of the fused and the unfused program that counts as a failure."""

MAX_RACES = 5
"""Maximum number of races until two in a row agree whether the program is slower."""

SKIP = 125
"""Exit code of a command that cannot decide, as for `git bisect run`."""

ABORT = 128
"""Smallest exit code that ends the search, as for `git bisect run`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The failure that is searched for.

    Attributes:
      kind: one of `KINDS`.
      tolerance: for `numbers`: error allowed relative to a result's largest magnitude; None for
        `compare.TOLERANCES`.
      factor: for `slower`: smallest failing ratio to the unfused program's time.
      command: for `command`: a command line in which `%s` stands for the program's `.vmfb`.
    """

    kind: str
    tolerance: float | None = None
    factor: float = DEFAULT_FACTOR
    command: str = ""

    def __post_init__(self) -> None:
        """Checks the fields.

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
      bad: whether it fails.
      message: description of the failure.
      result: for `numbers`: index of the result with the largest error.
      threshold: for `numbers`: absolute difference in that result that shows the failure.
      stage: for `crash`: the stage that crashed, `codegen` or `run`.
    """

    bad: bool
    message: str = ""
    result: int | None = None
    threshold: float = 0.0
    stage: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """The module under test and the call of it.

    Attributes:
      source: file of the module at global-optimization level.
      signature: signature of the function that is called.
      inputs: arguments of the call.
    """

    source: Path
    signature: Signature
    inputs: Sequence[Array]


class Oracle:
    """Decides whether a grouped module of a subject fails.

    Attributes:
      compiler: the compiler and target.
      failure: the failure that is searched for.
      folder: directory for programs.
      numerics: class of the rewrites, for the tolerance of `numbers`.
    """

    def __init__(self, compiler: Compiler, failure: Failure, folder: Path) -> None:
        """Judges nothing yet."""
        self.compiler = compiler
        self.failure = failure
        self.folder = folder
        self.numerics = Numerics.REASSOCIATING
        self._stock: dict[Path, tuple[Path, Called]] = {}
        self._lock = threading.Lock()

    def verdict(self, subject: Subject, grouped: Path, *, hinted: bool) -> Verdict:
        """Compiles a grouped module and tests it for the failure.

        Args:
          subject: the module before grouping.
          grouped: file of bytecode or text, past the engine.
          hinted: whether a contraction in it is marked for data tiling.

        Raises:
          MlirfuseError: the module fails in another way.
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
                crashed = error.returncode is None or error.returncode < 0
                return Verdict(crashed, str(error) if crashed else "", stage=error.stage)
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
        threshold = min(worst.allowed, worst.max_error / 2)
        return Verdict(True, str(worst), result, threshold * compare.scale(unfused[result]))

    def _slower(self, subject: Subject, program: Path) -> Verdict:
        programs = program, self._unfused(subject)[0]
        ours = theirs = float("inf")
        slower: bool | None = None
        for _ in range(MAX_RACES):
            with self._lock:
                times = race(programs, subject.inputs, subject.signature, self.compiler)
            ours, theirs = min(ours, times[0]), min(theirs, times[1])
            before, slower = slower, ours > self.failure.factor * theirs
            if slower == before:
                break
        message = f"{ours * 1e3:.3f} ms, unfused {theirs * 1e3:.3f} ms: {ours / theirs:.2f} times"
        return Verdict(bool(slower), message if slower else "")

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
        """The program without our passes, and its results."""
        with self._lock:
            if subject.source not in self._stock:
                program = self.folder / f"unfused{len(self._stock)}.vmfb"
                self.compiler.generate(subject.source, program, fused=False)
                self._stock[subject.source] = program, self._call(subject, program)
            return self._stock[subject.source]
