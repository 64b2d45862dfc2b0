"""Computations on the windows of an image, which kernels tile."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

from iree.compiler import ir

from mlirfuse.kernels.vector.pointwise import Axes

PACKED = "packed filter"
"""The operand that is made for a kernel."""

SUMS = "shifted sums of the filter's columns"
"""The other operand that is made for a kernel whose products shift the image's elements."""

MAX_UNROLLED_TAPS, MAX_INNER_TAPS = 32, 128
"""Taps along x: each is code of its own, for each class of pixels; those of the second limit where
no window reaches over the image's border, so that there is one class."""


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """How one dimension of the image is indexed: `(stride * axis + dilation * tap - low) / spread`.

    Where the division leaves a rest, the index is that of a zero between elements.

    Attributes:
      axis: axis of the result; None for a dimension without one.
      stride: distance of the elements of adjacent indices of the axis.
      taps: number of taps.
      dilation: distance of the elements of adjacent taps.
      low: zeros before the first element.
      size: elements of the dimension.
      step: distance of adjacent elements in memory.
      spread: distance of adjacent elements with the zeros between them; one where `stride` is not.
    """

    axis: int | None
    stride: int
    taps: int
    dilation: int
    low: int
    size: int
    step: int
    spread: int = 1

    @property
    def period(self) -> int:
        """The distance of adjacent taps that read elements, and no zeros between them."""
        return self.spread // math.gcd(self.spread, self.dilation)

    @property
    def move(self) -> int:
        """Elements from one of these taps to the next."""
        return self.dilation // math.gcd(self.spread, self.dilation)

    @property
    def read_taps(self) -> int:
        """The most of these taps that one position has."""
        return -(-self.taps // self.period)

    @property
    def overlap(self) -> int:
        """Indices of the axis from one to the next that reads an element by another tap, or 0.

        Those between elements, which have other taps, do not count.
        """
        moves = (self.move * taps for taps in range(1, self.read_taps))
        return next((move // self.stride for move in moves if move % self.stride == 0), 0)

    def reads(self, index: int, tap: int) -> bool:
        """Whether a tap reads an element, and no zero between two, for an index of the axis."""
        return (self.stride * index + self.dilation * tap - self.low) % self.spread == 0

    def element(self, index: int, tap: int) -> int:
        """The element that it reads then, inside of the image or not."""
        return (self.stride * index + self.dilation * tap - self.low) // self.spread

    def first(self) -> int:
        """The smallest position that is read."""
        return -self.low

    def last(self, extent: int) -> int:
        """The largest one, for that many indices of the axis."""
        return self.stride * (extent - 1) + self.dilation * (self.taps - 1) - self.low

    def always_inside(self, extent: int) -> bool:
        """Whether no zeros are read."""
        return self.spread == 1 and self.first() >= 0 and self.last(extent) < self.size


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tiled:
    """A computation on the windows of an image.

    Its axes are rows, x, perhaps the group, and the channels of the result.

    Attributes:
      extents: sizes of the axes.
      image: the first operand.
      value: the result.
      init: the tensor that accumulators start from, indexed as `value` is.
      results: the region's results.
      axes: value that depends on the computation, and `value` itself -> its axes.
      windows: the dimensions of the image with axes or taps, the taps in the filter's order.
      group_axes: number of axes of groups of channels, between x and the channels.
      gathers: whether the epilogue reads a tensor whose channels are not contiguous.
    """

    extents: tuple[int, ...]
    image: ir.Value
    value: ir.Value
    init: ir.Value
    results: tuple[ir.Value, ...]
    axes: dict[ir.Value, Axes]
    windows: tuple[Window, ...]
    group_axes: int = 0
    gathers: bool = False

    @property
    def x(self) -> int:
        """The axis of the pixels of a register tile."""
        return len(self.extents) - 2 - self.group_axes

    @property
    def pixel_step(self) -> int:
        """The distance in the image of adjacent pixels of a register tile; 0 for a single one."""
        return next((w.stride * w.step for w in self.windows if w.axis == self.x), 0)

    @property
    def pixel_stride(self) -> int:
        """The distance of adjacent pixels of a register tile, in pixels of the image."""
        return next((w.stride for w in self.windows if w.axis == self.x), 0)

    @property
    def overlap(self) -> int:
        """Pixels of a register tile from one to the next that reads an element by another tap."""
        return next((w.overlap for w in self.windows if w.axis == self.x), 0)

    @property
    def spread(self) -> int:
        """The distance of pixels in x that the same taps read elements for."""
        return next((w.spread for w in self.windows if w.axis == self.x), 1)

    @property
    def class_width(self) -> int:
        """The most pixels of a row at this distance from each other."""
        return -(-self.extents[self.x] // self.spread)

    @property
    def has_contiguous_pixels(self) -> bool:
        """Whether adjacent pixels are adjacent in all results."""
        last = {self.axes[result][-1] for result in self.results}
        return last == {self.x} and self.spread == 1 and self.extents[self.x] > 1

    @property
    def columns(self) -> int:
        """Channels of the result, in a group."""
        return self.extents[-1]

    def fields(self) -> dict[str, Any]:
        """The attributes, for a computation of a certain kind."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(Tiled)}

    @property
    def taps(self) -> int:
        """Taps of a window."""
        return math.prod(window.taps for window in self.windows)

    @property
    def read_taps(self) -> int:
        """The most of them that read elements, and no zeros between them."""
        return math.prod(window.read_taps for window in self.windows)

    @property
    def one_tap(self) -> bool:
        """Whether each pixel reads the element at its own position: pixels can be one axis.

        The image then has the pixels in the order of the kernel's axes.
        """
        alone = all(
            w.taps == 1
            and w.stride == 1
            and w.spread == 1
            and w.low == 0
            and (1 if w.axis is None else self.extents[w.axis]) == w.size
            for w in self.windows
        )
        dims = {w.axis: w for w in self.windows if w.axis is not None and w.size != 1}
        inner = itertools.pairwise(dims[axis] for axis in sorted(dims))
        return alone and all(one.step == other.step * other.size for one, other in inner)
