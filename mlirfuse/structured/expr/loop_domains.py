"""A common iteration domain for operands whose reshapes split and collapse loops.

An index expression (see `expressions`) is a row-major sequence of digits of base loops. The domain
splits every base loop wherever an operand splits it. Each piece is one dimension, and each operand
is indexed by some of the dimensions, in order.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable
from typing import TypeAlias

from mlirfuse.structured.expr.nodes import Base, Index, Lin, Loop, base_loops

SizeOf: TypeAlias = Callable[[Base], int | None]
"""Trip count of a base loop; None when dynamic."""


UNIT: Base = -1
"""The base of a dimension of size one that indices leave out."""


@dataclasses.dataclass(frozen=True, slots=True)
class Digit:
    """`base // stride % size`; a `size` of None means that the digit is the leading one."""

    base: Base
    stride: int
    size: int | None


def holds(index: Index, base: Base) -> bool:
    """Whether the index depends on the base loop."""
    return base in base_loops(index)


def digits(index: Index, size_of: SizeOf) -> tuple[Digit, ...] | None:
    """The digits of an index, major first, without those of size one.

    Returns:
      None when the index splits a dynamic loop, or a loop at a stride that does not divide it.
    """
    if index is None:
        return ()
    if isinstance(index, int | Loop):
        size = size_of(index)
        return () if size == 1 else (Digit(index, 1, size),)
    if isinstance(index, Lin):
        parts: list[Digit] = []
        for part in index.parts:
            inner = digits(part, size_of)
            if inner is None:
                return None
            parts += inner
        return tuple(parts)
    inner = digits(index.index, size_of)
    stride = product(index.sizes[index.position + 1 :])
    if inner is None or stride is None:
        return None
    size = index.sizes[index.position]
    return _split(inner, stride, None if index.position == 0 else size)


def product(sizes: Iterable[int | None]) -> int | None:
    """The product of sizes; None when one is dynamic."""
    total = 1
    for size in sizes:
        if size is None:
            return None
        total *= size
    return total


def _split(whole: tuple[Digit, ...], stride: int, size: int | None) -> tuple[Digit, ...] | None:
    """The digits of `whole // stride % size`; without `size`, all digits above the stride."""
    rest = list(whole)
    if _take(rest, stride) is None:
        return None
    if size is None:
        return tuple(rest)
    taken = _take(rest, size)
    return None if taken is None else tuple(taken)


def _take(rest: list[Digit], amount: int) -> list[Digit] | None:
    """Removes the least significant digits that make up `amount`, splitting the last one."""
    taken: list[Digit] = []
    while amount > 1:
        if not rest:
            return None
        last = rest.pop()
        if last.size is not None and amount % last.size == 0:
            taken.insert(0, last)
            amount //= last.size
            continue
        if last.size is not None and last.size % amount:
            return None
        major = None if last.size is None else last.size // amount
        rest.append(Digit(last.base, last.stride * amount, major))
        taken.insert(0, Digit(last.base, last.stride, amount))
        amount = 1
    return taken


@dataclasses.dataclass(frozen=True, slots=True)
class Domain:
    """Dimensions that make up every index of an analysis.

    Attributes:
      dims: dimensions, as digits of the base loops.
      size_of: trip count of each base loop.
    """

    dims: tuple[Digit, ...]
    size_of: SizeOf

    def of(self, index: Index) -> tuple[int, ...]:
        """The dimensions that an index of the analysis consists of, major first."""
        parts = digits(index, self.size_of)
        assert parts is not None, "the domain was made from other indices"
        return tuple(d for part in parts for d, dim in enumerate(self.dims) if _covers(part, dim))

    def with_unit(self) -> Domain:
        """The same dimensions, and behind them one of size one, of which no index consists."""
        return Domain((*self.dims, Digit(UNIT, 1, 1)), self.size_of)

    def reordered(self, order: Iterable[int]) -> Domain:
        """The same dimensions in another order."""
        return Domain(tuple(self.dims[d] for d in order), self.size_of)


def _covers(part: Digit, dim: Digit) -> bool:
    if dim.base != part.base or dim.stride < part.stride:
        return False
    if part.size is None:
        return True
    return dim.size is not None and dim.stride * dim.size <= part.stride * part.size


def common_domain(indices: Iterable[Index], size_of: SizeOf) -> Domain | None:
    """The coarsest domain whose dimensions make up all indices; None if splits do not nest."""
    ends: dict[Base, dict[int, None]] = {}
    open_ended: set[Base] = set()
    for index in indices:
        parts = digits(index, size_of)
        if parts is None:
            return None
        for part in parts:
            cuts = ends.setdefault(part.base, {})
            cuts[part.stride] = None
            if part.size is None:
                open_ended.add(part.base)
            else:
                cuts[part.stride * part.size] = None
    dims: list[Digit] = []
    for base, cuts in ends.items():
        strides = sorted(cuts)
        pieces: list[Digit] = []
        for low, high in itertools.pairwise(strides):
            if high % low:
                return None
            pieces.insert(0, Digit(base, low, high // low))
        if base in open_ended:
            pieces.insert(0, Digit(base, strides[-1], None))
        dims += pieces
    return Domain(tuple(dims), size_of)
