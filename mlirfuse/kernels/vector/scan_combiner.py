"""The combiner of a scan on vectors, and the type of its accumulators.

Sums and products of f32 are accumulated in f64, as PyTorch does on CPUs, unless all results of the
kernel have 16 bits; those of f16 and bf16 in f32.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.combiners import COMBINERS
from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.scan.analysis import ScanAnalysis
from mlirfuse.kernels.vector.forms import literal
from mlirfuse.kernels.vector.pointwise import Pointwise
from mlirfuse.structured.ir import ops

_ROUNDING = frozenset({"arith.addf", "arith.mulf"})
"""Combiners whose results are rounded."""

_NARROW_FLOATS = frozenset({"f16", "bf16"})
"""Floats that are accumulated in f32."""


class ScanCombiner:
    """Combines vectors of accumulators.

    Args:
      analysis: the scan.
      body: the vectors of the kernel.

    Attributes:
      element: element type of the scan.
      accumulator: element type of accumulators.
      kind: type of a vector of accumulators.
    """

    def __init__(self, analysis: ScanAnalysis, body: Pointwise) -> None:
        self._analysis, self._body, self._writer = analysis, body, body.writer
        self._block = analysis.scan.regions[0].blocks[0]
        self._op = _single_op(self._block)
        self.element = ops.element_type(analysis.scan.results[0])
        self.accumulator = self._accumulator()
        self.kind = body.vector_type(self.accumulator)

    def _accumulator(self) -> str:
        if self.element in _NARROW_FLOATS:
            if not self._op:
                raise Unsupported(f"a scan of {self.element} with a combiner of several ops")
            return "f32"
        narrow = all(ops.element_type(v) in _NARROW_FLOATS for v in self._analysis.results)
        return (
            "f64"
            if self.element == "f32" and self._op in _ROUNDING and not narrow
            else self.element
        )

    @property
    def is_long(self) -> bool:
        """Whether combining is a chain of several ops."""
        return not self._op

    def initial(self) -> str:
        """The first result of an exclusive scan, in all lanes."""
        held = literal(self._analysis.scan.operands[2])
        if held is None:
            raise Unsupported("an initial value that is no constant")
        return self.widened(self._body.splat(held, self.element))

    def widened(self, vector: str) -> str:
        """Elements as accumulators."""
        return self._cast("extf", vector, self.element, self.accumulator)

    def narrowed(self, vector: str) -> str:
        """Accumulators as elements of the scan."""
        return self._cast("truncf", vector, self.accumulator, self.element)

    def _cast(self, op: str, vector: str, given: str, wanted: str) -> str:
        if given == wanted:
            return vector
        kinds = f"{self._body.vector_type(given)} to {self._body.vector_type(wanted)}"
        return self._writer.value(f"arith.{op} {vector} : {kinds}")

    def combined(self, earlier: str, later: str) -> str:
        """Vectors of accumulators combined, those of earlier elements first."""
        if self._op:
            return self._writer.value(f"{self._op} {earlier}, {later} : {self.kind}")
        values = dict(zip(self._block.arguments, (earlier, later), strict=True))
        *computed, end = [o.operation for o in self._block.operations]
        for op in computed:
            self._body.apply(op, values)
        return self._body.scalar(end.operands[0], values)

    def shuffled(self, one: str, other: str, order: Sequence[int]) -> str:
        """Lanes of two vectors of accumulators, those of the second one behind the first one's."""
        return self._writer.value(
            f"vector.shuffle {one}, {other} {list(order)} : {self.kind}, {self.kind}"
        )

    def selected(self, chosen: Sequence[bool], one: str, other: str) -> str:
        """The lanes of the first vector where chosen, of the second one elsewhere."""
        if all(chosen) or one == other:
            return one
        if not any(chosen):
            return other
        lanes = self._body.vector_type("i1")
        held = ", ".join("true" if lane else "false" for lane in chosen)
        mask = self._writer.constant(f"dense<[{held}]>", lanes)
        return self._writer.value(f"arith.select {mask}, {one}, {other} : {lanes}, {self.kind}")


def _single_op(block: ir.Block) -> str:
    """The op that is all of a combiner, of two scalars of any type; empty for other ones."""
    *computed, end = [o.operation for o in block.operations]
    if len(computed) != 1 or computed[0].name not in COMBINERS:
        return ""
    (op,) = computed
    whole = set(op.operands) == set(block.arguments) and end.operands[0] == op.results[0]
    return op.name if whole else ""
