"""What an attention mask is, as an expression that a group can compute for itself.

A mask is an expression (see `expressions`) whose elements are tensors in memory: what is worth
reading from there is left to be read, and index comparisons, selects and logic are taken apart, so
that no mask of the size of the scores is written out. Floating-point parts are f32.

The numbers count. `iree_linalg_ext.attention` multiplies an additive mask by log2(e) in f32, so
that the lowest finite number of f32 or bf16, which PyTorch and JAX use to mask, becomes -inf; and
a row that is -inf throughout comes out as NaN. `bounded` keeps finite numbers finite.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from iree.compiler import ir

from mlirfuse.structured.expr import reshapes
from mlirfuse.structured.expr.expressions import (
    Apply,
    Const,
    Element,
    Expr,
    Index,
    IndexOf,
    Lin,
    Loop,
    Part,
)
from mlirfuse.structured.expr.loop_domains import Base, SizeOf, product
from mlirfuse.structured.ir import ops

MASKING = -1e4
"""Largest finite score that stands for "masked" when a select writes it: what GPT-2 used. A score
that low has probability zero in f32 beside any score above -9896."""

MASKED = -1e30
"""What a finite mask value becomes: it swallows a score when added to it in f32, so that a row
that is masked throughout has equal probabilities, and stays finite when multiplied by log2(e)."""

LOWEST = -2.3e38
"""Lowest number that stays finite in f32 when multiplied by log2(e); the bound is -2.358e38."""

EXPANDED_NODES = 64
"""Nodes of a mask's expression; a causal mask with padding has about twenty."""

_LOGIC = frozenset({"arith.andi", "arith.ori", "arith.xori", "arith.select"})
_FLOAT_ARITHMETIC = frozenset(
    {"arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.negf"}
    | {"arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf"}
)
_CASTS = frozenset({"arith.extf", "arith.truncf"})
_FROM_INTEGER = frozenset({"arith.sitofp", "arith.uitofp"})

TRUE = Const(1, "i1")
FALSE = Const(0, "i1")
MINUS_INFINITY = Const(-math.inf, "f32")


def type_of(expr: Expr) -> str:
    """Element type of the expression."""
    if isinstance(expr, Const | Apply):
        return expr.type
    if isinstance(expr, Element):
        return ops.element_type(expr.value)
    return "index" if isinstance(expr, IndexOf) else ""


# --- reading -------------------------------------------------------------------------------------


def read(expr: Expr) -> Expr | None:
    """The expression down to the tensors that are worth reading from memory.

    Returns:
      None when it is made of something that cannot be computed again elsewhere.
    """
    return _Reader().mask(expr)


class _Reader:
    """One reading; `left` counts down the nodes that may still be taken apart."""

    def __init__(self) -> None:
        self.left = EXPANDED_NODES

    def mask(self, expr: Expr) -> Expr | None:
        self.left -= 1
        computed = _IndexReader().read(expr)
        if computed is not None:
            return computed
        if not isinstance(expr, Element):
            return self.apply(expr) if isinstance(expr, Apply) and self.left > 0 else None
        element, definition = _deepest(expr)
        if isinstance(definition, Apply) and definition.op in _LOGIC and self.left > 0:
            return self.apply(definition) or element
        return element

    def apply(self, node: Apply) -> Expr | None:
        return _with_args(node, [self.mask(a) for a in node.args])


class _IndexReader:
    """Reads an expression that depends on loop indices and constants alone."""

    def __init__(self) -> None:
        self.left = EXPANDED_NODES

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
        return _with_args(expr, args)


def _with_args(node: Apply, args: list[Expr | None]) -> Apply | None:
    known = tuple(a for a in args if a is not None)
    if len(known) != len(args):
        return None
    return Apply(node.op, known, node.predicate, node.type, node.owner)


def _deepest(element: Element) -> tuple[Element, Expr | None]:
    """The element behind reshapes, transposes and broadcasts, and what computes it."""
    while True:
        step = reshapes.step(element)
        if not isinstance(step, Element):
            return element, step
        element = step


def _initial_value(element: Element) -> Element | None:
    """What an initializer of the module stores in the global that the element is loaded from."""
    stored = ops.initializer_value(element.value)
    return None if stored is None else Element(stored, element.index, element.memo)


def leaves(expr: Expr) -> Iterator[Element | IndexOf]:
    """The elements and loop indices that the expression is made of."""
    if isinstance(expr, Apply):
        for arg in expr.args:
            yield from leaves(arg)
    elif isinstance(expr, Element | IndexOf):
        yield expr


def indices(expr: Expr) -> Iterator[Index]:
    """The indices that the expression depends on."""
    for leaf in leaves(expr):
        if isinstance(leaf, Element):
            yield from leaf.index
        else:
            yield leaf.index


# --- floating-point parts -------------------------------------------------------------------------


def widen(expr: Expr) -> Expr | None:
    """The expression with its floating-point parts in f32; None when it is not of floats."""
    kind = type_of(expr)
    if isinstance(expr, Const) and kind in _FLOATS:
        return Const(float(expr.number), "f32")
    if isinstance(expr, Apply):
        if expr.op in _CASTS:
            return widen(expr.args[0])
        if expr.op == "arith.select":
            parts = [expr.args[0], widen(expr.args[1]), widen(expr.args[2])]
            return _in_f32(expr, parts)
        if expr.op in _FLOAT_ARITHMETIC:
            return _in_f32(expr, [widen(a) for a in expr.args])
        if expr.op in _FROM_INTEGER:
            return _in_f32(expr, list(expr.args))
    if kind == "f32":
        return expr
    if kind in _FLOATS and isinstance(expr, Element):
        return Apply("arith.extf", (expr,), "", "f32", _owner(expr))
    return None


_FLOATS = frozenset({"f16", "bf16", "f32"})


def _in_f32(node: Apply, args: list[Expr | None]) -> Apply | None:
    found = _with_args(node, args)
    return None if found is None else Apply(found.op, found.args, "", "f32", found.owner)


def _owner(element: Element) -> ir.Operation:
    owner = element.value.owner
    return owner.owner.operation if isinstance(owner, ir.Block) else owner.operation


def scaled(expr: Expr, factor: float) -> Expr:
    """The f32 expression times a positive number."""
    if isinstance(expr, Const):
        return Const(expr.number * factor, "f32")
    if isinstance(expr, Apply) and expr.op == "arith.select":
        condition, a, b = expr.args
        return select(condition, scaled(a, factor), scaled(b, factor))
    return combine("arith.mulf", expr, Const(factor, "f32"))


_FOLDED: dict[str, Callable[..., Any]] = {
    "arith.addf": operator.add,
    "arith.mulf": operator.mul,
    "arith.negf": operator.neg,
    "arith.maximumf": max,
    "arith.andi": operator.and_,
    "arith.xori": operator.xor,
}


def combine(op: str, *args: Expr, predicate: str = "", type_: str = "f32") -> Expr:
    """A scalar op on expressions, or the number that it gives when they are numbers."""
    owner = next((o for o in map(_owner_of, args) if o is not None), None)
    if owner is None:
        return Const(_FOLDED[op](*(a.number for a in args if isinstance(a, Const))), type_)
    return Apply(op, args, predicate, type_, owner)


def select(condition: Expr, a: Expr, b: Expr) -> Expr:
    """`a` where the condition holds, else `b`."""
    if isinstance(condition, Const):
        return a if condition.number else b
    return combine("arith.select", condition, a, b, type_=type_of(a))


def bounded(expr: Expr) -> Expr:
    """The f32 expression with finite numbers no lower than what the target's arithmetic can take.

    Constants below `MASKED` become it; a tensor that may hold lower numbers is limited to `LOWEST`,
    its -inf left as they are.
    """
    expr = _bounded_constants(expr)
    if _magnitude(expr) <= -LOWEST:
        return expr
    lifted = combine("arith.maximumf", expr, Const(LOWEST, "f32"))
    return select(is_minus_infinity(expr), MINUS_INFINITY, lifted)


def _bounded_constants(expr: Expr) -> Expr:
    if isinstance(expr, Const):
        return expr if math.isinf(expr.number) else Const(max(expr.number, MASKED), "f32")
    if isinstance(expr, Apply) and expr.op == "arith.select":
        condition, a, b = expr.args
        return select(condition, _bounded_constants(a), _bounded_constants(b))
    return expr


def _magnitude(expr: Expr) -> float:
    """The largest finite magnitude that the expression can have; inf when it is not known."""
    if isinstance(expr, Const):
        return 0.0 if math.isinf(expr.number) else abs(float(expr.number))
    if isinstance(expr, Element):
        return F16_LARGEST if type_of(expr) == "f16" else math.inf
    if isinstance(expr, Apply):
        parts = [_magnitude(a) for a in expr.args if type_of(a) in _FLOATS]
        if expr.op in ("arith.select", "arith.extf", "arith.negf"):
            return max(parts)
        if expr.op in ("arith.addf", "arith.subf"):
            return sum(parts)
        if expr.op == "arith.mulf":
            return math.prod(parts)
    return math.inf


F16_LARGEST = 65504.0
"""The largest finite number of f16."""

_OEQ = "1 : i64"


def is_minus_infinity(expr: Expr) -> Expr:
    """Whether the f32 expression is -inf, as an i1 expression."""
    if isinstance(expr, Const):
        return TRUE if expr.number == -math.inf else FALSE
    return combine("arith.cmpf", expr, MINUS_INFINITY, predicate=_OEQ, type_="i1")


def may_be_minus_infinity(expr: Expr) -> bool:
    """Whether the f32 expression can be -inf."""
    if isinstance(expr, Const):
        return expr.number == -math.inf
    if isinstance(expr, Apply) and expr.op == "arith.select":
        return any(may_be_minus_infinity(a) for a in expr.args[1:])
    return not (isinstance(expr, Apply) and expr.op in _FROM_INTEGER)


# --- what is known at compile time ----------------------------------------------------------------


def settled(expr: Expr, size_of: SizeOf) -> Expr:
    """The expression without the comparisons of indices that come out one way for all of them.

    `transformers` masks by `position >= 0` where nothing is to be masked.

    Args:
      expr: a mask.
      size_of: trip counts.
    """
    if not isinstance(expr, Apply):
        return expr
    if expr.op == "arith.cmpi":
        decided = _decided(expr, size_of)
        return expr if decided is None else TRUE if decided else FALSE
    if expr.op == "arith.select":
        condition, a, b = (settled(arg, size_of) for arg in expr.args)
        return select(condition, a, b)
    if expr.type != "i1" or expr.op not in _LOGIC:
        return expr
    a, b = (settled(arg, size_of) for arg in expr.args)
    if expr.op == "arith.andi":
        return _both(a, b)
    if expr.op == "arith.ori":
        return negated(_both(negated(a), negated(b))) if _one_is_known(a, b) else expr
    return expr


def _one_is_known(a: Expr, b: Expr) -> bool:
    return isinstance(a, Const) or isinstance(b, Const)


def _decided(comparison: Apply, size_of: SizeOf) -> bool | None:
    """What a comparison of integers says wherever it is computed; None when that differs."""
    a, b = (_range(arg, size_of) for arg in comparison.args)
    if a is None or b is None:
        return None
    always = {
        "2": (a[1] < b[0], a[0] >= b[1]),
        "3": (a[1] <= b[0], a[0] > b[1]),
        "4": (a[0] > b[1], a[1] <= b[0]),
        "5": (a[0] >= b[1], a[1] < b[0]),
    }.get(comparison.predicate.partition(" ")[0])
    if always is None or True not in always:
        return None
    return always[0]


def _range(expr: Expr, size_of: SizeOf) -> tuple[float, float] | None:
    """The least and the largest value of an integer expression; None when it is not known."""
    if isinstance(expr, Const):
        return expr.number, expr.number
    if isinstance(expr, IndexOf):
        size = _extent(expr.index, size_of)
        return 0, math.inf if size is None else size - 1
    if not isinstance(expr, Apply):
        return None
    parts = [_range(arg, size_of) for arg in expr.args]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if expr.op in ("arith.index_cast", "arith.extsi"):
        return known[0]
    if expr.op == "arith.addi":
        return known[0][0] + known[1][0], known[0][1] + known[1][1]
    if expr.op == "arith.subi":
        return known[0][0] - known[1][1], known[0][1] - known[1][0]
    return None


def _extent(index: Index, size_of: SizeOf) -> int | None:
    """How many values an index has; None when that is dynamic."""
    if index is None:
        return 1
    if isinstance(index, int | Loop):
        return size_of(index)
    if isinstance(index, Lin):
        return product(index.sizes)
    return index.sizes[index.position]


# --- boolean masks -------------------------------------------------------------------------------


def kept(expr: Expr) -> Expr | None:
    """Where the f32 expression is 0, as i1, if it is 0 or -inf everywhere; else None."""
    if isinstance(expr, Const):
        return TRUE if expr.number == 0 else FALSE if expr.number == -math.inf else None
    if not isinstance(expr, Apply):
        return None
    if expr.op == "arith.addf":
        parts = [kept(a) for a in expr.args]
        return None if None in parts else _both(*(p for p in parts if p is not None))
    if expr.op != "arith.select":
        return None
    condition = expr.args[0]
    yes, no = kept(expr.args[1]), kept(expr.args[2])
    if yes is None or no is None:
        return None
    if yes == TRUE and no == FALSE:
        return condition
    if yes == FALSE and no == TRUE:
        return negated(condition)
    if no == FALSE:
        return _both(condition, yes)
    if yes == FALSE:
        return _both(negated(condition), no)
    return select(condition, yes, no)


def negated(condition: Expr) -> Expr:
    """The opposite of an i1 expression."""
    if isinstance(condition, Apply) and condition.op == "arith.xori" and TRUE in condition.args:
        return condition.args[0] if condition.args[1] == TRUE else condition.args[1]
    return combine("arith.xori", condition, TRUE, type_="i1")


def _both(a: Expr, b: Expr) -> Expr:
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Const):
            return other if one.number else FALSE
    return combine("arith.andi", a, b, type_="i1")


def _owner_of(expr: Expr) -> ir.Operation | None:
    if isinstance(expr, Apply):
        return expr.owner
    return _owner(expr) if isinstance(expr, Element) else None


def closed_rows(mask: Expr, key: Loop, size_of: SizeOf) -> Expr | None:
    """Where a score is -inf because of the mask, as i1; None when no row can be so throughout."""
    if type_of(mask) != "i1":
        return is_minus_infinity(mask) if may_be_minus_infinity(mask) else None
    return None if _never_closes_a_row(mask, key, size_of) else negated(mask)


def _never_closes_a_row(keep: Expr, key: Loop, size_of: SizeOf) -> bool:
    """Whether it is certain that every row keeps a key.

    Certain means: the mask depends on loop indices alone, with static sizes, and each row keeps
    its first, its own or its last key.
    """
    import numpy as np

    bases = {b for leaf in leaves(keep) if isinstance(leaf, IndexOf) for b in _bases(leaf.index)}
    rows = bases - {key}
    keys = size_of(key)
    if len(rows) > 1 or not keys:
        return False
    count = 1 if not rows else size_of(next(iter(rows)))
    if count is None:
        return False
    row = np.arange(count)
    open_rows = np.zeros(count, dtype=bool)
    for chosen in (np.zeros_like(row), np.minimum(row, keys - 1), np.full_like(row, keys - 1)):
        values = _evaluate(keep, {key: chosen, **dict.fromkeys(rows, row)})
        if values is None:
            return False
        open_rows |= np.broadcast_to(values, count).astype(bool)
    return bool(open_rows.all())


def _bases(index: Index) -> Iterator[Base]:
    if isinstance(index, int | Loop):
        yield index
    elif isinstance(index, Lin):
        for part in index.parts:
            yield from _bases(part)
    elif isinstance(index, Part):
        yield from _bases(index.index)


_INTEGER: dict[str, Callable[..., Any]] = {
    "arith.addi": operator.add,
    "arith.subi": operator.sub,
    "arith.muli": operator.mul,
    "arith.andi": operator.and_,
    "arith.ori": operator.or_,
    "arith.xori": operator.xor,
    "arith.index_cast": lambda a: a,
    "arith.extsi": lambda a: a,
}
_COMPARED: dict[str, Callable[..., Any]] = {
    "0": operator.eq,
    "1": operator.ne,
    "2": operator.lt,
    "3": operator.le,
    "4": operator.gt,
    "5": operator.ge,
}


def _evaluate(expr: Expr, indices: Mapping[Base, Any]) -> Any:
    """The value of an integer expression at arrays of indices; None when an op is not known."""
    if isinstance(expr, Const):
        return expr.number
    if isinstance(expr, IndexOf):
        return _index_value(expr.index, indices)
    if not isinstance(expr, Apply):
        return None
    args = [_evaluate(a, indices) for a in expr.args]
    if any(a is None for a in args):
        return None
    if expr.op == "arith.cmpi":
        compare = _COMPARED.get(expr.predicate.partition(" ")[0])
        return None if compare is None else compare(*args)
    if expr.op == "arith.select":
        import numpy as np

        return np.where(*args)
    function = _INTEGER.get(expr.op)
    return None if function is None else function(*args)


def _index_value(index: Index, indices: Mapping[Base, Any]) -> Any:
    if index is None:
        return 0
    if isinstance(index, int | Loop):
        return indices[index]
    if isinstance(index, Lin):
        value: Any = 0
        for part, size in zip(index.parts, index.sizes, strict=True):
            digit = _index_value(part, indices)
            if size is None or digit is None:
                return None
            value = value * size + digit
        return value
    inner = _index_value(index.index, indices)
    trailing = index.sizes[index.position + 1 :]
    size = index.sizes[index.position]
    if inner is None or None in trailing or size is None:
        return None
    return inner // math.prod(s for s in trailing if s is not None) % size
