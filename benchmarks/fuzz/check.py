"""Compiles one program with and without fusion and says what became of it."""

from __future__ import annotations

import dataclasses
import enum
import random
from typing import Any

from mlirfuse import api, numerics
from mlirfuse.api import Work
from mlirfuse.backend.fallback import Fallback
from mlirfuse.core import CompileFailedError, Kind, MlirfuseError, Reason, Report
from mlirfuse.options import FusionOptions
from mlirfuse.patterns import PASSES
from mlirfuse.runtime import isolated
from mlirfuse.runtime.inputs import random_inputs
from mlirfuse.runtime.isolated import Signature

TIMEOUT = 120.0
"""Seconds for each step of the compiler and each call."""


class Outcome(enum.StrEnum):
    """What became of a program."""

    EQUAL = "equal"
    FELL_BACK = "fell_back"
    REFUSED = "refused"
    WRONG = "wrong"
    ENGINE = "engine"
    CALL = "call"

    @property
    def ok(self) -> bool:
        """Whether it is no failure of ours: `refused` is what stock IREE does not take."""
        return self in (Outcome.EQUAL, Outcome.FELL_BACK, Outcome.REFUSED)


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """An outcome, with what was said and how much was fused."""

    outcome: Outcome
    message: str = ""
    groups: int = 0


def switches(seed: int) -> dict[str, Any]:
    """Random switches; none of them in half of the cases."""
    chance = random.Random(seed)
    found: dict[str, Any] = {}
    if chance.random() < 0.5:
        return found
    names = sorted(PASSES)
    if chance.random() < 0.5:
        found["disable_pass"] = tuple(chance.sample(names, chance.randint(1, 6)))
    if chance.random() < 0.3:
        found["enable_pass"] = tuple(
            n for n in chance.sample(names, 3) if n not in found.get("disable_pass", ())
        )
    if chance.random() < 0.3:
        found["numerics"] = chance.choice(("exact", "any"))
    if chance.random() < 0.3:
        found["single_op_groups"] = True
    if chance.random() < 0.2:
        found["fusion_limit"] = chance.randint(0, 5)
    if chance.random() < 0.2:
        found["skip_op_kind"] = (chance.choice(("linalg.matmul", "math.exp", "arith.addf")),)
    return found


def check(text: str, given: dict[str, Any], seed: int = 0) -> Checked:
    """Compiles the program, calls it, and compares.

    Args:
      text: the program, with a function `main`.
      given: fields of `FusionOptions`.
      seed: of the arguments.
    """
    options = FusionOptions(**given)
    with api.opened(text, target="cpu", options=options, function="main", timeout=TIMEOUT) as work:
        try:
            stock = work.folder / "unfused.vmfb"
            work.compiler.generate(work.normalized, stock, fused=False)
        except CompileFailedError as error:
            return Checked(Outcome.REFUSED, str(error))
        try:
            report = Fallback(work.compiler, work.normalized, work.folder).build(work.program)
        except MlirfuseError as error:
            return Checked(Outcome.ENGINE, str(error))
        return _compared(work, report, seed)


def _compared(work: Work, report: Report, seed: int) -> Checked:
    model, compiler = work.imported, work.compiler
    inputs = random_inputs(model.inputs, seed)
    signature = Signature(model.function, model.inputs, model.outputs)
    groups = sum(d.taken and d.kind is not Kind.REWRITE for d in report.decisions)
    results = []
    for program, outcome in (
        (work.folder / "unfused.vmfb", Outcome.REFUSED),
        (work.program, Outcome.CALL),
    ):
        try:
            called = isolated.call(
                program,
                inputs,
                signature=signature,
                device=compiler.target.device,
                timeout=compiler.timeout,
            )
        except MlirfuseError as error:
            return Checked(outcome, str(error), groups)
        results.append(called.results)
    loosest = numerics.loosest(report)
    wrong = numerics.worst(numerics.compare(results[1], results[0], None, numerics=loosest))
    if wrong is not None:
        # Two right programs may round differently: which of them is nearer to float64?
        wrong = _against_float64(work, results, signature, loosest, inputs) or None
    if wrong is not None:
        return Checked(Outcome.WRONG, str(wrong), groups)
    fell_back = [d.detail for d in report.decisions if d.reason is Reason.FELL_BACK]
    if fell_back:
        return Checked(Outcome.FELL_BACK, fell_back[0], groups)
    return Checked(Outcome.EQUAL, "", groups)


def _against_float64(
    work: Work, results: Any, signature: Signature, loosest: Any, inputs: Any
) -> numerics.Difference | None:
    from mlirfuse.backend import double

    try:
        reference = double.results(work.normalized, inputs, signature, work.compiler)
    except MlirfuseError:
        reference = None
    found = numerics.compare(results[1], results[0], reference, numerics=loosest)
    return numerics.worst(found)
