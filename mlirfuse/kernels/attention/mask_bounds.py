"""The keys that a mask may show to a tile of queries, computed from the mask.

    mask = (m - n >= 0) & (m - n < 256)        a sliding window
      of queries first_m ... last_m
    keys from first_m - 255 to last_m

A mask is followed through logic, selects and comparisons of sums of the indices of query and key
with constants. What else it is computed from may show any key: `n < lengths[b]`, a document.
Blocks of keys outside of the bounds are neither loaded nor multiplied.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from iree.compiler import ir

from mlirfuse.kernels.attention.analysis import AttentionAnalysis
from mlirfuse.structured.expr import predicates
from mlirfuse.structured.ir import ops

FIRST_M, LAST_M = "first_m", "last_m"
"""Names of the first and the last query of a tile in a kernel."""


@dataclasses.dataclass(frozen=True, slots=True)
class Bounds:
    """Keys that may be seen, as text in a kernel.

    Attributes:
      low: the first key; empty where it may be any.
      end: the key after the last one; empty where it may be any.
      none: whether no key is seen.
    """

    low: str = ""
    end: str = ""
    none: bool = False

    def both(self, other: Bounds) -> Bounds:
        """The keys within two bounds."""
        low = _joined("tl.maximum", self.low, other.low) or self.low or other.low
        end = _joined("tl.minimum", self.end, other.end) or self.end or other.end
        return Bounds(low, end, self.none or other.none)

    def either(self, other: Bounds) -> Bounds:
        """The keys within one of two bounds."""
        if self.none or other.none:
            return other if self.none else self
        low = _joined("tl.minimum", self.low, other.low)
        return Bounds(low, _joined("tl.maximum", self.end, other.end))


ANY, NONE = Bounds(), Bounds(none=True)


@dataclasses.dataclass(frozen=True, slots=True)
class _Sum:
    """`query * m + key * n + number`, for the indices m of the query and n of the key."""

    query: int = 0
    key: int = 0
    number: int = 0

    def plus(self, other: _Sum, sign: int = 1) -> _Sum:
        """The sum, or the difference where the sign is -1."""
        return _Sum(
            self.query + sign * other.query,
            self.key + sign * other.key,
            self.number + sign * other.number,
        )

    def times(self, factor: int) -> _Sum:
        """The product with a number."""
        return _Sum(self.query * factor, self.key * factor, self.number * factor)


def bounds(analysis: AttentionAnalysis) -> Bounds:
    """The bounds of a tile's keys; `ANY` where there is no mask, or where it tells nothing."""
    mask = analysis.mask
    owner = None if mask is None else ops.defining_op(mask)
    if mask is None or owner not in analysis.prologue or len(analysis.loops.queries) != 1:
        return ANY
    assert owner is not None
    written = ops.plain_maps(owner)[-1]
    if None in ops.indexing_maps(owner) or len(set(written)) != len(written):
        return ANY
    roles = dict(zip(written, ops.plain_maps(analysis.op)[4], strict=True))
    known = {analysis.loops.queries[0]: _Sum(query=1), analysis.loops.key: _Sum(key=1)}
    indices = {loop: known[role] for loop, role in roles.items() if role in known}
    (value,) = list(ops.body(owner).operations)[-1].operation.operands
    reader = _Reader(indices)
    is_float = ops.element_type(mask) != "i1"
    found = reader.finite(value) if is_float else reader.shown(value, holds=True)
    return ANY if found.none else found


class _Reader:
    """Reads the body of the op that computes a mask.

    Attributes:
      indices: the loops of the op that are those of queries and keys.
    """

    def __init__(self, indices: dict[int | None, _Sum]) -> None:
        self.indices = indices

    def shown(self, value: ir.Value, *, holds: bool) -> Bounds:
        """The keys for which a condition may hold, or may not."""
        number, op = ops.constant(value), ops.defining_op(value)
        if number is not None:
            return ANY if bool(number) == holds else NONE
        if op is None:
            return ANY
        if op.name in ("arith.andi", "arith.ori"):
            one, other = (self.shown(each, holds=holds) for each in op.operands)
            return one.both(other) if (op.name == "arith.andi") == holds else one.either(other)
        if op.name == "arith.xori":
            for one, other in (op.operands, list(op.operands)[::-1]):
                if (flipped := ops.constant(other)) is not None:
                    return self.shown(one, holds=holds != bool(flipped))
        if op.name == "arith.select":
            return self._selected(op, lambda each: self.shown(each, holds=holds))
        if op.name == "arith.cmpi":
            return self._compared(op, holds=holds)
        return ANY

    def finite(self, value: ir.Value) -> Bounds:
        """The keys for which an added number may not be -inf."""
        number, op = ops.constant(value), ops.defining_op(value)
        if number is not None:
            return NONE if number == -math.inf else ANY
        if op is None:
            return ANY
        if op.name == "arith.select":
            return self._selected(op, self.finite)
        if op.name == "arith.addf":
            one, other = map(self.finite, op.operands)
            return one.both(other)
        if op.name in ("arith.extf", "arith.truncf"):
            return self.finite(op.operands[0])
        return ANY

    def _selected(self, op: ir.Operation, read: Callable[[ir.Value], Bounds]) -> Bounds:
        condition, yes, no = op.operands
        chosen = self.shown(condition, holds=True).both(read(yes))
        return chosen.either(self.shown(condition, holds=False).both(read(no)))

    def _compared(self, op: ir.Operation, *, holds: bool) -> Bounds:
        """The keys for which a comparison of integers may hold, or may not."""
        predicate = str(op.attributes["predicate"])
        left, right = op.operands
        absolute = ops.defining_op(left)
        if absolute is not None and absolute.name == "math.absi":
            inner, limit = self._sum(absolute.operands[0]), self._sum(right)
            if inner is None or limit is None:
                return ANY
            # |x| < c where this holds, or where |x| >= c does not; <= likewise.
            strict, weak = (
                (predicates.SLT, predicates.SLE) if holds else (predicates.SGE, predicates.SGT)
            )
            if predicate not in (strict, weak):
                return ANY
            limit = limit.plus(_Sum(number=-1 if predicate == strict else 0))
            return _at_most(inner.plus(limit, -1)).both(_at_most(inner.times(-1).plus(limit, -1)))
        one, other = self._sum(left), self._sum(right)
        if one is None or other is None:
            return ANY
        difference = one.plus(other, -1)
        if predicate in (predicates.EQ, predicates.NE):
            if (predicate == predicates.EQ) != holds:
                return ANY
            return _at_most(difference).both(_at_most(difference.times(-1)))
        # `a < b` is `a - b + 1 <= 0`; what does not hold is the opposite.
        forms = {
            predicates.SLT: (difference.plus(_Sum(number=1)), difference.times(-1)),
            predicates.SLE: (difference, difference.times(-1).plus(_Sum(number=1))),
            predicates.SGT: (difference.times(-1).plus(_Sum(number=1)), difference),
            predicates.SGE: (difference.times(-1), difference.plus(_Sum(number=1))),
        }
        found = forms.get(predicate)
        return ANY if found is None else _at_most(found[0 if holds else 1])

    def _sum(self, value: ir.Value) -> _Sum | None:
        """An integer as a sum of the indices; None for any other one."""
        number, op = ops.constant(value), ops.defining_op(value)
        if isinstance(number, int):
            return _Sum(number=number)
        if op is None:
            return None
        if op.name == "linalg.index":
            return self.indices.get(op.attributes["dim"].value)
        if op.name in ("arith.index_cast", "arith.extsi", "arith.trunci"):
            return self._sum(op.operands[0])
        if op.name not in ("arith.addi", "arith.subi", "arith.muli"):
            return None
        one, other = (self._sum(each) for each in op.operands)
        if one is None or other is None:
            return None
        if op.name != "arith.muli":
            return one.plus(other, 1 if op.name == "arith.addi" else -1)
        for factor, rest in ((one, other), (other, one)):
            if factor == _Sum(number=factor.number):
                return rest.times(factor.number)
        return None


def _at_most(found: _Sum) -> Bounds:
    """The keys for which a sum may be zero or less, for one of the tile's queries."""
    if abs(found.key) != 1:
        return ANY
    # Of n the bound is -key * (query * m + number), the loosest of all queries.
    slope, number = -found.key * found.query, -found.key * found.number
    if found.key > 0:
        return Bounds(end=_text(slope, number + 1, LAST_M if slope > 0 else FIRST_M))
    return Bounds(low=_text(slope, number, FIRST_M if slope > 0 else LAST_M))


def _text(slope: int, number: int, query: str) -> str:
    if not slope:
        return str(number)
    scaled = query if slope == 1 else f"{slope} * {query}"
    return f"({scaled} + {number})"


def _joined(function: str, one: str, other: str) -> str:
    """The smaller or the larger of two bounds; empty where one of them is."""
    return f"{function}({one}, {other})" if one and other else ""
