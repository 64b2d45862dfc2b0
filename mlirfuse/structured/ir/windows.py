"""Windows that slide over an image: where they are, and the padding around it."""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.structured.ir import ops


def padding(reader: ir.Operation) -> ir.Operation | None:
    """The `tensor.pad` that an op alone reads its first operand from."""
    pad = ops.defining_op(reader.operands[0])
    if pad is None or pad.name != "tensor.pad" or ops.users(pad.results[0]) != [reader]:
        return None
    return pad


def sums(op: ir.Operation, number: int) -> tuple[tuple[tuple[int, int], ...], ...] | None:
    """For each dimension of an operand the loops that it adds up; None for another form."""
    if "indexing_maps" not in op.attributes:
        return None
    found = []
    for expression in op.attributes["indexing_maps"][number].value.results:
        terms = _linear(expression)
        if terms is None:
            return None
        found.append(terms)
    return tuple(found)


def _linear(expression: ir.AffineExpr) -> tuple[tuple[int, int], ...] | None:
    """A sum of loops times positive constants."""
    if isinstance(expression, ir.AffineDimExpr):
        return ((expression.position, 1),)
    if isinstance(expression, ir.AffineConstantExpr):
        return () if expression.value == 0 else None
    if isinstance(expression, ir.AffineAddExpr):
        left, right = _linear(expression.lhs), _linear(expression.rhs)
        return None if left is None or right is None else (*left, *right)
    if isinstance(expression, ir.AffineMulExpr):
        loop, factor = expression.lhs, expression.rhs
        if isinstance(loop, ir.AffineDimExpr) and isinstance(factor, ir.AffineConstantExpr):
            return ((loop.position, factor.value),) if factor.value > 0 else None
    return None
