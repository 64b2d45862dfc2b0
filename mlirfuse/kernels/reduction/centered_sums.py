"""Finds sums around a value of rows that the pass over the columns for this value gives, too.

    s = sum(x)                             m = max(x)
    m = s / n
    q = sum((x - m) * (x - m))             q = sum(exp(x - m))

By its operands `q` waits for `m`, and reads the columns again. For any center c the sum of
(x - c)^2 is the sum of squares around the mean of x plus n (mean - c)^2, of which no part is
negative: nothing cancels, and `m` may be rounded, or scaled by 1 / (n - 1). The sum of exp(x - c)
is exp(d - c) times that of exp(x - d), for any d.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.kernels.reduction.analysis import ReductionAnalysis
from mlirfuse.kernels.reduction.body_values import BodyValue, body_value, value_of_rows
from mlirfuse.structured.expr.arithmetic import scaled_sum, square_base
from mlirfuse.structured.expr.comparison import Binding, same
from mlirfuse.structured.expr.expressions import define, start
from mlirfuse.structured.expr.nodes import Apply, Index, Reduce
from mlirfuse.structured.ir import ops


@dataclasses.dataclass(frozen=True, slots=True)
class CenteredSum:
    """A sum over the columns of the squares or exponentials of differences from a value of rows.

    Attributes:
      value: the minuend of the differences.
      center: their subtrahend.
      squared: whether the terms are squares, and the center is a mean; else they are exponentials.
    """

    value: BodyValue
    center: BodyValue
    squared: bool

    @property
    def of_columns(self) -> tuple[BodyValue, ...]:
        """The values that the pass over the columns reads."""
        return (self.value,)


def centered_sum(analysis: ReductionAnalysis, op: ir.Operation) -> CenteredSum | None:
    """Reads a reduction as such a sum; None for another one.

    The mean of squares is that of the same values over the same columns, so that an infinity or a
    NaN among them makes the sum NaN; it may have any positive scale.
    """
    total = define(start(op.results[0]))
    if not isinstance(total, Reduce) or total.combiner != "arith.addf" or total.owner != op:
        return None
    base = square_base(total.arg)
    squared = base is not None
    if base is None:
        power = define(total.arg)
        if not isinstance(power, Apply) or power.op != "math.exp":
            return None
        base = power.args[0]
    difference = define(base)
    if not isinstance(difference, Apply) or difference.op != "arith.subf":
        return None
    if squared and not _is_from_mean(difference, total):
        return None
    return _at(analysis, op, difference.owner, squared)


def _is_from_mean(difference: Apply, total: Reduce) -> bool:
    """Whether the subtrahend of a difference is the mean of the minuends that a sum runs over."""
    average = scaled_sum(difference.args[1])
    if average is None or average.scale <= 0.0:
        return False
    binding: Binding = {}
    columns: set[Index] = {*total.loops}
    if not same(average.arg, difference.args[0], binding):
        return False
    return {binding.get(loop) for loop in average.loops} == columns


def _at(
    analysis: ReductionAnalysis, op: ir.Operation, owner: ir.Operation, squared: bool
) -> CenteredSum | None:
    """The operands of the one difference in an op's body, where kernels can compute them apart."""
    if owner not in analysis.loops or ops.element_type(op.results[0]) != "f32":
        return None
    inner = [o.operation for o in ops.body(owner).operations if o.operation.name == "arith.subf"]
    if len(inner) != 1:
        return None
    minuend, subtrahend = inner[0].operands
    value, center = body_value(owner, minuend), value_of_rows(analysis, owner, subtrahend)
    return None if value is None or center is None else CenteredSum(value, center, squared)
