"""Verifies a fused program against the unfused one and a float64 reference.

    checked = mlirfuse.verify(model, example_inputs, groups=True)
    assert checked.ok, checked.text()

Both programs are called with the same seeded inputs, each in a separate process. The results are
compared with those of the framework too, its element types included: the unfused program and the
float64 reference share the import, and so its faults. With `groups` each
group is also compiled alone and compared with its unfused ops, so that a wrong group is found even
when the model's results happen to agree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from mlirfuse.core import CompileFailedError, Decision, MlirfuseError, Report

if TYPE_CHECKING:
    from mlirfuse.compilation import Compilation
    from mlirfuse.debug.compare import Difference
    from mlirfuse.debug.outline import OutlinedRewrite
    from mlirfuse.options import FusionOptions
    from mlirfuse.options.typed import SwitchArguments
    from mlirfuse.pipelines.faults import Faults
    from mlirfuse.runtime.inputs import Array
    from mlirfuse.runtime.isolated import Signature
    from mlirfuse.targets.base import Target


@dataclasses.dataclass(frozen=True, slots=True)
class GroupCheck:
    """One group, compiled alone and compared with its unfused ops.

    Attributes:
      decision: the decision that formed it.
      outputs: its compared results; empty when they could not be compared.
      problem: the reason why they could not be compared; else empty.
    """

    decision: Decision
    outputs: tuple[Difference, ...]
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether no result differs."""
        return all(d.ok for d in self.outputs)

    def __str__(self) -> str:
        """One line, and one for each result."""
        name = f"{self.decision.pass_name}@match={self.decision.match} of {self.decision.function}"
        location = self.decision.ops[-1] if self.decision.ops else "-"
        lines = [f"{name} at {location}:{f' not checked: {self.problem}' if self.problem else ''}"]
        return "\n".join([*lines, *(f"  {d}" for d in self.outputs)])


@dataclasses.dataclass(frozen=True, slots=True)
class Verification:
    """The result of `verify`.

    Attributes:
      outputs: the compared results of the model.
      groups: the checks of single groups; empty unless requested.
      report: the engine's report.
      note: the reason why there is no float64 reference; empty when there is one.
      framework: the results compared with PyTorch's, JAX's or those of ONNX's reference evaluator.
      framework_note: the reason why there is no such comparison; empty when there is one.
    """

    outputs: tuple[Difference, ...]
    groups: tuple[GroupCheck, ...]
    report: Report
    note: str = ""
    framework: tuple[Difference, ...] = ()
    framework_note: str = ""

    @property
    def ok(self) -> bool:
        """Whether every error is within its tolerance."""
        compared = (*self.outputs, *self.framework)
        return all(d.ok for d in compared) and all(g.ok for g in self.groups)

    def text(self) -> str:
        """A line for each result and each group."""
        lines = [*map(str, self.outputs), *map(str, self.framework), *map(str, self.groups)]
        if self.note:
            lines.append(f"no float64 reference: {self.note}")
        if self.framework_note:
            lines.append(f"not compared with the framework: {self.framework_note}")
        return "".join(f"{line}\n" for line in lines)

    def failure(self) -> str:
        """The first difference beyond tolerance, on one line; empty if there is none."""
        for group in self.groups:
            for difference in group.outputs:
                if not difference.ok:
                    return f"{str(group).splitlines()[0]} {difference}"
        compared = (*self.outputs, *self.framework)
        return next((str(d) for d in compared if not d.ok), "")


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
    **switches: Unpack[SwitchArguments],
) -> Verification:
    """Compiles a model with and without fusion and compares the results.

    Args:
      model: as for `mlirfuse.compile`.
      example_inputs: as for `mlirfuse.compile`.
      target: as for `mlirfuse.compile`; it must be this machine.
      options: as for `mlirfuse.compile`.
      dynamic_shapes: as for `mlirfuse.compile`.
      function: as for `mlirfuse.compile`.
      attention: as for `mlirfuse.compile`.
      inputs: flat list of arguments of the calls; None for random ones.
      seed: seed of the random arguments.
      groups: whether to check each group alone, too.
      tolerance: error allowed relative to a result's largest magnitude; None for
        `mlirfuse.debug.compare.TOLERANCES`.
      timeout: time limit of each step of the compiler, and of each call, in seconds.
      **switches: fields of `FusionOptions`.

    Raises:
      UsageError, ImportFailedError, CompileFailedError, PassFailedError: as `mlirfuse.compile`; a
        call that crashes or runs out of time is a CompileFailedError of stage `run`.
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
    ) as compilation:
        return check(compilation, inputs=inputs, seed=seed, groups=groups, tolerance=tolerance)


def check(
    compilation: Compilation,
    *,
    inputs: Sequence[Array] | None = None,
    seed: int = 0,
    groups: bool = False,
    tolerance: float | None = None,
) -> Verification:
    """Compiles an opened model into `compilation.program`, and compares its results.

    Arguments and errors are those of `verify`.
    """
    return _Verifier(compilation, inputs, seed, tolerance).run(groups=groups)


@dataclasses.dataclass(slots=True)
class _Verifier:
    compilation: Compilation
    given: Sequence[Array] | None
    seed: int
    tolerance: float | None

    def run(self, *, groups: bool) -> Verification:
        from mlirfuse.backend.fallback import Fallback
        from mlirfuse.debug import compare
        from mlirfuse.runtime.inputs import random_inputs
        from mlirfuse.runtime.isolated import Signature

        work = self.compilation
        compiled = Fallback(work.compiler, work.normalized, work.folder)
        report = compiled.build(work.program)
        unfused = work.folder / "unfused.vmfb"
        made = work.compiler.generate(work.normalized, unfused, fused=False)
        report.dispatches["stock"] = made.dispatches
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
        framework, framework_note = self._framework(ours, inputs)
        checked = self._groups(compiled.switches, compiled.faults) if groups else ()
        return Verification(tuple(outputs), checked, report, note, framework, framework_note)

    def _framework(
        self, ours: Sequence[Array], inputs: Sequence[Array]
    ) -> tuple[tuple[Difference, ...], str]:
        """The results compared with the framework's, or none and the reason."""
        from mlirfuse.debug import compare
        from mlirfuse.runtime.arrays import torch_of

        model = self.compilation.imported
        if model.reference is None:
            return (), f"{model.source} has no reference in {model.frontend}"
        try:
            results = model.reference(
                [*map(torch_of, inputs)] if model.frontend == "torch" else inputs
            )
        except Exception as error:
            return (), f"{model.frontend} failed: {type(error).__name__}: {error}"
        found = compare.with_framework(
            ours,
            [spec.dtype for spec in model.outputs],
            results,
            framework=model.frontend,
            demoted=self.compilation.compiler.target.demotes_f64,
            tolerance=self.tolerance,
        )
        return tuple(found), ""

    def _call(self, program: Path, inputs: Sequence[Array], signature: Signature) -> list[Array]:
        from mlirfuse.runtime import isolated

        compiler = self.compilation.compiler
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
            return results(source, inputs, signature, self.compilation.compiler), ""
        except MlirfuseError as error:
            return None, str(error)

    def _groups(self, options: FusionOptions, faults: Faults) -> tuple[GroupCheck, ...]:
        from mlirfuse.backend.grouping_process import group
        from mlirfuse.debug.outline import Outliner
        from mlirfuse.runtime.inputs import DYNAMIC_SIZE, call_shapes
        from mlirfuse.structured.ir.sizes import Sizes

        model = self.compilation.imported
        sizes = Sizes(model.function, call_shapes(model.inputs, model.sizes), DYNAMIC_SIZE)
        outliner = Outliner(lambda fusion, _: fusion.groups, sizes)
        output = self.compilation.folder / "grouped.mlirbc"
        target = self.compilation.compiler.target
        grouped = group(
            self.compilation.normalized,
            output,
            target=target,
            options=options,
            observer=outliner,
            faults=faults,
        )
        groups = {found.name for found in grouped.groups}
        by_match = {(o.pass_name, o.match): o for o in outliner.outlined}
        results: dict[tuple[str, str], tuple[tuple[Difference, ...], str]] = {}
        checks = []
        for decision in grouped.report.decisions:
            name = (decision.pass_name, decision.match)
            if not decision.taken or name not in groups:
                continue
            outlined = by_match.get(name)
            if outlined is None or not outlined.after:
                problem = outliner.refused.get(name, "it uses other operands than its unfused ops")
                checks.append(GroupCheck(decision, (), problem))
                continue
            if outlined.key not in results:
                results[outlined.key] = self._group(outlined)
            checks.append(GroupCheck(decision, *results[outlined.key]))
        return tuple(checks)

    def _group(self, outlined: OutlinedRewrite) -> tuple[tuple[Difference, ...], str]:
        """The compared results of a group, and the problem that prevented the comparison."""
        from mlirfuse.debug import compare
        from mlirfuse.runtime.inputs import random_inputs

        inputs = random_inputs(outlined.signature.inputs, self.seed)
        called = []
        try:
            for form, text in (("before", outlined.before), ("after", outlined.after)):
                source = self.compilation.folder / f"{form}.mlir"
                source.write_text(text, encoding="utf-8")
                program = self.compilation.folder / f"{form}.vmfb"
                self.compilation.compiler.generate(source, program, fused=False)
                called.append(self._call(program, inputs, outlined.signature))
        except CompileFailedError as error:
            return (), str(error)
        reference, _ = self._reference(
            self.compilation.folder / "before.mlir", inputs, outlined.signature
        )
        found = compare.compare(
            called[1],
            called[0],
            reference,
            numerics=outlined.numerics,
            tolerance=self.tolerance,
        )
        return tuple(found), ""
