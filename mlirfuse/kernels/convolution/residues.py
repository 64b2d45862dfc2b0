"""Transposed convolutions by residue classes of the stride: no zero between elements is read.

Output position o reads, for tap t, index o + t * dilation of the spread image, which is an element
where that less the zeros before the first one is a multiple of the stride. For all o of a residue
class of the stride these are the same taps, `first, first + period, ...`, and adjacent positions of
a class read adjacent elements: a class is a convolution without zeros. A CTA computes positions of
one class. The source that this module writes uses

    residue2                position of the class modulo the stride, along dimension 2 of the image
    first2, base2           its first tap; the element that this reads for the first position
    excess2                 zeros before the first element, less the residue, modulo the stride
    taps2                   number of its taps, where not all classes have as many
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from mlirfuse.kernels.codegen.writer import Writer
from mlirfuse.kernels.convolution.analysis import Analysis

CLASS = "residue_class"
"""Name of the ordinal of a CTA's class in a kernel's text."""


@dataclasses.dataclass(frozen=True, slots=True)
class Residue:
    """The residue classes of output positions along one dimension of a spread image.

    Attributes:
      loop: loop of the output positions.
      tap: index of the loop of taps; None for a single tap.
      taps: number of taps.
      stride: distance of adjacent elements in the spread image.
      dilation: distance of adjacent taps in the spread image.
      low: zeros before the first element.
    """

    loop: int
    tap: int | None
    taps: int
    stride: int
    dilation: int
    low: int

    @property
    def shared(self) -> int:
        """The greatest common divisor of stride and dilation."""
        return math.gcd(self.stride, self.dilation)

    @property
    def period(self) -> int:
        """Distance of adjacent taps of a class."""
        return self.stride // self.shared

    @property
    def move(self) -> int:
        """Elements from one tap of a class to the next."""
        return self.dilation // self.shared

    @property
    def steps(self) -> int:
        """Taps of the class that has the most."""
        return -(-self.taps // self.period)

    @property
    def divides(self) -> bool:
        """Whether each class has `steps` taps."""
        return self.shared == 1 and self.taps % self.period == 0

    def write(self, writer: Writer, dim: int) -> None:
        """Writes `first` and `base` of the class with the residue of a dimension of the image."""
        low = self.low % self.stride + self.stride
        writer.line(f"excess{dim} = ({low} - residue{dim}) % {self.stride}")
        inverse = pow(self.move, -1, self.period) if self.period > 1 else 0
        first = f"excess{dim} // {self.shared}" if self.shared > 1 else f"excess{dim}"
        writer.line(f"first{dim} = {first} * {inverse} % {self.period}")
        # The division has no remainder, where the class has any tap.
        writer.line(
            f"base{dim} = (residue{dim} + first{dim} * {self.dilation} - {self.low})"
            f" // {self.stride}"
        )
        if not self.divides:
            count = f"({self.taps + self.period - 1} - first{dim}) // {self.period}"
            if self.shared > 1:
                count = f"tl.where(excess{dim} % {self.shared} == 0, {count}, 0)"
            writer.line(f"taps{dim} = {count}")


@dataclasses.dataclass(frozen=True, slots=True)
class Residues:
    """The residue classes of a transposed convolution; empty for any other.

    Attributes:
      dims: dimension of the image -> its classes.
    """

    dims: Mapping[int, Residue]

    @classmethod
    def of(cls, analysis: Analysis) -> Residues:
        """The residue classes of a convolution."""
        loops, found = analysis.loops, {}
        for dim, surround in enumerate(analysis.surrounds):
            if surround.stride == 1:
                continue
            parts = loops.image_dims[dim]
            position = next(loop for loop, _ in parts if loop in loops.m_loops)
            taps = [(loop, factor) for loop, factor in parts if loop in loops.tap_loops]
            loop, dilation = taps[0] if taps else (None, 1)
            tap = None if loop is None else loops.tap_loops.index(loop)
            size = 1 if tap is None else analysis.taps[tap]
            found[dim] = Residue(position, tap, size, surround.stride, dilation, surround.low)
        return cls(found)

    @property
    def count(self) -> int:
        """The number of classes."""
        return math.prod(residue.stride for residue in self.dims.values())

    def dim_of_tap(self, tap: int) -> int | None:
        """The dimension of the image whose classes divide the taps of a loop."""
        return next((dim for dim, residue in self.dims.items() if residue.tap == tap), None)

    def strides(self) -> dict[int, tuple[int, str]]:
        """Loop of output positions -> the stride of a class, and the name of its residue."""
        return {r.loop: (r.stride, f"residue{dim}") for dim, r in self.dims.items()}

    def write(self, writer: Writer) -> None:
        """Writes the residues of the class of a CTA, and what follows from them."""
        inner = self.count
        for ordinal, (dim, residue) in enumerate(self.dims.items()):
            inner //= residue.stride
            text = CLASS if inner == 1 else f"{CLASS} // {inner}"
            writer.line(f"residue{dim} = {text}" + (f" % {residue.stride}" if ordinal else ""))
            residue.write(writer, dim)

    def tap_masks(self, asked: Sequence[bool], suffix: str = "", tile: str = "") -> list[str]:
        """The conditions under which a tap exists, for loops over the taps of the largest class.

        Args:
          asked: for each loop of taps whether it is such a loop, not one over those of the class.
          suffix: makes tiles of the ordinals of taps that are no scalars.
          tile: a tile that gives a condition on scalars its shape; empty for scalars.
        """
        found = []
        for dim, residue in self.dims.items():
            if residue.divides or (residue.tap is not None and not asked[residue.tap]):
                continue
            ordinal = "0" if residue.tap is None else f"step{residue.tap}"
            tiled = suffix if residue.tap is not None else ""
            shape = f" + 0 * {tile}" if tile and not tiled else ""
            found.append(f"({ordinal}{tiled}{shape} < taps{dim})")
        return found
