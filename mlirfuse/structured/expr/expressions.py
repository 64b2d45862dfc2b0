"""What a tensor element is, as a scalar expression over other tensors' elements.

A pattern in terms of expressions does not care how a frontend cut the computation into ops: one
op per arithmetic operation (PyTorch), bodies fused already (StableHLO), broadcasts written out or
folded into indexing maps, reshapes between them.

An element is a value and one index per dimension. An index is
  an int         a loop of the element that the analysis started from,
  a Loop         a reduction loop, or a loop that the start does not reach,
  Lin(parts)     several indices linearized, with their sizes (seen through a collapse),
  Part(i, ...)   one digit of an index (seen through an expand),
  None           the constant zero.
Expansion is lazy and one level at a time: asking for the definition of one element looks at one
op, once in an analysis. Every walk here is bounded, because expressions share parts: the tree of
`x = x * x` written sixty times has 2^60 leaves.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator

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
    """The element of the value at its own dimensions' loops."""
    return Element(value, tuple(range(len(ops.shape(value)))))


def define(expr: Expr) -> Expr:
    """Looks through the definition of an element until a computation, a number or a leaf.

    Broadcasts, transposes and reshapes are passed over. The result is an `Element` only when its
    value is not computed by something that this analysis understands.
    """
    while isinstance(expr, Element):
        step = step_through(expr)
        if step is None:
            return expr
        expr = step
    return expr


def uncast(expr: Expr) -> Expr:
    """Defines the expression; drops floating-point casts and decided selections on the way."""
    expr = define(expr)
    while isinstance(expr, Apply):
        if expr.op in CASTS:
            expr = define(expr.args[0])
        elif expr.op == "arith.select" and (condition := literal(expr.args[0])) is not None:
            expr = define(expr.args[1 if condition.number else 2])
        else:
            break
    return expr


def source(expr: Expr, *, whole: bool = False) -> Expr:
    """The element under casts and broadcasts, kept as an element of the tensor in memory.

    Transposes and reshapes end the walk: reading through them inside a group costs something.

    Args:
      expr: an element, or scalars above one.
      whole: the tensors are large: a rounding of what an op computes ends the walk too. That op
        rounds as it writes, and the group reads half the bytes.
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
    """Whether a cast narrows a tensor that an op computes."""
    if cast.op != "arith.truncf" or not isinstance(cast.args[0], Element):
        return False
    writer = ops.defining_op(cast.args[0].value)
    return writer is not None and writer.name.startswith("linalg.")


def type_of(expr: Expr) -> str:
    """Element type of the expression."""
    if isinstance(expr, Const | Apply):
        return expr.type
    if isinstance(expr, Element):
        return ops.element_type(expr.value)
    return "index" if isinstance(expr, IndexOf) else ""


_COMPARISONS = {predicates.OEQ: operator.eq, **predicates.ORDERED_INEQUALITIES}


def literal(expr: Expr) -> Const | None:
    """The compile-time number that the expression is, with the type that rounded it, or None."""
    expr = uncast(expr)
    if isinstance(expr, Const):
        return expr
    if isinstance(expr, Apply) and expr.op in ("arith.sitofp", "arith.uitofp"):
        inner = literal(expr.args[0])
        return None if inner is None else Const(inner.number, expr.type)
    if isinstance(expr, Apply) and expr.op == "arith.cmpf" and expr.predicate in _COMPARISONS:
        left, right = (literal(arg) for arg in expr.args)
        if left is not None and right is not None:
            return Const(_COMPARISONS[expr.predicate](left.number, right.number), expr.type)
    return None


def number(expr: Expr) -> float | int | None:
    """The compile-time number that the expression is, or None."""
    found = literal(expr)
    return None if found is None else found.number


def _leaves(expr: Expr) -> Iterator[Element | IndexOf]:
    """The elements and loop indices that an expression reads, without expanding elements."""
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
    """The starting element's dimensions that the expression depends on, read from its sources."""
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
    """The tensors whose elements the expression reads directly, without expanding them."""
    for leaf in _leaves(expr):
        if isinstance(leaf, Element):
            yield leaf.value
