"""Means and squares of deviations of the values of rows, in parts: lanes of a tile, or splits.

    delta = x - shift - mean
    mean += delta / count
    squares += delta * delta * (count - 1) / count

in each lane, over its columns. With all parts, the squares of a row around any center are

    sum(squares + count * (mean + shift - center)^2)

Nothing cancels: both terms are sums of squares. Means are relative to the shift, the mean of some
values of the part, and so as exact as the differences of its values, however large these are.
Source: Welford, 1962; Chan, Golub, LeVeque, 1983.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mlirfuse.kernels.codegen.writer import Writer


@dataclasses.dataclass(frozen=True, slots=True)
class Moments:
    """The moments of parts of rows, as names or expressions of a kernel: tiles of f32.

    Attributes:
      mean: mean of each part, less the shift.
      squares: sum of squared differences from it.
      shift: value near those of the part.
      count: values of each part; empty while they are not known.
    """

    mean: str
    squares: str
    shift: str
    count: str = ""

    def add(self, writer: Writer, value: str, before: str, mask: str) -> None:
        """Adds one value to each part.

        Args:
          writer: the lines of the kernel.
          value: the values.
          before: values that each part has so far, as a number.
          mask: the parts that a value is added to; empty for all.
        """
        share = writer.name(f"library.quotient(1.0, {before} + 1.0)")
        text = f"{value} - {self.shift} - {self.mean}"
        delta = writer.name(f"tl.where({mask}, {text}, 0.0)" if mask else text)
        writer.line(f"{self.squares} += {delta} * ({before} * {share}) * {delta}")
        writer.line(f"{self.mean} += {delta} * {share}")

    def around(self, writer: Writer, center: str) -> str:
        """The sum of a row's squared differences from a center, a number for each row."""
        return self._squares(writer, f"({self.shift} - {center})")

    def whole(self, writer: Writer, count: str) -> Moments:
        """The moments of all parts together.

        Args:
          writer: the lines of the kernel.
          count: values of all parts, as a number.
        """
        share = f"({self.count} / {count})"
        mean = writer.name(f"tl.sum({self.mean} * {share}, 1, keep_dims=True)")
        return Moments(mean, self._squares(writer, f"(-{mean})"), self.shift)

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """The names that splits store, and their types."""
        return tuple((name, "tl.float32") for name in (self.mean, self.squares, self.shift))

    def _squares(self, writer: Writer, offset: str) -> str:
        """The sum of squares around the point of which the shift is so far away."""
        gap = writer.name(f"{self.mean} + {offset}")
        # A part without values may lie infinitely far from the center.
        between = f"tl.where({self.count} > 0.0, {self.count} * {gap} * {gap}, 0.0)"
        return writer.name(f"tl.sum({self.squares} + {between}, 1, keep_dims=True)")


def no_moments(writer: Writer, shape: Sequence[int], shift: str) -> Moments:
    """The moments of parts without values.

    Args:
      writer: the lines of the kernel.
      shape: shape of the tile of parts.
      shift: value near those of each row.
    """
    zeros = f"tl.full({[*shape]}, 0.0, tl.float32)"
    return Moments(writer.name(zeros), writer.name(zeros), shift)
