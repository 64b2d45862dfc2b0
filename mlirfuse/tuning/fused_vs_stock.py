"""Times fused functions against stock IREE's, and keeps the faster of each.

    mlirfuse-compile model.onnx -o model.vmfb --measure

A function that is slower with its fusions is compiled without them; the times are in the manifest.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlirfuse.core import MlirfuseError, NoMatch, Reason, Report, UsageError
from mlirfuse.runtime import isolated
from mlirfuse.runtime.inputs import Array, random_inputs
from mlirfuse.runtime.isolated import Signature

if TYPE_CHECKING:
    from mlirfuse.backend.compiler import Compiler
    from mlirfuse.compilation import Compilation
    from mlirfuse.runtime.image import Image

REPEAT = 10
"""Timed calls in a process at the least; the fastest counts."""

SECONDS = 0.05
"""How long the calls in a process take at the least: a short program is called more often."""

MOST = 2000
"""Timed calls in a process at the most."""

ROUNDS = 3
"""Processes in which each of the programs is timed, in turns."""

FUSED = "fused"
STOCK = "stock"


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """The times of one function.

    Attributes:
      fused_ms: milliseconds of the fastest call with fusion.
      stock_ms: the same without.
    """

    fused_ms: float
    stock_ms: float

    @property
    def kept(self) -> str:
        """`fused` or `stock`."""
        return FUSED if self.fused_ms <= self.stock_ms else STOCK

    def to_dict(self) -> dict[str, Any]:
        """The function's entry in the manifest."""
        return {**dataclasses.asdict(self), "kept": self.kept}


def race(
    programs: Sequence[Path], inputs: Sequence[Array], signature: Signature, compiler: Compiler
) -> list[float]:
    """Seconds of the fastest call of each program, called in turns.

    Args:
      programs: of the same signature.
      inputs: arguments.
      signature: what is called.
      compiler: of the programs: device and time limit.

    Raises:
      CompileFailedError: in stage `run`: a program refused, died or ran out of time.
    """
    fastest = [float("inf")] * len(programs)
    repeat = REPEAT
    for _ in range(ROUNDS):
        for index, program in enumerate(programs):
            called = isolated.call(
                program,
                inputs,
                signature=signature,
                device=compiler.target.device,
                timeout=compiler.timeout,
                repeat=repeat,
            )
            fastest[index] = min(fastest[index], *called.seconds)
        wanted = math.ceil(SECONDS / max(*fastest, SECONDS / MOST))
        repeat = max(REPEAT, wanted)
    return fastest


def build(
    work: Compilation, *, inputs: Sequence[Array] | None = None, seed: int = 0
) -> tuple[Image, Report, dict[str, Any]]:
    """Compiles an opened model into `work.program`, each function the faster way.

    Args:
      work: what `open_model` opened.
      inputs: arguments of the function that is called; None for random ones.
      seed: of random arguments.

    Returns:
      The program, what was fused, and the manifest's entry of each function that has a fusion.

    Raises:
      UsageError: the compilation is one without our passes.
      CompileFailedError: as `mlirfuse.compile`, or a program died when it was called.
    """
    from mlirfuse.backend.fallback import Fallback
    from mlirfuse.runtime.image import Image

    if work.stock:
        raise UsageError("stock and measure are both given; stock has nothing to compare with")

    compiler = work.compiler
    fused = Fallback(compiler, work.normalized, work.folder)
    report = fused.build(work.program)
    stock = work.folder / "measured.vmfb"
    report.dispatches["stock"] = compiler.generate(work.normalized, stock, fused=False)
    measured = {}
    for name, signature in _fused(work, report).items():
        given = inputs if name == work.imported.function else None
        values = list(given) if given is not None else random_inputs(signature.inputs, seed)
        ours, theirs = race((work.program, stock), values, signature, compiler)
        measured[name] = Measured(round(ours * 1e3, 6), round(theirs * 1e3, 6))
    slower = _slower(report, measured)
    if slower:
        fused.leave_unfused(slower)
        dispatches = report.dispatches["stock"]
        report = fused.build(work.program)
        report.dispatches["stock"] = dispatches
        if not any(d.taken for d in report.decisions):
            stock.replace(work.program)
            report.dispatches["fused"] = dispatches
    entries = {name: found.to_dict() for name, found in measured.items()}
    return Image(work.program), report, entries


def _fused(work: Compilation, report: Report) -> dict[str, Signature]:
    """The functions that can be called and have a fusion."""
    from mlirfuse.runtime.module import load

    model = work.imported
    taken = {_public(d.function) for d in report.decisions if d.taken}
    found = {}
    for name in sorted(taken):
        if name == model.function:
            found[name] = Signature(name, model.inputs, model.outputs)
            continue
        try:
            other = load(work.program, function=name)
        except MlirfuseError:  # a private one: it counts in those that call it
            continue
        found[name] = Signature(name, other.inputs, other.outputs)
    return found


def _public(function: str) -> str:
    """The name under which a function is called."""
    return function.removesuffix("$async")


def _slower(report: Report, measured: Mapping[str, Measured]) -> dict[str, NoMatch]:
    """The functions that are faster without their fusions."""
    found = {}
    for function in dict.fromkeys(d.function for d in report.decisions):
        times = measured.get(_public(function))
        if times is not None and times.kept == STOCK:
            said = f"measured {times.fused_ms:.3f} ms, stock IREE {times.stock_ms:.3f} ms"
            found[function] = NoMatch(Reason.NOT_PROFITABLE, said)
    return found
