"""Shapes of arithmetic in expressions: products and their factors, sums, means."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator
from typing import TypeAlias

from mlirfuse.structured.expr.expressions import literal, number, uncast
from mlirfuse.structured.expr.nodes import Apply, Expr, Loop, Reduce

PRODUCT_NODES = 64
"""Nodes of one product that `factors` visits; a norm with all its casts and scales has ten."""

_MUL, _DIV, _ADD, _SUB = "arith.mulf", "arith.divf", "arith.addf", "arith.subf"


@dataclasses.dataclass(frozen=True, slots=True)
class Divisor:
    """A factor that divides."""

    expr: Expr


Factor: TypeAlias = Expr | Divisor


def factors(expr: Expr) -> Iterator[tuple[Expr, tuple[Factor, ...]]]:
    """Nodes of the product tree with the factors beside them, outer nodes first.

    `x * (r * g)` gives the product with nothing beside it, `x` with `(r * g,)`, `r * g` with
    `(x,)`, `r` with `(g, x)`, `g` with `(r, x)`. A quotient gives its numerator with a `Divisor`.
    Ends after `PRODUCT_NODES` nodes.
    """
    waiting: collections.deque[tuple[Expr, tuple[Factor, ...]]] = collections.deque([(expr, ())])
    for _ in range(PRODUCT_NODES):
        if not waiting:
            return
        inner, others = waiting.popleft()
        yield inner, others
        node = uncast(inner)
        if isinstance(node, Apply) and node.op == _MUL:
            left, right = node.args
            waiting += [(left, (right, *others)), (right, (left, *others))]
        elif isinstance(node, Apply) and node.op == _DIV:
            waiting.append((node.args[0], (Divisor(node.args[1]), *others)))


def addends(expr: Expr) -> list[tuple[Expr, Expr]]:
    """The two orders of a sum's operands; empty when the expression is no sum."""
    node = uncast(expr)
    if not isinstance(node, Apply) or node.op != _ADD:
        return []
    a, b = node.args
    return [(a, b), (b, a)]


@dataclasses.dataclass(frozen=True, slots=True)
class Sum:
    """A sum along reduction loops times a number: what is summed, along which loops.

    Attributes:
      count: how many elements are summed; None when a loop's size is not static.
      scale: the number, 1 when there is none.
      type: the type that `scale` was rounded to.
    """

    arg: Expr
    loops: tuple[Loop, ...]
    count: int | None
    scale: float
    type: str


def scaled_sum(expr: Expr) -> Sum | None:
    """Recognizes a sum with a constant factor or divisor, outside or inside the sum."""
    node = uncast(expr)
    scale, kind = 1.0, ""
    if isinstance(node, Apply) and node.op in (_MUL, _DIV):
        taken = _scaled(node)
        if taken is None:
            return None
        inner, scale, kind = taken
        node = uncast(inner)
    if not isinstance(node, Reduce) or node.combiner != _ADD or number(node.init) != 0:
        return None
    arg = node.arg
    inside = uncast(arg)
    if not kind and isinstance(inside, Apply) and inside.op in (_MUL, _DIV):
        taken = _scaled(inside)
        if taken is not None:
            arg, scale, kind = taken
    count: int | None = 1
    for loop in node.loops:
        count = None if count is None or loop.size is None else count * loop.size
    return Sum(arg, node.loops, count, scale, kind)


def _scaled(node: Apply) -> tuple[Expr, float, str] | None:
    left, right = node.args
    by = literal(right)
    if by is not None and node.op == _DIV:
        return (left, 1.0 / by.number, by.type) if by.number else None
    if by is None and node.op == _MUL:
        left, by = right, literal(left)
    return None if by is None else (left, float(by.number), by.type)


_PRECISION = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}


@dataclasses.dataclass(frozen=True, slots=True)
class Mean:
    """A mean along reduction loops: of what, along which, over how many elements."""

    arg: Expr
    loops: tuple[Loop, ...]
    count: int


def mean(expr: Expr) -> Mean | None:
    """Recognizes a sum divided by the number of its elements, however it is written.

    sum(x) / n, sum(x) * (1/n), sum(x / n), sum(x * (1/n)). The number must be the product of the
    reduced sizes, exactly or rounded to its own type.
    """
    total = scaled_sum(expr)
    if total is None or total.count is None:
        return None
    # One rounding of n or of 1/n is half a unit in the last place; 1.01 absorbs this division's.
    rounding = 1.01 * 2.0 ** -_PRECISION.get(total.type, 53)
    if abs(total.scale * total.count - 1.0) > rounding:
        return None
    return Mean(total.arg, total.loops, total.count)
