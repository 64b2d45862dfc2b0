"""Strided accesses of convolutions and poolings, and the padding of their image."""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.structured.ir import ops


def sole_padding(user: ir.Operation) -> ir.Operation | None:
    """The `tensor.pad` that produces the first operand of an op and has no other user."""
    pad = ops.defining_op(user.operands[0])
    if pad is None or pad.name != "tensor.pad" or ops.users(pad.results[0]) != [user]:
        return None
    return pad


StridedDim = tuple[tuple[int, int], ...]
"""Loops and their strides whose sum indexes a dimension, e.g. `2 * d1 + d4` as ((1, 2), (4, 1))."""


def strided_loops(op: ir.Operation, operand: int) -> tuple[StridedDim, ...] | None:
    """For each dimension of an operand, the loops that index it; None for any other access."""
    if "indexing_maps" not in op.attributes:
        return None
    found = []
    for expression in op.attributes["indexing_maps"][operand].value.results:
        terms = strided_dim(expression)
        if terms is None:
            return None
        found.append(terms)
    return tuple(found)


def strided_dim(expression: ir.AffineExpr) -> StridedDim | None:
    """A sum of loops times positive constant strides."""
    if isinstance(expression, ir.AffineDimExpr):
        return ((expression.position, 1),)
    if isinstance(expression, ir.AffineConstantExpr):
        return () if expression.value == 0 else None
    if isinstance(expression, ir.AffineAddExpr):
        left, right = strided_dim(expression.lhs), strided_dim(expression.rhs)
        return None if left is None or right is None else (*left, *right)
    if isinstance(expression, ir.AffineMulExpr):
        loop, stride = expression.lhs, expression.rhs
        if isinstance(loop, ir.AffineDimExpr) and isinstance(stride, ir.AffineConstantExpr):
            return ((loop.position, stride.value),) if stride.value > 0 else None
    return None
