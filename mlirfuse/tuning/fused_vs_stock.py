"""Times fused functions against stock IREE's, and keeps the faster form of each.

    mlirfuse-compile model.onnx -o model.vmfb --measure

Functions that are slower with their fusions, by more than the noise, are compiled without them; the
manifest has the times.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlirfuse.benchmarking import programs, verdict
from mlirfuse.benchmarking.verdict import SLOWER, Comparison
from mlirfuse.core import MlirfuseError, NoMatch, Reason, Report, UsageError
from mlirfuse.runtime.inputs import Array, random_inputs
from mlirfuse.runtime.isolated import Signature

if TYPE_CHECKING:
    from mlirfuse.backend.compiler import Compiler
    from mlirfuse.compilation import Compilation
    from mlirfuse.runtime.image import Image

SECONDS = 4.0
"""Approximate time of the rounds of a function."""

CONTROL = "fused again"
"""Another process of the fused program, which shows the noise."""

FUSED = "fused"
STOCK = "stock"


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """The times of one function.

    Attributes:
      fused_ms: median time of a call with fusion, in milliseconds.
      stock_ms: median time of a call without fusion, in milliseconds.
      comparison: the fused program beside the other one.
      rounds: number of rounds.
    """

    fused_ms: float
    stock_ms: float
    comparison: Comparison
    rounds: int

    @property
    def kept(self) -> str:
        """The form to keep: `stock` where the fused one is slower outside the noise."""
        return STOCK if self.comparison.verdict == SLOWER else FUSED

    def to_dict(self) -> dict[str, Any]:
        """The function's entry in the manifest."""
        return {
            "fused_ms": round(self.fused_ms, 6),
            "stock_ms": round(self.stock_ms, 6),
            **self.comparison.to_dict(),
            "noise": self.comparison.noise,
            "rounds": self.rounds,
            "kept": self.kept,
        }

    def __str__(self) -> str:
        """Both times, and the interval of their ratio."""
        low, high = self.comparison.interval
        return (
            f"{self.fused_ms:.3f} ms, stock IREE {self.stock_ms:.3f} ms: {low:.2f} to {high:.2f}"
            " times as fast"
        )


def measure(
    fused: Path,
    stock: Path,
    inputs: Sequence[Array],
    signature: Signature,
    compiler: Compiler,
    seconds: float = SECONDS,
) -> Measured:
    """Times a function of two programs.

    Args:
      fused: the program with fusion.
      stock: the program without.
      inputs: arguments of the calls.
      signature: the function.
      compiler: compiler of the programs, for its device and time limit.
      seconds: approximate time of the rounds.

    Raises:
      CompileFailedError: in stage `run`: a program failed, crashed or ran out of time.
    """
    samples = programs.timed(
        {FUSED: fused, STOCK: stock, CONTROL: fused},
        inputs,
        signature,
        device=compiler.target.device,
        timeout=compiler.timeout,
        seconds=seconds,
    ).samples
    return Measured(
        samples.milliseconds(FUSED),
        samples.milliseconds(STOCK),
        verdict.compare(samples, FUSED, STOCK, CONTROL),
        len(samples.seconds[FUSED]),
    )


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
    from mlirfuse.backend import boundaries, final_program, stock_program
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
    stock_program.record(report, compiler, made, phases)
    measured = {}
    for name, signature in _fused(compilation, report).items():
        given = inputs if name == compilation.imported.function else None
        values = list(given) if given is not None else random_inputs(signature.inputs, seed)
        measured[name] = measure(compilation.program, stock, values, signature, compiler)
    slower = _slower(report, measured)
    if slower:
        fused.leave_unfused(slower)
        dispatches, kernels = report.dispatches["stock"], report.stock_kernels
        report = fused.build(compilation.program)
        report.dispatches["stock"], report.stock_kernels = dispatches, kernels
        if not any(d.taken for d in report.decisions):
            stock.replace(compilation.program)
            report.dispatches["fused"] = dispatches
            boundaries.record(report, final_program.read(phases, made, given=report.places))
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
            found[function] = NoMatch(Reason.NOT_PROFITABLE, f"measured {times}")
    return found
