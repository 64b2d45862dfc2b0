"""Construction of mask expressions, with constants folded and conditions simplified."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from iree.compiler import ir

from mlirfuse.structured.expr import predicates
from mlirfuse.structured.expr.expressions import type_of
from mlirfuse.structured.expr.nodes import Apply, Const, Element, Expr

TRUE = Const(1, "i1")
FALSE = Const(0, "i1")
MINUS_INFINITY = Const(-math.inf, "f32")

LOGIC_OPS = frozenset({"arith.andi", "arith.ori", "arith.xori", "arith.select"})
INTEGER_TO_FLOAT = frozenset({"arith.sitofp", "arith.uitofp"})

_EQUALITIES: dict[tuple[str, str], Callable[..., Any]] = {
    ("arith.cmpf", predicates.OEQ): operator.eq,
    ("arith.cmpf", predicates.UNE): operator.ne,
    ("arith.cmpi", predicates.EQ): operator.eq,
    ("arith.cmpi", predicates.NE): operator.ne,
}
"""Comparisons of numbers, of which none is a NaN: its op and predicate."""

_FOLDED: dict[str, Callable[..., Any]] = {
    "arith.addf": operator.add,
    "arith.mulf": operator.mul,
    "arith.negf": operator.neg,
    "arith.maximumf": max,
    "arith.andi": operator.and_,
    "arith.xori": operator.xor,
}


def combine(op: str, *args: Expr, predicate: str = "", type_: str = "f32") -> Expr:
    """A scalar op on expressions, folded to a constant if they are constants."""
    owner = next((o for o in map(_owner, args) if o is not None), None)
    if owner is None:
        return Const(_FOLDED[op](*(a.number for a in args if isinstance(a, Const))), type_)
    return Apply(op, args, predicate, type_, owner)


def select(condition: Expr, a: Expr, b: Expr) -> Expr:
    """`a` where the condition holds, else `b`."""
    if isinstance(condition, Const):
        return a if condition.number else b
    return combine("arith.select", condition, a, b, type_=type_of(a))


def is_minus_infinity(expr: Expr) -> Expr:
    """Whether the f32 expression is -inf, as an i1 expression."""
    if isinstance(expr, Const):
        return TRUE if expr.number == -math.inf else FALSE
    return combine("arith.cmpf", expr, MINUS_INFINITY, predicate=predicates.OEQ, type_="i1")


def may_be_minus_infinity(expr: Expr) -> bool:
    """Whether the f32 expression can be -inf."""
    if isinstance(expr, Const):
        return expr.number == -math.inf
    if isinstance(expr, Apply) and expr.op == "arith.select":
        return any(may_be_minus_infinity(a) for a in expr.args[1:])
    return not (isinstance(expr, Apply) and expr.op in INTEGER_TO_FLOAT)


def negated(condition: Expr) -> Expr:
    """The negation of an i1 expression."""
    if isinstance(condition, Apply) and condition.op == "arith.xori" and TRUE in condition.args:
        return condition.args[0] if condition.args[1] == TRUE else condition.args[1]
    return combine("arith.xori", condition, TRUE, type_="i1")


def both(a: Expr, b: Expr) -> Expr:
    """The conjunction of two i1 expressions."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Const):
            return other if one.number else FALSE
    return combine("arith.andi", a, b, type_="i1")


def compared_numbers(node: Apply) -> Expr:
    """A comparison of a number with either of two as the condition that selects these.

    `select(c, 1.0, 0.0) == 0.0` is `not c`; any other expression is returned as it is.
    """
    known = _EQUALITIES.get((node.op, node.predicate))
    if known is None or len(node.args) != 2:
        return node
    for one, other in (node.args, node.args[::-1]):
        if not isinstance(one, Apply) or one.op != "arith.select" or not isinstance(other, Const):
            continue
        condition, yes, no = one.args
        if isinstance(yes, Const) and isinstance(no, Const):
            found = [bool(known(each.number, other.number)) for each in (yes, no)]
            if found[0] == found[1]:
                return TRUE if found[0] else FALSE
            return condition if found[0] else negated(condition)
    return node


def _owner(expr: Expr) -> ir.Operation | None:
    """The op that owns the expression: of a block argument the op around its block."""
    if isinstance(expr, Apply):
        return expr.owner
    if not isinstance(expr, Element):
        return None
    owner = expr.value.owner
    return owner.owner.operation if isinstance(owner, ir.Block) else owner.operation
