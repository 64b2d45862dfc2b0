"""Biases and residuals: addends in the epilogue of a contraction."""

from __future__ import annotations

from collections.abc import Callable

from iree.compiler import ir

from mlirfuse.structured.expr.arithmetic import MAX_PRODUCT_NODES
from mlirfuse.structured.expr.expansion import step_through
from mlirfuse.structured.expr.expressions import source, start
from mlirfuse.structured.expr.nodes import Apply, Element, Expr
from mlirfuse.structured.ir import ops


def has_addend(group: list[ir.Operation], accepts: Callable[[Element], bool]) -> bool:
    """Whether the epilogue starts with an add of an accepted tensor to the contraction."""
    for op in group[1:]:
        added = addends(start(op.results[0]), group[0].results[0], frozenset(group))
        if added is None:
            return False
        if any(isinstance(a, Element) and accepts(a) for a in map(source, added)):
            return True
    return False


_ADDS = frozenset({"arith.addf", "arith.addi"})
_CASTS = frozenset({"arith.extf", "arith.truncf", "arith.extsi", "arith.trunci"})


def addends(
    expr: Expr, value: ir.Value, within: frozenset[ir.Operation] | None = None
) -> list[Expr] | None:
    """The addends that make the expression a sum with the value, up to casts.

    Args:
      expr: the sum.
      value: the value.
      within: ops that may compute the sum, besides reshapes; None for any.

    Returns:
      The addends, innermost first; None when the expression is no sum with the value.
    """
    known: dict[int, list[Expr] | None] = {}

    def walk(expr: Expr) -> list[Expr] | None:
        while isinstance(expr, Element):
            if expr.value == value:
                return []
            op = ops.defining_op(expr.value)
            if (
                within is not None
                and op not in within
                and (op is None or op.name not in ops.RESHAPES)
            ):
                return None
            step = step_through(expr)
            if step is None:
                return None
            expr = step
        if id(expr) not in known:
            known[id(expr)] = look(expr) if len(known) < MAX_PRODUCT_NODES else None
        return known[id(expr)]

    def look(expr: Expr) -> list[Expr] | None:
        if not isinstance(expr, Apply):
            return None
        if expr.op in _CASTS:
            return walk(expr.args[0])
        if expr.op not in _ADDS:
            return None
        for one, other in (expr.args, expr.args[::-1]):
            below = walk(one)
            if below is not None:
                return [*below, other]
        return None

    return walk(expr)


def is_bias(addend: Element) -> bool:
    """Whether the addend varies over one dimension, possibly expanded to several."""
    op = ops.defining_op(addend.value)
    if op is not None and op.name == "tensor.expand_shape":
        return len(ops.shape(op.operands[0])) == 1
    return len(addend.index) == 1


def is_residual(addend: Element, rank: int) -> bool:
    """Whether the addend varies over all of `rank` loops."""
    return {i for i in addend.index if isinstance(i, int)} == set(range(rank))


def biases(contraction: ir.Operation) -> list[ir.Operation]:
    """The chain of casts and biases along N after the contraction, each the only user."""
    chain: list[ir.Operation] = []
    while True:
        value = [contraction, *chain][-1].results[0]
        users = ops.users(value)
        if len(users) != 1 or users[0].block != contraction.block:
            return chain
        op = users[0]
        if not ops.is_elementwise(op) or len(op.results) != 1 or None in ops.indexing_maps(op):
            return chain
        rank = len(ops.shape(value))
        whole = tuple(range(rank))
        maps = ops.plain_maps(op)
        for operand, index_map in zip(op.operands, maps, strict=True):
            is_vector = operand != value and index_map != maps[-1]
            if index_map != ((rank - 1,) if is_vector else whole):
                return chain
        added = addends(start(op.results[0]), contraction.results[0])
        if added is None or not all(isinstance(a, Element) and is_bias(a) for a in added):
            return chain
        chain.append(op)
