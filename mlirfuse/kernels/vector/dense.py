"""Contractions and convolutions over input channels, whose output channels are contiguous.

    for each block of input channels:
      for each tile of pixels:
        for each tap that is inside the image, each input channel:
          an element of the image times vectors of the packed filter, for each pixel
        epilogue, or partial sums into the result's memory

A matmul is a convolution of one tap: its rows are pixels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.pointwise import Position
from mlirfuse.kernels.vector.register_tiles import RegisterTile
from mlirfuse.kernels.vector.tiled import PACKED, Tiled
from mlirfuse.kernels.vector.tiles import TileKernel
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Dense(Tiled):
    """A contraction over input channels and taps.

    Attributes:
      tile: the register tile.
      packed: type of the filter as [group][tile of output channels][taps][input channels][tile].
      depth: its input channels, with zeros at the end.
      sums: type of the sums of the filter's columns; None where the kernel needs none.
      group_step: distance of the groups in the image; None without groups.
      channels: input channels of a group.
      channel_step: their distance in the image.
    """

    tile: RegisterTile
    packed: ir.Type
    depth: int
    sums: ir.Type | None
    group_step: int | None
    channels: int
    channel_step: int

    @property
    def x(self) -> int:
        """The axis of the pixels of a register tile."""
        return len(self.extents) - (2 if self.group_step is None else 3)


class DenseKernel(TileKernel):
    """Writes one kernel.

    Attributes:
      step: input channels that an instruction multiplies.
    """

    def __init__(self, problem: Dense, device: CpuDevice, *, flat: bool) -> None:
        super().__init__(problem, problem.tile, device, flat=flat)
        self.dense = problem
        self.packed = self.body.reserve(PACKED, problem.packed)
        self.weights = self.start = self.stop = Linear()
        self.partial = False
        self.step = 1

    def write(self, entry: str) -> VectorKernel:
        """Writes the whole kernel."""
        dense, writer = self.dense, self.writer
        groups = 1 if dense.group_step is None else dense.extents[dense.x + 1]
        work = dense.read_taps * dense.depth * self.tile.vectors * self.lanes // self.step
        blocks, size = self._blocks(groups * self.tiles, work)
        column_tile = writer.value("hal.interface.workgroup.id[0] : index")
        block = writer.value("hal.interface.workgroup.id[1] : index")
        self.weights = linear(column_tile)
        if dense.group_step is not None:
            self.group = (linear(writer.binary("divui", column_tile, self.tiles)),)
            column_tile = writer.binary("remui", column_tile, self.tiles)
        self.column = linear(column_tile) * (self.tile.vectors * self.lanes)
        self._write_mask()
        first, last = self._bounds(block, size)
        depth = self._channel_block(size)
        whole = (dense.channels - 1) // depth * depth

        def partial(start: str, _: list[str]) -> list[str]:
            self.start, self.stop = linear(start), linear(start) + depth
            self._write_rows(first, last)
            return []

        if whole:
            self.partial = True
            writer.loop(0, whole, depth, [], [], partial)
        self.partial = False
        self.start, self.stop = linear(whole), linear(dense.channels)
        self._write_rows(first, last)
        return self._kernel(entry, (groups * self.tiles, blocks))

    def _channel_block(self, size: int) -> int:
        """Input channels of which the weights stay in the second cache, for all pixels of a block.

        Their partial sums are in the memory of the first result; all channels where it cannot be.
        """
        dense = self.dense
        pixels = size if self.flat else size * self.width
        held = dense.results[0]
        step = dense.taps * self.tile.vectors * self.device.vector_bytes
        fit = max(8, self.device.l2_bytes // 2 // step)
        in_place = self._contiguous(held) and ops.element_type(held) == self.accumulator
        if pixels <= 2 * self.tile.rows or fit >= dense.channels or not in_place:
            return dense.channels
        blocks = -(-dense.channels // fit)
        return -(-dense.channels // (blocks * self.step)) * self.step

    def _initial(self, positions: Sequence[Position]) -> list[str]:
        """The first values of the accumulators: the init, or partial sums of earlier channels."""
        dense = self.dense

        def fresh() -> list[str]:
            self.body.forget()
            return self._fresh(positions)

        def kept() -> list[str]:
            held = dense.results[0]
            kind = held.type
            places = [self.body.offset(kind, dense.axes[held], p.index) for p in positions]
            return [
                self.body.load("%y0", kind, at, p.mask)
                for at, p in zip(places, positions, strict=True)
            ]

        if self.start.is_constant:
            return fresh() if self.start.constant == 0 else kept()
        is_first = self.writer.value(
            f"arith.cmpi eq, {self.writer.index(self.start)}, {self.writer.index(0)} : index"
        )
        found = self.writer.choose(is_first, [self.kind] * len(positions), fresh, kept)
        self.body.forget()
        return found

    def _fresh(self, positions: Sequence[Position]) -> list[str]:
        """The accumulators before the first product."""
        return super()._initial(positions)

    def _end_tile(
        self, start: Linear, rows: int, sums: list[str], positions: list[Position]
    ) -> None:
        if not self.partial:
            super()._end_tile(start, rows, sums, positions)
            return
        for name, position in zip(sums, positions, strict=True):
            self._store(0, name, position)

    def _write_taps(
        self, start: Linear, rows: int, at: Linear, tap: Linear, sums: list[str]
    ) -> list[str]:
        """Writes the loop over input channels of one row of taps."""
        dense, vectors = self.dense, self.tile.vectors
        wide = vectors * self.lanes
        for group in self.group:
            at = at + group * (dense.group_step or 0)
        weights = self.weights * (dense.taps * dense.channels * wide) + tap * (
            dense.channels * wide
        )

        def step(channel: str, held: list[str]) -> list[str]:
            sums = list(held)
            for number in self._class_taps():
                used = self._used(start, rows, number)
                if not used:
                    continue
                place = weights + linear(channel) * wide + number * dense.channels * wide
                loaded = [self._weights(place + v * self.lanes) for v in range(vectors)]
                for row in used:
                    element = (
                        at + linear(channel) * dense.channel_step + self._place(start, row, number)
                    )
                    broadcast = self.math.broadcast(self.image, dense.image.type, element)
                    for vector in range(vectors):
                        n = row * vectors + vector
                        sums[n] = self.math.multiply_add(broadcast, loaded[vector], sums[n])
            return sums

        return self.writer.loop(self.start, self.stop, 1, sums, [self.kind] * len(sums), step)

    def _weights(self, at: Linear) -> str:
        """A vector of the packed filter, in f32."""
        element = str(ir.RankedTensorType(self.dense.packed).element_type)
        return self.math.widened(self.body.load(self.packed, self.dense.packed, at), element)
