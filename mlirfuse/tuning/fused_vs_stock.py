"""Times fused functions against stock IREE's, and keeps the faster form of each.

    mlirfuse-compile model.onnx -o model.vmfb --measure

Functions that are slower with their fusions are compiled without them; the manifest has the times.
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

MIN_CALLS = 10
"""Minimum number of timed calls in a process; the fastest counts."""

MIN_SECONDS = 0.05
"""Minimum total time of the calls in a process: short programs are called more often."""

MAX_CALLS = 2000
"""Maximum number of timed calls in a process."""

ROUNDS = 3
"""Processes in which each program is timed, in turns."""

FUSED = "fused"
STOCK = "stock"


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """The times of one function.

    Attributes:
      fused_ms: time of the fastest call with fusion, in milliseconds.
      stock_ms: time of the fastest call without fusion, in milliseconds.
    """

    fused_ms: float
    stock_ms: float

    @property
    def kept(self) -> str:
        """The faster form, `fused` or `stock`."""
        return FUSED if self.fused_ms <= self.stock_ms else STOCK

    def to_dict(self) -> dict[str, Any]:
        """The function's entry in the manifest."""
        return {**dataclasses.asdict(self), "kept": self.kept}


def race(
    programs: Sequence[Path], inputs: Sequence[Array], signature: Signature, compiler: Compiler
) -> list[float]:
    """Times of the fastest call of each program, in seconds; the programs take turns.

    Args:
      programs: programs of the same signature.
      inputs: arguments of the calls.
      signature: the function that is called.
      compiler: compiler of the programs, for its device and time limit.

    Raises:
      CompileFailedError: in stage `run`: a program failed, crashed or ran out of time.
    """
    fastest = [float("inf")] * len(programs)
    repeat = MIN_CALLS
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
        wanted = math.ceil(MIN_SECONDS / max(*fastest, MIN_SECONDS / MAX_CALLS))
        repeat = max(MIN_CALLS, wanted)
    return fastest


def build(
    compilation: Compilation, *, inputs: Sequence[Array] | None = None, seed: int = 0
) -> tuple[Image, Report, dict[str, Any]]:
    """Compiles an opened model into `compilation.program`, with the faster form of each function.

    Args:
      compilation: a model opened by `open_model`.
      inputs: arguments of the model's function; None for random ones.
      seed: seed of random arguments.

    Returns:
      The program, the engine's report, and the manifest's entry of each function with a fusion.

    Raises:
      UsageError: the compilation is one without our passes.
      CompileFailedError: as `mlirfuse.compile`, or a program failed when it was called.
    """
    from mlirfuse.backend import boundaries, final_program
    from mlirfuse.backend.fallback import Fallback
    from mlirfuse.runtime.image import Image

    if compilation.stock:
        raise UsageError("stock and measure are both given; stock has nothing to compare with")

    compiler = compilation.compiler
    fused = Fallback(compiler, compilation.normalized, compilation.folder)
    report = fused.build(compilation.program)
    stock = compilation.folder / "measured.vmfb"
    phases = compilation.folder / "measured_phases"
    made = compiler.generate(compilation.normalized, stock, fused=False, phases=phases)
    report.dispatches["stock"] = made.dispatches
    measured = {}
    for name, signature in _fused(compilation, report).items():
        given = inputs if name == compilation.imported.function else None
        values = list(given) if given is not None else random_inputs(signature.inputs, seed)
        ours, theirs = race((compilation.program, stock), values, signature, compiler)
        measured[name] = Measured(round(ours * 1e3, 6), round(theirs * 1e3, 6))
    slower = _slower(report, measured)
    if slower:
        fused.leave_unfused(slower)
        dispatches = report.dispatches["stock"]
        report = fused.build(compilation.program)
        report.dispatches["stock"] = dispatches
        if not any(d.taken for d in report.decisions):
            stock.replace(compilation.program)
            report.dispatches["fused"] = dispatches
            boundaries.record(report, final_program.read(phases, made))
    entries = {name: found.to_dict() for name, found in measured.items()}
    return Image(compilation.program), report, entries


def _fused(compilation: Compilation, report: Report) -> dict[str, Signature]:
    """Signatures of the public functions that have a fusion, by name."""
    from mlirfuse.runtime.module import load

    model = compilation.imported
    taken = {_public(d.function) for d in report.decisions if d.taken}
    found = {}
    for name in sorted(taken):
        if name == model.function:
            found[name] = Signature(name, model.inputs, model.outputs)
            continue
        try:
            other = load(compilation.program, function=name)
        except MlirfuseError:  # a private function: its time counts in its callers
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
            detail = f"measured {times.fused_ms:.3f} ms, stock IREE {times.stock_ms:.3f} ms"
            found[function] = NoMatch(Reason.NOT_PROFITABLE, detail)
    return found
