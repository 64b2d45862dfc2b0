"""Compares what a fused program computes with what the unfused one does, and float64 would.

    checked = mlirfuse.verify(model, example_inputs, groups=True)
    assert checked.ok, checked.text()

Both programs are called with the same seeded inputs, each in a process of its own. With `groups`
each group is also compiled alone, beside the ops that it was made of, so that a wrong one is named
even when the model's results happen to agree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlirfuse.core import CompileFailedError, Decision, MlirfuseError, Report

if TYPE_CHECKING:
    from mlirfuse.compilation import Compilation
    from mlirfuse.debug.compare import Difference
    from mlirfuse.debug.outline import Piece
    from mlirfuse.options import FusionOptions
    from mlirfuse.runtime.inputs import Array
    from mlirfuse.runtime.isolated import Signature
    from mlirfuse.targets.base import Target


@dataclasses.dataclass(frozen=True, slots=True)
class GroupCheck:
    """One group, compiled alone and compared with its parts.

    Attributes:
      decision: the decision that formed it.
      outputs: its results compared; empty when that was not possible.
      problem: why it was not possible, or that it did not compile alone.
    """

    decision: Decision
    outputs: tuple[Difference, ...]
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing is known against it."""
        return all(d.ok for d in self.outputs)

    def __str__(self) -> str:
        """One line, and one for each result."""
        name = f"{self.decision.pass_name}@match={self.decision.match} of {self.decision.function}"
        place = self.decision.ops[-1] if self.decision.ops else "-"
        lines = [f"{name} at {place}:{f' not checked: {self.problem}' if self.problem else ''}"]
        return "\n".join([*lines, *(f"  {d}" for d in self.outputs)])


@dataclasses.dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found.

    Attributes:
      outputs: the results of the model.
      groups: each group alone; empty when that was not asked for.
      report: what was fused.
      note: why there is no float64 reference; empty when there is one.
    """

    outputs: tuple[Difference, ...]
    groups: tuple[GroupCheck, ...]
    report: Report
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether every error is within what is allowed."""
        return all(d.ok for d in self.outputs) and all(g.ok for g in self.groups)

    def text(self) -> str:
        """A line for each result and each group."""
        lines = [*map(str, self.outputs), *map(str, self.groups)]
        if self.note:
            lines.append(f"no float64 reference: {self.note}")
        return "".join(f"{line}\n" for line in lines)

    def failure(self) -> str:
        """The first thing that is wrong, in one line; empty when nothing is."""
        for group in self.groups:
            for difference in group.outputs:
                if not difference.ok:
                    return f"{str(group).splitlines()[0]} {difference}"
        return next((str(d) for d in self.outputs if not d.ok), "")


def verify(
    model: Any,
    example_inputs: Any = None,
    *,
    target: str | Target = "cpu",
    options: FusionOptions | Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    function: str | None = None,
    attention: str = "auto",
    inputs: Sequence[Array] | None = None,
    seed: int = 0,
    groups: bool = False,
    tolerance: float | None = None,
    timeout: float | None = None,
    **switches: Any,
) -> Verification:
    """Compiles a model with and without fusion and compares the results.

    Args:
      model: as `mlirfuse.compile`, and so are the arguments not listed here.
      example_inputs: arguments of a module or function, for its import.
      target: the machine; it has to be this one.
      options: the switches, instead of `switches`.
      dynamic_shapes: for PyTorch.
      function: for MLIR with several functions.
      attention: for PyTorch.
      inputs: flat list of arguments to call with; None for random ones.
      seed: of the random arguments.
      groups: whether to check each group alone, too.
      tolerance: error allowed relative to a result's largest magnitude; None for what
        `mlirfuse.debug.compare.TOLERANCES` says.
      timeout: seconds that each step of the compiler, and each call, may take.
      **switches: fields of `FusionOptions`.

    Raises:
      UsageError, ImportFailedError, CompileFailedError, PassFailedError: as `mlirfuse.compile`; a
        call that dies or runs out of time is a CompileFailedError of stage `run`.
    """
    from mlirfuse.compilation import open_model, resolved

    with open_model(
        model,
        example_inputs,
        target=target,
        options=resolved(options, switches),
        dynamic_shapes=dynamic_shapes,
        function=function,
        attention=attention,
        timeout=timeout,
    ) as work:
        return check(work, inputs=inputs, seed=seed, groups=groups, tolerance=tolerance)


def check(
    work: Compilation,
    *,
    inputs: Sequence[Array] | None = None,
    seed: int = 0,
    groups: bool = False,
    tolerance: float | None = None,
) -> Verification:
    """Compiles an opened model into `work.program`, and compares what that returns.

    Arguments and errors are those of `verify`.
    """
    return _Checks(work, inputs, seed, tolerance).run(groups=groups)


@dataclasses.dataclass(slots=True)
class _Checks:
    work: Compilation
    given: Sequence[Array] | None
    seed: int
    tolerance: float | None

    def run(self, *, groups: bool) -> Verification:
        from mlirfuse.backend.fallback import Fallback
        from mlirfuse.debug import compare
        from mlirfuse.runtime.inputs import random_inputs
        from mlirfuse.runtime.isolated import Signature

        work = self.work
        compiled = Fallback(work.compiler, work.normalized, work.folder)
        report = compiled.build(work.program)
        unfused = work.folder / "unfused.vmfb"
        report.dispatches["stock"] = work.compiler.generate(work.normalized, unfused, fused=False)
        sizes = work.imported.sizes
        inputs = list(self.given or random_inputs(work.imported.inputs, self.seed, sizes))
        model = work.imported
        signature = Signature(model.function, model.inputs, model.outputs)
        ours, theirs = (self._call(p, inputs, signature) for p in (work.program, unfused))
        reference, note = self._reference(work.normalized, inputs, signature)
        outputs = compare.compare(
            ours,
            theirs,
            reference,
            numerics=compare.loosest(report),
            tolerance=self.tolerance,
        )
        checked = self._groups(compiled.switches) if groups else ()
        return Verification(tuple(outputs), checked, report, note)

    def _call(self, program: Path, inputs: Sequence[Array], signature: Signature) -> list[Array]:
        from mlirfuse.runtime import isolated

        compiler = self.work.compiler
        return isolated.call(
            program,
            inputs,
            signature=signature,
            device=compiler.target.device,
            timeout=compiler.timeout,
        ).results

    def _reference(
        self, source: Path, inputs: Sequence[Array], signature: Signature
    ) -> tuple[list[Array] | None, str]:
        """Results in float64, or None and the reason."""
        from mlirfuse.debug.float64 import results

        try:
            return results(source, inputs, signature, self.work.compiler), ""
        except MlirfuseError as error:
            return None, str(error)

    def _groups(self, options: FusionOptions) -> tuple[GroupCheck, ...]:
        from mlirfuse.backend.grouping import group
        from mlirfuse.debug.outline import Recorder
        from mlirfuse.runtime.inputs import DYNAMIC_SIZE, call_shapes
        from mlirfuse.structured.ir.sizes import Sizes

        model = self.work.imported
        sizes = Sizes(model.function, call_shapes(model.inputs, model.sizes), DYNAMIC_SIZE)
        recorder = Recorder(lambda fusion, _: fusion.groups, sizes)
        output = self.work.folder / "pieces.mlirbc"
        target = self.work.compiler.target
        grouped = group(
            self.work.normalized, output, target=target, options=options, observer=recorder
        )
        groups = {found.name for found in grouped.groups}
        pieces = {(p.pass_name, p.match): p for p in recorder.pieces}
        alike: dict[tuple[str, str], tuple[tuple[Difference, ...], str]] = {}
        checks = []
        for decision in grouped.report.decisions:
            name = (decision.pass_name, decision.match)
            if not decision.taken or name not in groups:
                continue
            piece = pieces.get(name)
            if piece is None or not piece.after:
                why = recorder.refused.get(name, "it reads other values than its parts")
                checks.append(GroupCheck(decision, (), why))
                continue
            if piece.key not in alike:
                alike[piece.key] = self._piece(piece)
            checks.append(GroupCheck(decision, *alike[piece.key]))
        return tuple(checks)

    def _piece(self, piece: Piece) -> tuple[tuple[Difference, ...], str]:
        """The group's results compared, and what stood in the way."""
        from mlirfuse.debug import compare
        from mlirfuse.runtime.inputs import random_inputs

        inputs = random_inputs(piece.signature.inputs, self.seed)
        called = []
        try:
            for form, text in (("before", piece.before), ("after", piece.after)):
                source = self.work.folder / f"{form}.mlir"
                source.write_text(text, encoding="utf-8")
                program = self.work.folder / f"{form}.vmfb"
                self.work.compiler.generate(source, program, fused=False)
                called.append(self._call(program, inputs, piece.signature))
        except CompileFailedError as error:
            return (), str(error)
        reference, _ = self._reference(self.work.folder / "before.mlir", inputs, piece.signature)
        found = compare.compare(
            called[1],
            called[0],
            reference,
            numerics=piece.numerics,
            tolerance=self.tolerance,
        )
        return tuple(found), ""
