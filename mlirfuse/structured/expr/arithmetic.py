"""Arithmetic in expressions: products and their factors, sums, quotients, means."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterator
from typing import TypeAlias

from mlirfuse.structured.expr.comparison import same
from mlirfuse.structured.expr.expressions import define, literal, number, uncast
from mlirfuse.structured.expr.loop_domains import product
from mlirfuse.structured.expr.nodes import Apply, Expr, Loop, Reduce

MAX_PRODUCT_NODES = 64
"""Nodes of one product that `factors` visits; a norm with its casts and scales has ten."""

_MUL, _DIV, _ADD, _SUB = "arith.mulf", "arith.divf", "arith.addf", "arith.subf"


@dataclasses.dataclass(frozen=True, slots=True)
class Divisor:
    """A factor that divides."""

    expr: Expr


Factor: TypeAlias = Expr | Divisor


def factors(expr: Expr) -> Iterator[tuple[Expr, tuple[Factor, ...]]]:
    """Nodes of the product tree, each with the other factors, outer nodes first.

    `x * (r * g)` yields the product with `()`, `x` with `(r * g,)`, `r * g` with `(x,)`, `r` with
    `(g, x)`, `g` with `(r, x)`. A quotient yields its numerator with a `Divisor`. Ends after
    `MAX_PRODUCT_NODES` nodes.
    """
    waiting: collections.deque[tuple[Expr, tuple[Factor, ...]]] = collections.deque([(expr, ())])
    for _ in range(MAX_PRODUCT_NODES):
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
    """The operands of a sum in both orders; empty when the expression is no sum."""
    node = uncast(expr)
    if not isinstance(node, Apply) or node.op != _ADD:
        return []
    a, b = node.args
    return [(a, b), (b, a)]


def square_base(expr: Expr) -> Expr | None:
    """The expression whose square another one is; None where it is none."""
    node = define(expr)
    if isinstance(node, Apply) and node.op == _MUL and same(node.args[0], node.args[1]):
        return node.args[0]
    if isinstance(node, Apply) and node.op in ("math.powf", "math.fpowi"):
        return node.args[0] if number(node.args[1]) == 2 else None
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class Sum:
    """A sum over reduction loops times a constant.

    Attributes:
      arg: the addend.
      loops: the reduction loops.
      count: number of addends; None when a loop's size is dynamic.
      scale: the constant, 1 without one.
      type: element type to which `scale` was rounded; empty without a constant.
    """

    arg: Expr
    loops: tuple[Loop, ...]
    count: int | None
    scale: float
    type: str


def scaled_sum(expr: Expr) -> Sum | None:
    """Recognizes a sum with a constant factor or divisor, of the sum or of its addends."""
    node = uncast(expr)
    scale, kind = 1.0, ""
    if isinstance(node, Apply) and node.op in (_MUL, _DIV):
        taken = constant_factor(node)
        if taken is None:
            return None
        inner, scale, kind = taken
        node = uncast(inner)
    if not isinstance(node, Reduce) or node.combiner != _ADD or number(node.init) != 0:
        return None
    arg = node.arg
    inside = uncast(arg)
    if not kind and isinstance(inside, Apply) and inside.op in (_MUL, _DIV):
        taken = constant_factor(inside)
        if taken is not None:
            arg, scale, kind = taken
    return Sum(arg, node.loops, product(loop.size for loop in node.loops), scale, kind)


def constant_factor(node: Apply) -> tuple[Expr, float, str] | None:
    """The other operand of a product or quotient with a constant.

    Returns:
      The operand, the finite factor that multiplies it, and the type that the constant was rounded
      to; None without a constant.
    """
    left, right = node.args
    constant = literal(right)
    if constant is None and node.op == _MUL:
        left, constant = right, literal(left)
    if constant is None or (node.op == _DIV and constant.number == 0):
        return None
    factor = 1.0 / constant.number if node.op == _DIV else float(constant.number)
    return (left, factor, constant.type) if math.isfinite(factor) else None


def quotients(node: Apply) -> list[tuple[Expr, Expr]]:
    """Numerator and denominator of `a / b`, or of `a * (1 / b)` in either order."""
    if node.op == _DIV:
        return [(node.args[0], node.args[1])]
    found = []
    if node.op == _MUL:
        for a, b in (node.args, node.args[::-1]):
            reciprocal = uncast(b)
            if not isinstance(reciprocal, Apply) or reciprocal.op != _DIV:
                continue
            if number(reciprocal.args[0]) == 1:
                found.append((a, reciprocal.args[1]))
    return found


_PRECISION = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}


@dataclasses.dataclass(frozen=True, slots=True)
class Mean:
    """A mean over reduction loops.

    Attributes:
      arg: the addend.
      loops: the reduction loops.
      count: number of addends.
    """

    arg: Expr
    loops: tuple[Loop, ...]
    count: int


def mean(expr: Expr) -> Mean | None:
    """Recognizes a sum divided by the number of its addends, in any form.

    The forms are sum(x) / n, sum(x) * (1/n), sum(x / n) and sum(x * (1/n)). `n` must be the product
    of the reduced sizes, exactly or rounded to its own type.
    """
    total = scaled_sum(expr)
    if total is None or total.count is None:
        return None
    # One rounding of n or of 1/n is half a unit in the last place; 1.01 absorbs this division's.
    rounding = 1.01 * 2.0 ** -_PRECISION.get(total.type, 53)
    if abs(total.scale * total.count - 1.0) > rounding:
        return None
    return Mean(total.arg, total.loops, total.count)
