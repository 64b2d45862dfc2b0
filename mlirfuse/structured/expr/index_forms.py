"""Closed forms of a table of indices, as functions of its position.

    0 0 1 1 2 2 3 3             i // 2
    0 0 0 1 1 2 2 3             max(i - 1, 0) // 2
    0 0 0 1 1 1 2 2             i * 3 // 8
    2 1 0 1 2 3 2               2 - i below 2, i - 2 below 6, 8 - i from there

A form is accepted where it gives each element of the table. Divisors are powers of two: a product
and a shift take one instruction each on a GPU, a division by another number eight. LLVM computes
divisions of short ranges in 16 bits, two at a time: a bilinear resize of 128 to 200 pixels with
divisors of 25 took 123 us on an H200, torch.compile's 46, and its results were wrong.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, Any]

MAX_QUOTIENT_SIZE = 4096
"""Positions of a table above which no divisor is searched for."""

MAX_DIVISOR_BITS = 18
"""Logarithm of the largest divisor."""

MAX_NUMERATOR = (1 << 31) - 1
"""Largest number that is divided: indices have 32 bits in kernels."""

MAX_LINES = 3
"""Lines of a reflected or rotated axis."""


@dataclasses.dataclass(frozen=True, slots=True)
class Quotient:
    """The index `min(max(i * factor + start, lowest) // divisor, highest)`.

    Attributes:
      factor: the factor of the position.
      start: the number added to the product.
      divisor: the divisor, a power of two.
      lowest: lower bound of the numerator; None where it is not needed.
      highest: upper bound of the quotient; None where it is not needed.
    """

    factor: int
    start: int
    divisor: int = 1
    lowest: int | None = None
    highest: int | None = None

    @property
    def num_ops(self) -> int:
        """Scalar ops that compute it from the position."""
        bounds = (self.lowest is not None) + (self.highest is not None)
        linear = 1 if self.factor == -1 else (self.factor not in (0, 1)) + (self.start != 0)
        return (linear if self.factor else 0) + bounds + (self.divisor != 1)

    @property
    def is_line(self) -> bool:
        """Whether it has no division and no bounds."""
        return self.divisor == 1 and self.lowest is None and self.highest is None

    def values(self, position: Array) -> Array:
        """The indices at some positions."""
        found = position * self.factor + self.start
        if self.lowest is not None:
            found = found.clip(min=self.lowest)
        found = found // self.divisor
        return found if self.highest is None else found.clip(max=self.highest)


@dataclasses.dataclass(frozen=True, slots=True)
class Lines:
    """The index `i * factor + start`, of the first line that ends behind the position.

    Attributes:
      lines: end, factor and start of each line.
    """

    lines: tuple[tuple[int, int, int], ...]

    @property
    def num_ops(self) -> int:
        """Scalar ops that compute it from the position."""
        parts = [Quotient(factor, start).num_ops for _, factor, start in self.lines]
        return sum(parts) + 2 * (len(self.lines) - 1)


Form: TypeAlias = Quotient | Lines


def form_of(table: Array) -> Form | None:
    """The closed form of a table of one dimension; None where there is none."""
    return _form(tuple(int(n) for n in table))


@functools.lru_cache(maxsize=256)
def _form(numbers: tuple[int, ...]) -> Form | None:
    import numpy as np

    table = np.array(numbers, dtype=np.int64)
    if table.size == 0 or table.min() < 0:
        return None
    line = _line(table)
    if line is not None:
        return Quotient(*line)
    found = _bounded(table, 1)
    if found is None and table.size <= MAX_QUOTIENT_SIZE:
        # The slope of a line is exact enough with twice the bits of a position.
        bits = min(2 * table.size.bit_length() + 2, MAX_DIVISOR_BITS)
        quotients = (_bounded(table, 1 << shift) for shift in range(1, bits + 1))
        found = next(filter(None, quotients), None)
    return found or _lines(table)


def _line(table: Array) -> tuple[int, int] | None:
    """Factor and start of a table that is one line."""
    factor = int(table[1] - table[0]) if table.size > 1 else 0
    same = table.size < 2 or bool((table[1:] - table[:-1] == factor).all())
    return (factor, int(table[0])) if same else None


def _bounded(table: Array, divisor: int) -> Quotient | None:
    """The quotient by a divisor of a table that does not decrease, or does not increase."""
    import numpy as np

    steps = np.diff(table)
    if not ((steps >= 0).all() or (steps <= 0).all()):
        return None
    low, high = int(table.min()), int(table.max())
    for bounds in ((False, False), (True, False), (False, True), (True, True)):
        found = _fitted(table, divisor, low if bounds[0] else None, high if bounds[1] else None)
        if found is not None:
            return found
    return None


def _fitted(table: Array, divisor: int, low: int | None, high: int | None) -> Quotient | None:
    """The quotient with these bounds, for each element the last one inside of which is free."""
    import numpy as np

    position = np.arange(table.size)
    inner = position[(table != low) & (table != high)]
    if inner.size < 2:
        return None
    first, last = int(inner[0]), int(inner[-1])
    # numerator >= table * divisor but at the lower bound, < (table + 1) * divisor but at the upper.
    from_below = table != low if low is not None else np.full(table.size, fill_value=True)
    from_above = table != high if high is not None else np.full(table.size, fill_value=True)
    rise, run = int(table[last] - table[first]), last - first
    for factor in range(
        math.floor((rise - 1) * divisor / run), math.ceil((rise + 1) * divisor / run) + 1
    ):
        rest = table * divisor - position * factor
        start = int(rest[from_below].max())
        if start > int(rest[from_above].min()) + divisor - 1:
            continue
        lowest = None if low is None else low * divisor
        found = Quotient(factor, start, divisor, lowest, high)
        if max(abs(start), abs(factor * (table.size - 1) + start)) > MAX_NUMERATOR:
            continue
        if (found.values(position) == table).all():
            return found
    return None


def _lines(table: Array) -> Lines | None:
    """The lines of a table of a few."""
    lines: list[tuple[int, int, int]] = []
    begin = 0
    while begin < table.size:
        if len(lines) == MAX_LINES:
            return None
        end = min(begin + 2, table.size)
        step = int(table[end - 1] - table[begin])
        while end < table.size and table[end] - table[end - 1] == step:
            end += 1
        lines.append((end, step, int(table[begin]) - step * begin))
        begin = end
    return Lines(tuple(lines))
