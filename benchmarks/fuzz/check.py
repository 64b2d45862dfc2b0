"""Compiles and runs programs with and without fusion, and classifies the outcomes."""

from __future__ import annotations

import dataclasses
import enum
import random
import re
from typing import Any

from iree.compiler import ir

from mlirfuse.backend.fallback import Fallback
from mlirfuse.compilation import Compilation, open_model
from mlirfuse.core import MlirfuseError, Reason, Report
from mlirfuse.debug import compare
from mlirfuse.frontends.entry_point import read_signature
from mlirfuse.options import FusionOptions
from mlirfuse.patterns import PASSES
from mlirfuse.runtime import isolated
from mlirfuse.runtime.inputs import random_inputs
from mlirfuse.runtime.isolated import Signature

TIMEOUT = 120.0
"""Time limit of each step of the compiler and of each call, in seconds."""


class Outcome(enum.StrEnum):
    """The outcome of a program."""

    EQUAL = "equal"
    FELL_BACK = "fell_back"
    REFUSED = "refused"
    WRONG = "wrong"
    ENGINE = "engine"
    CALL = "call"
    CRASH = "crash"

    @property
    def ok(self) -> bool:
        """Whether it is no failure of ours; `refused` programs fail with stock IREE."""
        return self in (Outcome.EQUAL, Outcome.FELL_BACK, Outcome.REFUSED)


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """An outcome, with its message and the count of groups."""

    outcome: Outcome
    message: str = ""
    groups: int = 0


def switches(seed: int) -> dict[str, Any]:
    """Random switches; none in half of the cases."""
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


def check(text: str, given: dict[str, Any], seed: int = 0, target: str = "cpu") -> Checked:
    """Compiles a program, calls it, and compares its results with the unfused program's.

    Args:
      text: MLIR text with a function `main`.
      given: fields of `FusionOptions`.
      seed: seed of the arguments.
      target: the target; programs for other targets than the CPU are compiled and not called.
    """
    return _alone({"main": text}, FusionOptions(**given), {"main": seed}, target)["main"]


def check_model(model: Any, given: dict[str, Any], seed: int = 0, target: str = "cpu") -> Checked:
    """Checks a model of any kind; other arguments are those of `check`."""
    try:
        with open_model(
            model, target=target, options=FusionOptions(**given), timeout=TIMEOUT
        ) as work:
            name = work.imported.function
            return _compiled(work, [name], {name: seed}, target == "cpu")[name]
    except _Refused as refused:
        return Checked(refused.outcome, str(refused))
    except MlirfuseError as error:
        return Checked(Outcome.REFUSED, str(error))


def check_all(
    texts: dict[str, str], given: dict[str, Any], seeds: dict[str, int], target: str = "cpu"
) -> dict[str, Checked]:
    """Checks programs in one module, in a third of the time of separate checks.

    Programs that are not equal are checked again alone.

    Args:
      texts: name of the function -> its text, with no symbol of the others.
      given: fields of `FusionOptions`.
      seeds: name of the function -> seed of its arguments.
      target: as for `check`.
    """
    options = FusionOptions(**given)
    found: dict[str, Checked] = {}
    together = dict(texts)
    while len(together) > 1:
        try:
            found |= _together(together, options, seeds, target)
            # Of several programs at once there may be no float64 form.
            wrong = {n: t for n, t in together.items() if found[n].outcome is Outcome.WRONG}
            return found | _alone(wrong, options, seeds, target)
        except _Refused as refused:
            named = {name for name in together if refused.names(name)} or set(together)
        for name in named:
            found |= _alone({name: together.pop(name)}, options, seeds, target)
    return found | _alone(together, options, seeds, target)


def _alone(
    texts: dict[str, str], options: FusionOptions, seeds: dict[str, int], target: str
) -> dict[str, Checked]:
    found: dict[str, Checked] = {}
    for name, text in texts.items():
        try:
            found |= _together({name: text}, options, seeds, target)
        except _Refused as refused:
            found[name] = Checked(refused.outcome, str(refused))
    return found


class _Refused(Exception):
    """The failure of a module."""

    def __init__(self, outcome: Outcome, error: MlirfuseError) -> None:
        super().__init__(str(error))
        self.outcome = outcome
        self.diagnostics = getattr(error, "diagnostics", "") or str(error)

    def names(self, function: str) -> bool:
        """Whether IREE's diagnostics name a function."""
        return re.search(rf"@{function}(?!\d)", self.diagnostics) is not None


def _together(
    texts: dict[str, str], options: FusionOptions, seeds: dict[str, int], target: str
) -> dict[str, Checked]:
    text, first = "".join(texts.values()), next(iter(texts))
    try:
        with open_model(
            text, target=target, options=options, function=first, timeout=TIMEOUT
        ) as work:
            return _compiled(work, list(texts), seeds, target == "cpu")
    except MlirfuseError as error:
        raise _Refused(Outcome.REFUSED, error) from error


def _compiled(
    work: Compilation, names: list[str], seeds: dict[str, int], called: bool
) -> dict[str, Checked]:
    stock = work.folder / "unfused.vmfb"
    work.compiler.generate(work.normalized, stock, fused=False)
    try:
        report = Fallback(work.compiler, work.normalized, work.folder).build(work.program)
    except MlirfuseError as error:
        raise _Refused(Outcome.ENGINE, error) from error
    wrong = _differences(work, report, names, seeds) if called else {}
    checked = {}
    for name in names:
        own = [d for d in report.decisions if d.function.startswith(name)]
        groups = sum(d.made_group for d in own)
        fell_back = [f"{d.pass_name}: {d.detail}" for d in own if d.reason is Reason.FELL_BACK]
        if name in wrong:
            checked[name] = Checked(Outcome.WRONG, str(wrong[name]), groups)
        elif fell_back:
            checked[name] = Checked(Outcome.FELL_BACK, fell_back[0], groups)
        else:
            checked[name] = Checked(Outcome.EQUAL, "", groups)
    return checked


def _differences(
    work: Compilation, report: Report, names: list[str], seeds: dict[str, int]
) -> dict[str, compare.Difference]:
    """The difference of each function whose results are not those of the unfused one."""
    signatures = _signatures(work, names)
    calls = [(s, random_inputs(s.inputs, seeds[s.function])) for s in signatures]
    results = []
    for program, outcome in (
        (work.folder / "unfused.vmfb", Outcome.REFUSED),
        (work.program, Outcome.CALL),
    ):
        try:
            called = isolated.call_all(
                program, calls, device=work.compiler.target.device, timeout=TIMEOUT
            )
        except MlirfuseError as error:
            raise _Refused(outcome, error) from error
        results.append([c.results for c in called])
    loosest = compare.loosest(report)
    wrong = {}
    for (signature, inputs), theirs, ours in zip(calls, *results, strict=True):
        found = compare.worst(compare.compare(ours, theirs, None, numerics=loosest))
        if found is not None:
            # Two correct programs may round differently: compare their errors against float64.
            found = _against_float64(work, [theirs, ours], signature, loosest, inputs)
        if found is not None:
            wrong[signature.function] = found
    return wrong


def _signatures(work: Compilation, names: list[str]) -> list[Signature]:
    with ir.Context():
        module = ir.Module.parseFile(str(work.imported.path))
        return [Signature(*read_signature(module, name, work.imported.source)) for name in names]


def _against_float64(
    work: Compilation, results: Any, signature: Signature, loosest: Any, inputs: Any
) -> compare.Difference | None:
    from mlirfuse.debug import float64

    try:
        reference = float64.results(work.normalized, inputs, signature, work.compiler)
    except MlirfuseError:
        reference = None
    found = compare.compare(results[1], results[0], reference, numerics=loosest)
    return compare.worst(found)
