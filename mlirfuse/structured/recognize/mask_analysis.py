"""Compile-time analysis of masks: constant comparisons, rows that can be masked entirely."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from mlirfuse.structured.expr import predicates
from mlirfuse.structured.expr.expressions import type_of
from mlirfuse.structured.expr.loop_domains import SizeOf, product
from mlirfuse.structured.expr.nodes import (
    Apply,
    Base,
    Const,
    Expr,
    Index,
    IndexOf,
    Lin,
    Loop,
    base_loops,
)
from mlirfuse.structured.recognize.mask_logic import (
    FALSE,
    LOGIC_OPS,
    TRUE,
    both,
    is_minus_infinity,
    may_be_minus_infinity,
    negated,
    select,
)
from mlirfuse.structured.recognize.masks import leaves


def simplified(expr: Expr, size_of: SizeOf) -> Expr:
    """The mask with index comparisons folded that have the same result at every index.

    `transformers` uses `position >= 0` as the condition of an empty mask.

    Args:
      expr: a mask.
      size_of: trip count of each base loop.
    """
    if not isinstance(expr, Apply):
        return expr
    if expr.op == "arith.cmpi":
        decided = _decided(expr, size_of)
        return expr if decided is None else TRUE if decided else FALSE
    if expr.op == "arith.select":
        condition, a, b = (simplified(arg, size_of) for arg in expr.args)
        return select(condition, a, b)
    if expr.type != "i1" or expr.op not in LOGIC_OPS:
        return expr
    a, b = (simplified(arg, size_of) for arg in expr.args)
    if expr.op == "arith.andi":
        return both(a, b)
    if expr.op == "arith.ori":
        return negated(both(negated(a), negated(b))) if _one_is_known(a, b) else expr
    return expr


def _one_is_known(a: Expr, b: Expr) -> bool:
    return isinstance(a, Const) or isinstance(b, Const)


def _decided(comparison: Apply, size_of: SizeOf) -> bool | None:
    """The constant result of an integer comparison; None when it varies."""
    a, b = (_range(arg, size_of) for arg in comparison.args)
    if a is None or b is None:
        return None
    always = {
        predicates.SLT: (a[1] < b[0], a[0] >= b[1]),
        predicates.SLE: (a[1] <= b[0], a[0] > b[1]),
        predicates.SGT: (a[0] > b[1], a[1] <= b[0]),
        predicates.SGE: (a[0] >= b[1], a[1] < b[0]),
    }.get(comparison.predicate)
    if always is None or True not in always:
        return None
    return always[0]


def _range(expr: Expr, size_of: SizeOf) -> tuple[float, float] | None:
    """The smallest and the largest value of an integer expression; None if unknown."""
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
    """The number of values of an index; None when it is dynamic."""
    if index is None:
        return 1
    if isinstance(index, int | Loop):
        return size_of(index)
    if isinstance(index, Lin):
        return product(index.sizes)
    return index.sizes[index.position]


def masked_rows(mask: Expr, key: Loop, size_of: SizeOf) -> Expr | None:
    """The i1 expression that is true where a score is masked; None if no row is masked entirely."""
    if type_of(mask) != "i1":
        return is_minus_infinity(mask) if may_be_minus_infinity(mask) else None
    return None if _keeps_a_key_in_each_row(mask, key, size_of) else negated(mask)


def _keeps_a_key_in_each_row(keep: Expr, key: Loop, size_of: SizeOf) -> bool:
    """Whether every row certainly has an unmasked key.

    This is proven only for a mask of loop indices with static sizes, where the first, the diagonal
    or the last key of each row is unmasked.
    """
    import numpy as np

    bases = {
        b for leaf in leaves(keep) if isinstance(leaf, IndexOf) for b in base_loops(leaf.index)
    }
    rows = bases - {key}
    keys = size_of(key)
    if len(rows) > 1 or not keys:
        return False
    count = 1 if not rows else size_of(next(iter(rows)))
    if count is None:
        return False
    row = np.arange(count)
    has_unmasked = np.zeros(count, dtype=bool)
    for chosen in (np.zeros_like(row), np.minimum(row, keys - 1), np.full_like(row, keys - 1)):
        values = _evaluate(keep, {key: chosen, **dict.fromkeys(rows, row)})
        if values is None:
            return False
        has_unmasked |= np.broadcast_to(values, count).astype(bool)
    return bool(has_unmasked.all())


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


def _evaluate(expr: Expr, indices: Mapping[Base, Any]) -> Any:
    """The value of an integer expression at arrays of indices; None for an unknown op."""
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
        compare = predicates.SIGNED.get(expr.predicate)
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
