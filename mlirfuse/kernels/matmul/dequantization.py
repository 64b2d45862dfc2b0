"""Recognizes the dequantization of an operand of a matmul: `(weight - zero_point) * scale`.

%w = linalg.generic { sitofp, subf, mulf } ins(%i4, %zero, %scale)    tensor<NxGxSxf16>
%y = contraction ins(%x, %w)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.matmul.analysis import MatmulAnalysis
from mlirfuse.structured.expr.expansion import step_through
from mlirfuse.structured.expr.expressions import CASTS, start
from mlirfuse.structured.expr.nodes import Apply, Const, Element, Expr
from mlirfuse.structured.ir import ops

BITS = {"i4": 4, "i8": 8}
"""Element type of a weight -> its width in bits."""


@dataclasses.dataclass(frozen=True, slots=True)
class QuantParameter:
    """Scales or zero points: a tensor with an element per channel (N), per group of K, or both.

    Attributes:
      value: the tensor; None for the constant `constant`.
      loops: loop of the contraction along each of its dimensions; None for its only element.
      constant: the same zero point everywhere.
    """

    value: ir.Value | None
    loops: tuple[int | None, ...] = ()
    constant: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class DequantizedWeights:
    """The operand B, dequantized as `(value - zero) * scale`.

    Attributes:
      value: the tensor of integers, K-contiguous.
      zero: zero points; None without.
      scale: scales; None without.
      group_size: elements of K that share a scale or zero point; 0 where all of K does.
    """

    value: ir.Value
    zero: QuantParameter | None
    scale: QuantParameter | None
    group_size: int

    @property
    def bits(self) -> int:
        """Width of a weight, in bits."""
        return BITS[ops.element_type(self.value)]


def dequantized_weights(analysis: MatmulAnalysis) -> DequantizedWeights | None:
    """How B is dequantized; None where it is computed in another way.

    A is in memory as it is, and neither operand has batch dimensions.
    """
    loops, first = analysis.loops, analysis.first
    single = len(analysis.parts) == 1 and analysis.accumulators == 1
    if not single or loops.m is None or loops.batch or analysis.accumulator_type != "f32":
        return None
    prologue, maps = {*analysis.prologue}, analysis.maps
    producer = ops.defining_op(analysis.operand(first.a))
    if producer in prologue or (producer is not None and producer.name == "tensor.extract_slice"):
        return None
    if maps[first.a] != (loops.m, *loops.k):
        return None
    order = (loops.n, *loops.k)
    found = _weights(analysis.operand(first.b), maps[first.b], prologue, order)
    if found is None:
        return None
    value, zero, scale = found
    grouped = any(p is not None and loops.k[0] in p.loops for p in (zero, scale))
    return DequantizedWeights(value, zero, scale, analysis.inner_k if grouped else 0)


def _weights(
    operand: ir.Value,
    loops: Sequence[int | None],
    prologue: set[ir.Operation],
    order: tuple[int, ...],
) -> tuple[ir.Value, QuantParameter | None, QuantParameter | None] | None:
    """The integers, zero points and scales of an operand.

    Args:
      operand: the operand.
      loops: loop of the contraction along each of its dimensions.
      prologue: the ops that compute operands.
      order: loops of N, of the groups of K and of K, in the order of the tensor in memory.
    """
    walk = _Walk(prologue, tuple(loops), frozenset(order[:-1]))
    scale = zero = None
    expr = walk.uncast(start(operand))
    if isinstance(expr, Apply) and expr.op == "arith.mulf":
        sides = [walk.parameter(side, ("f16", "bf16", "f32")) for side in expr.args]
        if (sides[0] is None) == (sides[1] is None):
            return None
        scale = sides[0] or sides[1]
        expr = walk.uncast(expr.args[sides.index(None)])
    if isinstance(expr, Apply) and expr.op == "arith.subf":
        zero = walk.zero_point(expr.args[1])
        if zero is None:
            return None
        expr = walk.uncast(expr.args[0])
    if not isinstance(expr, Apply) or expr.op != "arith.sitofp":
        return None
    expr = walk.settled(expr.args[0])
    if isinstance(expr, Apply) and expr.op == "arith.subi" and zero is None:
        zero = walk.zero_point(expr.args[1])
        if zero is None:
            return None
        expr = walk.settled(expr.args[0])
    expr = walk.unextended(expr)
    if not isinstance(expr, Element) or ops.element_type(expr.value) not in BITS:
        return None
    if walk.loops_of(expr) != order:
        return None
    return expr.value, zero, scale


class _Walk:
    """Looks through the ops of a prologue, and not further."""

    def __init__(
        self, prologue: set[ir.Operation], loops: tuple[int | None, ...], allowed: frozenset[int]
    ) -> None:
        self.prologue = prologue
        self.loops = loops
        self.allowed = allowed

    def settled(self, expr: Expr) -> Expr:
        """The expression of an element, as far as the prologue computes it."""
        while isinstance(expr, Element) and ops.defining_op(expr.value) in self.prologue:
            inner = step_through(expr)
            if inner is None:
                break
            expr = inner
        return expr

    def uncast(self, expr: Expr) -> Expr:
        """The same without floating-point casts."""
        expr = self.settled(expr)
        while isinstance(expr, Apply) and expr.op in CASTS:
            expr = self.settled(expr.args[0])
        return expr

    def unextended(self, expr: Expr) -> Expr:
        """The same without sign extensions."""
        while isinstance(expr, Apply) and expr.op == "arith.extsi":
            expr = self.settled(expr.args[0])
        return expr

    def loops_of(self, element: Element) -> tuple[int | None, ...] | None:
        """The contraction's loop along each dimension; None where an index is not a loop."""
        if any(i is not None and not isinstance(i, int) for i in element.index):
            return None
        return tuple(self.loops[i] if isinstance(i, int) else None for i in element.index)

    def parameter(self, expr: Expr, kinds: Sequence[str]) -> QuantParameter | None:
        """A tensor from outside of these element types, along N and groups of K."""
        expr = self.uncast(expr)
        if not isinstance(expr, Element) or ops.element_type(expr.value) not in kinds:
            return None
        if ops.defining_op(expr.value) in self.prologue:
            return None
        loops = self.loops_of(expr)
        if loops is None or not self.allowed.issuperset(n for n in loops if n is not None):
            return None
        return QuantParameter(expr.value, loops)

    def zero_point(self, expr: Expr) -> QuantParameter | None:
        """Integers from outside, or an integral constant."""
        expr = self.uncast(expr)
        if isinstance(expr, Apply) and expr.op == "arith.sitofp":
            expr = self.settled(expr.args[0])
        expr = self.unextended(expr)
        if isinstance(expr, Const):
            integral = float(expr.number).is_integer()
            return QuantParameter(None, constant=int(expr.number)) if integral else None
        return self.parameter(expr, tuple(BITS))
