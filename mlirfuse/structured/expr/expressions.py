"""Tensor elements as scalar expressions of other tensors' elements.

A pattern on expressions is independent of how a frontend divides a computation into ops: one op per
arithmetic operation (PyTorch), fused bodies (StableHLO), explicit broadcasts or broadcasts in
indexing maps, reshapes in between.

An element is a value and one index per dimension. An index is
  an int         a loop of the element that the analysis started from,
  a Loop         a reduction loop, or another loop that the starting element does not determine,
  Lin(parts)     several indices linearized, with their sizes (through a collapse),
  Part(i, ...)   one digit of an index (through an expand),
  None           the constant zero.
Expansion is lazy: the definition of one element inspects one op, once per analysis. Every walk is
bounded, because expressions share subexpressions: the tree of `x = x * x` repeated sixty times has
2^60 leaves.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator

from iree.compiler import ir

from mlirfuse.structured.expr import predicates
from mlirfuse.structured.expr.expansion import step_through
from mlirfuse.structured.expr.nodes import (
    Apply,
    Const,
    Element,
    Expr,
    Index,
    IndexOf,
    Reduce,
    base_loops,
)
from mlirfuse.structured.ir import ops

CASTS = frozenset({"arith.extf", "arith.truncf"})


def start(value: ir.Value) -> Element:
    """The element of the value whose indices are its own dimensions."""
    return Element(value, tuple(range(len(ops.shape(value)))))


def define(expr: Expr) -> Expr:
    """Expands an element to a computation, a constant or a leaf.

    Skips broadcasts, transposes and reshapes. The result is an `Element` only when the analysis
    does not understand the op that defines its value.
    """
    while isinstance(expr, Element):
        step = step_through(expr)
        if step is None:
            return expr
        expr = step
    return expr


def uncast(expr: Expr) -> Expr:
    """Expands the expression; drops floating-point casts and selects on known conditions."""
    expr = define(expr)
    while isinstance(expr, Apply):
        if expr.op in CASTS:
            expr = define(expr.args[0])
        elif expr.op == "arith.select" and (condition := literal(expr.args[0])) is not None:
            expr = define(expr.args[1 if condition.number else 2])
        else:
            break
    return expr


def under_casts_and_selects(
    expr: Expr,
    step: Callable[[Element], Expr | None],
    kept_operand: Callable[[Apply], int | None],
) -> Element | Apply | None:
    """The expression under floating-point casts and under some selects.

    Args:
      expr: the outermost expression.
      step: the definition of an element; the element itself where the walk ends at it, None where
        it fails.
      kept_operand: index of the operand of a select that the walk continues with; None where it
        ends at the select. It is called once for each select, from the outermost one.

    Returns:
      The element or operation at which the walk ends; None where it fails.
    """
    while True:
        if isinstance(expr, Element):
            inner = step(expr)
            if inner is expr:
                return expr
            if inner is None:
                return None
            expr = inner
        elif not isinstance(expr, Apply):
            return None
        elif expr.op in CASTS:
            expr = expr.args[0]
        elif expr.op == "arith.select" and (kept := kept_operand(expr)) is not None:
            expr = expr.args[kept]
        else:
            return expr


def source(expr: Expr, *, whole: bool = False) -> Expr:
    """The element of a tensor in memory under casts and broadcasts.

    The walk ends at transposes and reshapes, since a group does not read through them for free.

    Args:
      expr: an element, or casts of one.
      whole: whether the tensors are large; then the walk also ends at a truncation of a computed
        tensor. Its producer truncates as it writes, and the group reads half the bytes.
    """
    while True:
        step = step_through(expr) if isinstance(expr, Element) else expr
        if isinstance(step, Apply) and step.op in CASTS:
            if whole and _rounds_computed(step):
                return expr
            expr = step.args[0]
        elif isinstance(expr, Element) and isinstance(step, Element):
            rest = iter(expr.index)
            if not all(i in rest for i in step.index if i is not None):
                return expr
            expr = step
        else:
            return expr


def _rounds_computed(cast: Apply) -> bool:
    """Whether a cast truncates a tensor that a linalg op computes."""
    if cast.op != "arith.truncf" or not isinstance(cast.args[0], Element):
        return False
    producer = ops.defining_op(cast.args[0].value)
    return producer is not None and producer.name.startswith("linalg.")


def type_of(expr: Expr) -> str:
    """Element type of the expression."""
    if isinstance(expr, Const | Apply):
        return expr.type
    if isinstance(expr, Element):
        return ops.element_type(expr.value)
    return "index" if isinstance(expr, IndexOf) else ""


_COMPARISONS = {
    "arith.cmpf": {predicates.OEQ: operator.eq, **predicates.ORDERED_INEQUALITIES},
    "arith.cmpi": predicates.SIGNED,
}
"""Name of a comparison -> its predicates, as functions of numbers."""


def literal(expr: Expr) -> Const | None:
    """The compile-time number that the expression equals, with its element type; else None."""
    expr = uncast(expr)
    if isinstance(expr, Const):
        return expr
    if isinstance(expr, Apply) and expr.op in ("arith.sitofp", "arith.uitofp"):
        inner = literal(expr.args[0])
        return None if inner is None else Const(inner.number, expr.type)
    if isinstance(expr, Apply) and expr.predicate in _COMPARISONS.get(expr.op, {}):
        left, right = (literal(arg) for arg in expr.args)
        if left is not None and right is not None:
            compare = _COMPARISONS[expr.op][expr.predicate]
            return Const(compare(left.number, right.number), expr.type)
    return None


def number(expr: Expr) -> float | int | None:
    """The compile-time number that the expression equals; else None."""
    found = literal(expr)
    return None if found is None else found.number


def _leaves(expr: Expr) -> Iterator[Element | IndexOf]:
    """The elements and loop indices in an expression, without expanding elements."""
    seen: set[int] = set()
    work = [expr]
    while work:
        node = work.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Apply):
            work += reversed(node.args)
        elif isinstance(node, Reduce):
            work.append(node.arg)
        elif isinstance(node, Element | IndexOf):
            yield node


def loops(expr: Expr) -> set[int]:
    """The dimensions of the starting element on which the sources of the expression depend."""
    found: set[int] = set()
    for leaf in _leaves(source(expr)):
        end = source(leaf)
        if isinstance(end, Element):
            found.update(_start_loops(*end.index))
        elif isinstance(end, IndexOf):
            found.update(_start_loops(end.index))
        elif not isinstance(end, Const):
            found |= loops(end)
    return found


def _start_loops(*indices: Index) -> Iterator[int]:
    for index in indices:
        yield from (base for base in base_loops(index) if isinstance(base, int))


def tensors(expr: Expr) -> Iterator[ir.Value]:
    """The tensors with elements in the expression, without expanding them."""
    for leaf in _leaves(expr):
        if isinstance(leaf, Element):
            yield leaf.value
