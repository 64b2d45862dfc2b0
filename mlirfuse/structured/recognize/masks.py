"""Attention masks as expressions that a group computes itself.

A mask is an expression (see `expressions`) of index comparisons, selects and logic, whose elements
are tensors in memory. The group reads these and computes the rest, so that no mask of the size of
the scores is written to memory. Floating-point subexpressions are f32.

`iree_linalg_ext.attention` multiplies an additive mask by log2(e) in f32. The lowest finite number
of f32 or bf16, with which PyTorch and JAX mask, becomes -inf, and a row of -inf alone gives NaN.
`bounded` keeps finite numbers finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from mlirfuse.structured.expr import reshapes
from mlirfuse.structured.expr.expressions import CASTS, type_of
from mlirfuse.structured.expr.nodes import Apply, Const, Element, Expr, Index, IndexOf
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.mask_logic import (
    FALSE,
    INTEGER_TO_FLOAT,
    LOGIC_OPS,
    MINUS_INFINITY,
    TRUE,
    both,
    combine,
    compared_numbers,
    is_minus_infinity,
    negated,
    select,
)

MAX_MASKED_SCORE = -9984.0
"""Largest finite score that a select may write for "masked": GPT-2's -10000, rounded to bf16. Such
a score has probability zero in f32 next to any score above -9880."""

FINITE_MASK_VALUE = -1e30
"""Replacement of a finite mask value. It absorbs a score when added to it in f32, so that a fully
masked row has equal probabilities, and remains finite when multiplied by log2(e)."""

MIN_MASK_VALUE = -2.3e38
"""Lowest mask value that remains finite in f32 when multiplied by log2(e), down to -2.358e38."""

MAX_MASK_NODES = 64
"""Nodes of a mask's expression; a causal mask with padding has about twenty."""

_FLOAT_ARITHMETIC = frozenset(
    {"arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.negf"}
    | {"arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf"}
)


def read(expr: Expr) -> Expr | None:
    """Expands a mask down to the tensors that a group should read from memory.

    Returns:
      The expression; None when a group cannot recompute it.
    """
    return _MaskExpansion().mask(expr)


class _MaskExpansion:
    """One expansion; `left` counts down the nodes that may still be expanded."""

    def __init__(self) -> None:
        self.left = MAX_MASK_NODES

    def mask(self, expr: Expr) -> Expr | None:
        self.left -= 1
        computed = _IndexExpansion().read(expr)
        if computed is not None:
            return computed
        if not isinstance(expr, Element):
            return self.apply(expr) if isinstance(expr, Apply) and self.left > 0 else None
        element, definition = _deepest(expr)
        if isinstance(definition, Apply) and definition.op in LOGIC_OPS and self.left > 0:
            return self.apply(definition) or element
        return element

    def apply(self, node: Apply) -> Expr | None:
        return _with_args(node, [self.mask(a) for a in node.args])


class _IndexExpansion:
    """Expands an expression of loop indices and constants alone."""

    def __init__(self) -> None:
        self.left = MAX_MASK_NODES

    def read(self, expr: Expr) -> Expr | None:
        self.left -= 1
        if self.left < 0:
            return None
        while isinstance(expr, Element):
            step = reshapes.step(expr) or _initial_value(expr)
            if step is None:
                return None
            expr = step
        if not isinstance(expr, Apply):
            return expr if isinstance(expr, Const | IndexOf) else None
        args: list[Expr | None] = []
        for arg in expr.args:
            args.append(self.read(arg))
            if args[-1] is None:
                return None
        found = _with_args(expr, args)
        return None if found is None else compared_numbers(found)


def _with_args(node: Apply, args: list[Expr | None]) -> Apply | None:
    known = tuple(a for a in args if a is not None)
    if len(known) != len(args):
        return None
    return Apply(node.op, known, node.predicate, node.type, node.owner)


def _deepest(element: Element) -> tuple[Element, Expr | None]:
    """The element under reshapes, transposes and broadcasts, and its definition."""
    while True:
        step = reshapes.step(element)
        if not isinstance(step, Element):
            return element, step
        element = step


def _initial_value(element: Element) -> Element | None:
    """The element that an initializer of the module stores in the global of this element."""
    stored = ops.initializer_value(element.value)
    return None if stored is None else Element(stored, element.index, element.cache)


def leaves(expr: Expr) -> Iterator[Element | IndexOf]:
    """The elements and loop indices in the expression."""
    if isinstance(expr, Apply):
        for arg in expr.args:
            yield from leaves(arg)
    elif isinstance(expr, Element | IndexOf):
        yield expr


def indices(expr: Expr) -> Iterator[Index]:
    """The indices on which the expression depends."""
    for leaf in leaves(expr):
        if isinstance(leaf, Element):
            yield from leaf.index
        else:
            yield leaf.index


def widen(expr: Expr) -> Expr | None:
    """The expression with f32 subexpressions; None if it is no floating-point expression."""
    kind = type_of(expr)
    if isinstance(expr, Const) and kind in _FLOATS:
        return Const(float(expr.number), "f32")
    if isinstance(expr, Apply):
        if expr.op in CASTS:
            return widen(expr.args[0])
        if expr.op == "arith.select":
            parts = [expr.args[0], widen(expr.args[1]), widen(expr.args[2])]
            return _in_f32(expr, parts)
        if expr.op in _FLOAT_ARITHMETIC:
            return _in_f32(expr, [widen(a) for a in expr.args])
        if expr.op in INTEGER_TO_FLOAT:
            return _in_f32(expr, list(expr.args))
    if kind == "f32":
        return expr
    if kind in _FLOATS and isinstance(expr, Element):
        return combine("arith.extf", expr)
    return None


_FLOATS = frozenset({"f16", "bf16", "f32"})


def _in_f32(node: Apply, args: list[Expr | None]) -> Apply | None:
    found = _with_args(node, args)
    return None if found is None else Apply(found.op, found.args, "", "f32", found.owner)


def scaled(expr: Expr, factor: float) -> Expr:
    """The f32 expression times a positive number."""
    if isinstance(expr, Const):
        return Const(expr.number * factor, "f32")
    if isinstance(expr, Apply) and expr.op == "arith.select":
        condition, a, b = expr.args
        return select(condition, scaled(a, factor), scaled(b, factor))
    return combine("arith.mulf", expr, Const(factor, "f32"))


def bounded(expr: Expr) -> Expr:
    """The f32 expression with finite values that remain finite in IREE's attention.

    Constants below `FINITE_MASK_VALUE` are replaced by it. A tensor that may have lower finite
    elements is clamped to `MIN_MASK_VALUE`, except for its -inf.
    """
    expr = _bounded_constants(expr)
    if _magnitude(expr) <= -MIN_MASK_VALUE:
        return expr
    lifted = combine("arith.maximumf", expr, Const(MIN_MASK_VALUE, "f32"))
    return select(is_minus_infinity(expr), MINUS_INFINITY, lifted)


def _bounded_constants(expr: Expr) -> Expr:
    if isinstance(expr, Const):
        return (
            expr if math.isinf(expr.number) else Const(max(expr.number, FINITE_MASK_VALUE), "f32")
        )
    if isinstance(expr, Apply) and expr.op == "arith.select":
        condition, a, b = expr.args
        return select(condition, _bounded_constants(a), _bounded_constants(b))
    return expr


def _magnitude(expr: Expr) -> float:
    """Upper bound on the magnitude of the expression's finite values; inf if unknown."""
    if isinstance(expr, Const):
        return 0.0 if math.isinf(expr.number) else abs(float(expr.number))
    if isinstance(expr, Element):
        return ops.MAX_FINITE["f16"] if type_of(expr) == "f16" else math.inf
    if isinstance(expr, Apply):
        parts = [_magnitude(a) for a in expr.args if type_of(a) in _FLOATS]
        if expr.op in ("arith.select", "arith.extf", "arith.negf"):
            return max(parts)
        if expr.op in ("arith.addf", "arith.subf"):
            return sum(parts)
        if expr.op == "arith.mulf":
            return math.prod(parts)
    return math.inf


def as_boolean(expr: Expr) -> Expr | None:
    """The i1 expression that is true where an additive mask of 0 and -inf is 0; else None."""
    if isinstance(expr, Const):
        return TRUE if expr.number == 0 else FALSE if expr.number == -math.inf else None
    if not isinstance(expr, Apply):
        return None
    if expr.op == "arith.addf":
        parts = [as_boolean(a) for a in expr.args]
        return None if None in parts else both(*(p for p in parts if p is not None))
    if expr.op != "arith.select":
        return None
    condition = expr.args[0]
    yes, no = as_boolean(expr.args[1]), as_boolean(expr.args[2])
    if yes is None or no is None:
        return None
    if yes == TRUE and no == FALSE:
        return condition
    if yes == FALSE and no == TRUE:
        return negated(condition)
    if no == FALSE:
        return both(condition, yes)
    if yes == FALSE:
        return both(negated(condition), no)
    return select(condition, yes, no)
