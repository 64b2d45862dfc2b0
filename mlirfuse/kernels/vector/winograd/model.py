"""Modelled cycles of a convolution: by minimal filtering, and directly.

All are cycles of one core until the last one ends.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from mlirfuse.kernels.vector import register_tiles
from mlirfuse.kernels.vector.register_tiles import RegisterTile
from mlirfuse.kernels.vector.tiled import Tiled
from mlirfuse.kernels.vector.winograd.problem import Side
from mlirfuse.kernels.vector.winograd.transforms import Filtering
from mlirfuse.targets.base import CpuDevice
from mlirfuse.targets.cpu_rates import BANDWIDTH_PER_CORE, CLOCK

L3_BYTES_PER_CYCLE = 10
"""Bytes that one core reads from the cache that cores share in a cycle: Intel's mesh since Skylake,
the slowest of them; 16 and more on Zen, by Agner Fog's microarchitecture manual."""


@dataclasses.dataclass(slots=True)
class _Count:
    """Counts the arithmetic of a transform."""

    operations: int = 0

    def _one(self) -> str:
        self.operations += 1
        return ""

    def add(self, one: str, other: str) -> str:
        """Counts an addition."""
        return self._one()

    def subtract(self, one: str, other: str) -> str:
        """Counts a subtraction."""
        return self._one()

    def multiply_add(self, one: str, factor: Fraction, total: str) -> str:
        """Counts a multiply-add."""
        return self._one()

    def scale(self, one: str, factor: Fraction) -> str:
        """Counts a multiplication."""
        return self._one()


Transform = Callable[[Filtering, Sequence[str], _Count], list[str]]
"""Transforms a line of a window, as `Filtering.input` and `Filtering.output` do."""


def _operations(sides: Sequence[Side], transform: Transform) -> int:
    """Arithmetic of the transforms of all dimensions of a window."""
    sizes = [side.filtering.window for side in sides]
    total = 0
    for axis, side in enumerate(sides):
        operations, length = _line(side.filtering, transform)
        total += operations * (math.prod(sizes) // sizes[axis])
        sizes[axis] = length
    return total


@functools.cache
def _line(filtering: Filtering, transform: Transform) -> tuple[int, int]:
    """Arithmetic of the transform of a line, and the length that the line has then."""
    count = _Count()
    length = len(transform(filtering, [""] * filtering.window, count))
    return count.operations, length


@dataclasses.dataclass(frozen=True, slots=True)
class Blocking:
    """How a kernel divides its work.

    Attributes:
      tile: the register tile, whose rows are windows.
      block: windows that are transformed together.
      parts: parts of the output channels, each of which transforms all windows.
      shares: parts of the blocks.
    """

    tile: RegisterTile
    block: int
    parts: int
    shares: int


def filtering_cycles(
    sides: Sequence[Side],
    windows: int,
    channels: int,
    columns: int,
    how: Blocking,
    device: CpuDevice,
) -> float:
    """Cycles of a convolution by minimal filtering.

    Args:
      sides: its dimensions with taps.
      windows: all windows.
      channels: input channels.
      columns: output channels.
      how: how the work is divided.
      device: the CPU.
    """
    products = math.prod(side.filtering.window for side in sides)
    outputs = math.prod(side.filtering.outputs for side in sides)
    tiles = -(-columns // (how.tile.vectors * device.lanes))
    part = -(-tiles // how.parts)
    wide = part * how.tile.vectors
    inner = -(-channels // device.lanes)
    ports = device.fma_ports
    moved = products / device.load_ports + products
    windowed = inner * (_operations(sides, Filtering.input) / ports + moved)
    ended = wide * (_operations(sides, Filtering.output) / ports + moved + 3 * outputs)
    full, rest = divmod(how.block, how.tile.rows)
    sums = sum(
        count * register_tiles.cycles(rows, how.tile.vectors, device, panel_bytes=0)
        for count, rows in ((full, how.tile.rows), (1, rest))
        if rows and count
    )
    filters = 4 * products * channels * wide * device.lanes
    kept = 4 * products * inner * device.lanes * how.block
    streamed = filters * (filters > device.l2_bytes // 2) + part * kept * (
        kept > device.l2_bytes // 2
    )
    multiplied = max(sums * products * channels * part, streamed / L3_BYTES_PER_CYCLE)
    block = how.block * (windowed + ended) + multiplied
    blocks = -(-windows // how.block)
    units = -(-(how.parts * how.shares) // device.cores) * -(-blocks // how.shares)
    return units * block + memory_cycles(4 * products * channels * columns, device)


def direct_cycles(
    tiled: Tiled, channels: int, tile: RegisterTile, filter_bytes: int, device: CpuDevice
) -> float:
    """Cycles of a convolution by sums over taps.

    Args:
      tiled: the convolution.
      channels: input channels.
      tile: the register tile.
      filter_bytes: bytes of the filter.
      device: the CPU.
    """
    full, rest = divmod(tiled.extents[tiled.x], tile.rows)
    row = full * register_tiles.cycles(tile.rows, tile.vectors, device, panel_bytes=0)
    row += register_tiles.cycles(rest, tile.vectors, device, panel_bytes=0) if rest else 0
    rows = math.prod(tiled.extents[: tiled.x])
    tiles = -(-tiled.columns // (tile.vectors * device.lanes))
    work = row * rows * tiles * tiled.taps * channels
    # The filter is read while the products before it are computed.
    return max(work / device.cores, memory_cycles(filter_bytes, device))


def memory_cycles(num_bytes: int, device: CpuDevice) -> float:
    """Cycles in which all cores read that much from memory: weights of a model are in no cache.

    A copy reads half of its bytes: two cores of a Zen 4 read a filter of 25 MB at 30 GB/s.
    """
    return num_bytes / device.cores / (BANDWIDTH_PER_CORE / 2 / CLOCK)
