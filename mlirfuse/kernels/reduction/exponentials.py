"""Sums of exponentials of the values of rows, in parts: lanes of a tile, or splits.

    up = x - highest
    total = total * exp(-up) + 1, highest = x           where up > 0
    total = total + exp(up)                             elsewhere

in each lane, over its columns. With all parts, the sum of a row around any center is

    sum(total * exp(highest - center))

which overflows only where a term of it does. Equal values have no difference, so that infinities
count like others: their sum around infinity is NaN, and infinite around a number.
Source: Milakov, Gimelshein, Online normalizer calculation for softmax, 2018, algorithm 3.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mlirfuse.kernels.codegen.writer import Writer

LOWEST = "-3.4028234663852886e38"
"""The highest value of a part without values: finite, since infinities have no difference."""


@dataclasses.dataclass(frozen=True, slots=True)
class Exponentials:
    """The sums of parts of rows, as names or expressions of a kernel: tiles of f32.

    Attributes:
      highest: largest value of each part.
      total: sum of exponentials of the differences from it.
    """

    highest: str
    total: str

    def add(self, writer: Writer, value: str, mask: str) -> None:
        """Adds one value to each part.

        Args:
          writer: the lines of the kernel.
          value: the values.
          mask: the parts that a value is added to; empty for all.
        """
        text = _difference(value, self.highest)
        up = writer.name(f'tl.where({mask}, {text}, float("-inf"))' if mask else text)
        power = writer.name(f"tl.exp(-tl.abs({up}))")
        writer.line(
            f"{self.total} = tl.where({up} > 0.0, {self.total} * {power} + 1.0,"
            f" {self.total} + {power})"
        )
        writer.line(f"{self.highest} = tl.where({up} > 0.0, {value}, {self.highest})")

    def around(self, writer: Writer, center: str) -> str:
        """The sum of exponentials of a row's differences from a center, a number for each row."""
        return self._sum(writer, f"{self.highest} - {center}")

    def whole(self, writer: Writer) -> Exponentials:
        """The sums of all parts together."""
        highest = writer.name(f"tl.max({self.highest}, 1, keep_dims=True)")
        return Exponentials(highest, self._sum(writer, _difference(self.highest, highest)))

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """The names that splits store, and their types."""
        return tuple((name, "tl.float32") for name in (self.highest, self.total))

    def _sum(self, writer: Writer, gap: str) -> str:
        return writer.name(f"tl.sum({self.total} * tl.exp({gap}), 1, keep_dims=True)")


def _difference(value: str, other: str) -> str:
    return f"tl.where({value} == {other}, 0.0, {value} - {other})"


def no_exponentials(writer: Writer, shape: Sequence[int]) -> Exponentials:
    """The sums of parts without values, in a tile of this shape."""
    return Exponentials(
        writer.name(f"tl.full({[*shape]}, {LOWEST}, tl.float32)"),
        writer.name(f"tl.full({[*shape]}, 0.0, tl.float32)"),
    )
