"""The linear maps of minimal filtering F(outputs, taps) in one dimension.

    outputs = A ((G filter) * (B window))

A window of `outputs + taps - 1` elements takes that many products for all outputs, where the sum
over taps takes `outputs * taps`. The maps are those of Toom and Cook for interpolation at `POINTS`
and infinity, transposed.

Source: Winograd, Arithmetic Complexity of Computations, 1980; Lavin and Gray, Fast Algorithms for
Convolutional Neural Networks, 2016.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Protocol

Matrix = tuple[tuple[Fraction, ...], ...]

_HALF = Fraction(3, 4)
_WHOLE = Fraction(3, 2)

POINTS: Mapping[int, tuple[Fraction, ...]] = {
    4: (Fraction(0), Fraction(1), Fraction(-1)),
    6: (Fraction(0), _HALF, -_HALF, _WHOLE, -_WHOLE),
}
"""Size of a window -> points of the interpolation: zero, and opposite pairs, which share the even
and the odd part of their sums.

They were chosen by their errors, in the largest element of 3x3 convolutions of 64 and 256 channels:
F(4x4) has 1.5e-6 and 2.2e-6 with these points, 4.6e-6 and 1.1e-5 with 0, 1, -1, 2 and -2; F(2x2)
2.7e-7 and 4.5e-7; a sum in f32 6.7e-7 and 1.1e-6."""

WINDOWS = tuple(POINTS)
"""Sizes of windows; errors of larger ones grow beyond those of a sum in f32."""


class Arithmetic(Protocol):
    """Writes arithmetic on values."""

    def add(self, one: str, other: str) -> str:
        """`one + other`."""

    def subtract(self, one: str, other: str) -> str:
        """`one - other`."""

    def multiply_add(self, one: str, factor: Fraction, total: str) -> str:
        """`factor * one + total`."""

    def scale(self, one: str, factor: Fraction) -> str:
        """`factor * one`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Filtering:
    """Minimal filtering of one dimension.

    Attributes:
      outputs: outputs that one window gives.
      taps: taps of the filter.
    """

    outputs: int
    taps: int

    @property
    def window(self) -> int:
        """Elements that these outputs depend on: as many products are computed."""
        return self.outputs + self.taps - 1

    @property
    def filter_map(self) -> Matrix:
        """G: products x taps."""
        points = POINTS[self.window]
        rows = [
            tuple(point**k / _distance(point, points) for k in range(self.taps)) for point in points
        ]
        return (*rows, _unit(self.taps, self.taps - 1))

    @property
    def input_map(self) -> Matrix:
        """B: products x window."""
        return _input_map(self.window)

    @property
    def output_map(self) -> Matrix:
        """A: outputs x products."""
        points = POINTS[self.window]
        last = self.outputs - 1
        return tuple(
            (*(point**k for point in points), Fraction(int(k == last))) for k in range(self.outputs)
        )

    def input(self, window: Sequence[str], to: Arithmetic) -> list[str]:
        """Writes B times a window."""
        rows, found = self.input_map, list[str]()
        while len(found) < len(rows):
            row = rows[len(found)]
            following = rows[len(found) + 1] if len(found) + 1 < len(rows) else ()
            if following == tuple(value * (-1) ** k for k, value in enumerate(row)):
                found += _pair(row, window, to)
            else:
                found.append(_sum(row, window, to))
        return found

    def output(self, products: Sequence[str], to: Arithmetic) -> list[str]:
        """Writes A times the products."""
        middle = range(1, self.window - 1, 2)
        sums = [to.add(products[n], products[n + 1]) for n in middle]
        differences = [to.subtract(products[n], products[n + 1]) for n in middle]
        found = []
        for row in self.output_map:
            parts = [products[0], products[-1]]
            factors = [row[0], row[-1]]
            for place, n in enumerate(middle):
                parts.append((sums if row[n] == row[n + 1] else differences)[place])
                factors.append(row[n])
            found.append(_sum(factors, parts, to))
        return found


@functools.cache
def _input_map(window: int) -> Matrix:
    points = POINTS[window]
    rows = [_polynomial([p for p in points if p != point]) for point in points]
    padded = [(*row, *[Fraction()] * (window - len(row))) for row in rows]
    return (*padded, _polynomial(points))


def _unit(size: int, place: int) -> tuple[Fraction, ...]:
    return tuple(Fraction(int(k == place)) for k in range(size))


def _distance(point: Fraction, points: Sequence[Fraction]) -> Fraction:
    """The product of a point's differences from the others."""
    return math.prod((point - p for p in points if p != point), start=Fraction(1))


def _polynomial(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Coefficients of the monic polynomial with these roots, the constant one first."""
    found = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(), *found]
        found = [s - root * c for s, c in zip(shifted, [*found, Fraction()], strict=True)]
    return tuple(found)


def _sum(factors: Sequence[Fraction], values: Sequence[str], to: Arithmetic) -> str:
    """A sum of values times factors, from one whose factor is one."""
    terms = [(f, v) for f, v in zip(factors, values, strict=True) if f]
    first = next((n for n, (f, _) in enumerate(terms) if f == 1), 0)
    factor, total = terms.pop(first)
    if factor != 1:
        total = to.scale(total, factor)
    for factor, value in terms:
        if factor == 1:
            total = to.add(total, value)
        elif factor == -1:
            total = to.subtract(total, value)
        else:
            total = to.multiply_add(value, factor, total)
    return total


def _pair(row: Sequence[Fraction], window: Sequence[str], to: Arithmetic) -> list[str]:
    """The sums of a row, and of the same row with its odd factors negative."""
    even = [value if k % 2 == 0 else Fraction() for k, value in enumerate(row)]
    odd = [value if k % 2 else Fraction() for k, value in enumerate(row)]
    scale = next(value for value in reversed(odd) if value)
    one = _sum(even, window, to)
    other = _sum([value / scale for value in odd], window, to)
    if scale == 1:
        return [to.add(one, other), to.subtract(one, other)]
    return [to.multiply_add(other, scale, one), to.multiply_add(other, -scale, one)]
