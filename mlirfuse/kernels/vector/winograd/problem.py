"""Convolutions by minimal filtering, as kernels compute them."""

from __future__ import annotations

import dataclasses
import math

from iree.compiler import ir

from mlirfuse.kernels.vector.register_tiles import CACHE_LINE
from mlirfuse.kernels.vector.tiled import Tiled, Window
from mlirfuse.kernels.vector.winograd.transforms import Filtering


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """A dimension of the image with taps.

    Attributes:
      window: how it is indexed: without strides and dilation.
      filtering: the outputs that one window of it gives.
      extent: outputs along it.
    """

    window: Window
    filtering: Filtering
    extent: int

    @property
    def tiles(self) -> int:
        """Windows that give all outputs; the last one perhaps more than there are."""
        return -(-self.extent // self.filtering.outputs)

    @property
    def is_inside(self) -> bool:
        """Whether no window has elements outside of the image."""
        last = (self.tiles - 1) * self.filtering.outputs + self.filtering.window
        return self.window.low <= 0 and last - self.window.low <= self.window.size


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Winograd(Tiled):
    """A dense convolution by minimal filtering, of an image whose channels are contiguous.

    Attributes:
      sides: the dimensions with taps, in the filter's order.
      channels: input channels.
      rows: windows of a register tile.
      vectors: vectors of output channels of a register tile.
      block: windows that are transformed together.
      lanes: elements of a vector.
      packed: type of the transformed filter as [tile of output channels][products][input
        channels][tile].
    """

    sides: tuple[Side, ...]
    channels: int
    rows: int
    vectors: int
    block: int
    lanes: int
    packed: ir.Type

    @property
    def axis_tiles(self) -> list[int]:
        """The numbers of windows along the axes of pixels."""
        tiles = {side.window.axis: side.tiles for side in self.sides}
        return [tiles.get(axis, size) for axis, size in enumerate(self.extents[:-1])]

    @property
    def num_windows(self) -> int:
        """All windows."""
        return math.prod(self.axis_tiles)

    @property
    def num_blocks(self) -> int:
        """Blocks of windows."""
        return -(-self.num_windows // self.block)

    @property
    def products(self) -> int:
        """Products of one window, one input and one output channel."""
        return math.prod(side.filtering.window for side in self.sides)

    @property
    def operations(self) -> int:
        """Multiplications and additions of all products."""
        return 2 * self.num_windows * self.products * self.channels * self.columns

    @property
    def channel_vectors(self) -> int:
        """Vectors of input channels."""
        return -(-self.channels // self.lanes)

    @property
    def input_step(self) -> int:
        """Elements between the transformed windows of two products: in other sets of a cache."""
        return _odd_lines(self.channel_vectors * self.block * self.lanes)

    @property
    def output_step(self) -> int:
        """Elements between the sums of two products."""
        return _odd_lines(self.block * self.vectors * self.lanes)

    @property
    def scratch(self) -> int:
        """Elements of f32 that a workgroup keeps transformed windows and sums in."""
        return self.products * (self.input_step + self.output_step)


def _odd_lines(elements: int) -> int:
    """That many elements of f32 or a few more, as an odd number of a cache's lines."""
    line = CACHE_LINE // 4
    return (-(-elements // line) | 1) * line
