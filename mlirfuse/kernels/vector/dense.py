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
import math
from collections.abc import Callable, Sequence

from iree.compiler import ir

from mlirfuse.kernels.vector.executable import VectorKernel, memref
from mlirfuse.kernels.vector.pointwise import Position
from mlirfuse.kernels.vector.register_tiles import RegisterTile
from mlirfuse.kernels.vector.tiled import PACKED, Tiled
from mlirfuse.kernels.vector.tiles import TileKernel
from mlirfuse.kernels.vector.workgroups import merged
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice

SECOND_CACHE_PARTS, LAST_CACHE_PARTS = 4, 8
"""Bytes of a cache over those of a block of the image in it."""

FIRST_TLB_PAGES, SECOND_TLB_PAGES, PAGE_BYTES = 64, 1024, 4096
"""Pages of a block that the TLBs hold, and bytes of one. The first one of data has 64 entries on
Skylake and Zen 2, later ones have 72 to 96; the second one has 1536 on Skylake, 2048 on Zen 2 and
1280 on Neoverse N1."""

MAX_SUMMED, CHUNK = 512, 256
"""Products that one accumulator of f32 sums at most, and input channels of a chunk of more of them.
The error of a sum grows with the root of their number."""

Element = Callable[[int, int], str]
"""The element of the image of a pixel of the tile at a tap along x, in all lanes."""

Place = Callable[[int, int], Linear]
"""The offset of its first channel."""

Add = Callable[[Linear, list[str], Element], list[str]]
"""Adds the elements of one input channel times the filter's to accumulators."""


@dataclasses.dataclass(frozen=True, slots=True)
class InPlace:
    """A filter that is read as it is, since its output or its input channels are contiguous.

    Attributes:
      value: the filter.
      channel_step: distance of its adjacent input channels.
      group_steps: distances of its adjacent groups, for each loop over them.
      column_step: distance of its adjacent output channels.
    """

    value: ir.Value
    channel_step: int
    group_steps: tuple[int, ...]
    column_step: int = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Dense(Tiled):
    """A contraction over input channels and taps.

    Attributes:
      tile: the register tile.
      packed: type of the filter as [group][tile of output channels][taps][input channels][tile].
      in_place: the filter that is read in place of a packed one; None where it is packed.
      depth: its input channels, with zeros at the end.
      pairs: whether each two vectors of its columns are interleaved.
      sums: type of the sums of the filter's columns; None where the kernel needs none.
      group_steps: distances of adjacent groups in the image, for each loop over them.
      channels: input channels of a group.
      channel_step: their distance in the image.
    """

    tile: RegisterTile
    packed: ir.Type
    depth: int
    sums: ir.Type | None
    group_steps: tuple[int, ...]
    channels: int
    channel_step: int
    in_place: InPlace | None = None
    pairs: bool = False

    @property
    def groups(self) -> tuple[int, ...]:
        """Sizes of the loops over groups."""
        return self.extents[self.x + 1 : -1]


class DenseKernel(TileKernel):
    """Writes one kernel.

    Attributes:
      step: input channels that an instruction multiplies.
    """

    def __init__(self, problem: Dense, device: CpuDevice, *, flat: bool) -> None:
        super().__init__(problem, problem.tile, device, flat=flat)
        self.dense = problem
        in_place = problem.in_place
        self.filter = problem.packed if in_place is None else in_place.value.type
        self.packed = (
            self.body.reserve(PACKED, problem.packed)
            if in_place is None
            else self.body.buffer(in_place.value)
        )
        self.weights = self.group_number = self.start = self.stop = Linear()
        self.partial = False
        self.step = 1

    def write(self, entry: str) -> VectorKernel:
        """Writes the whole kernel."""
        dense, writer = self.dense, self.writer
        groups = math.prod(dense.groups)
        work = dense.read_taps * dense.depth * self.tile.vectors * self.lanes // self.step
        tiles = groups * self.tiles
        blocks, size = self._blocks(tiles, work, self._cached_pixels())
        part = writer.value("hal.interface.workgroup.id[0] : index")
        block = writer.value("hal.interface.workgroup.id[1] : index")
        taken = merged(tiles * blocks, self.device)

        def one(number: str, _: list[str]) -> list[str]:
            self._write_columns(number, block, size)
            return []

        if taken == 1:
            self._write_columns(part, block, size)
        else:
            start = linear(part) * taken
            stop = writer.binary("minsi", start + taken, tiles)
            writer.loop(start, stop, 1, [], [], one)
        kernel = self._kernel(entry, (-(-tiles // taken), blocks))
        if {dense.axes[result] for result in dense.results} != {dense.axes[dense.value]}:
            return kernel
        parts = dense.extents, dense.axes[dense.value], self.tile, size, taken
        in_place = (n for n, value in enumerate(kernel.operands) if self._is_read_in_place(value))
        return dataclasses.replace(kernel, tiles=str(parts), in_place=tuple(in_place))

    def _is_read_in_place(self, value: ir.Value | str) -> bool:
        """Whether ops behind the products alone read a tensor, where they write the result."""
        dense = self.dense
        if isinstance(value, str) or ops.shape(value) != ops.shape(dense.value):
            return False
        core = ops.defining_op(dense.value)
        assert core is not None
        return all(
            ops.is_elementwise(op)
            and dense.axes.get(op.results[0]) == dense.axes[dense.value]
            and all(
                ops.plain_maps(op)[n] == ops.plain_maps(op)[-1]
                for n, read in enumerate(op.operands)
                if read == value
            )
            for op in ops.users(value)
            if op.parent == core.parent
        )

    def _write_columns(self, column_tile: str, block: str, size: int) -> None:
        """Writes a block of pixels of a tile of columns, which are counted over all groups."""
        dense, writer = self.dense, self.writer
        self.weights = linear(column_tile)
        if dense.groups:
            number = writer.binary("divui", column_tile, self.tiles)
            self.group_number = linear(number)
            self.group = tuple(writer.split(number, dense.groups))
            column_tile = writer.binary("remui", column_tile, self.tiles)
        self.column = linear(column_tile) * (self.tile.vectors * self.lanes)
        self._write_masks()
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

    def _cached_pixels(self) -> int:
        """Pixels whose image fits into a cache, and whose pages into the TLB of that cache.

        The tiles of columns of a block follow each other, so its image comes from the next cache
        or memory once, and its pages are translated once. Each block reads the filter: where the
        second cache does not hold it, that costs more than to read the image from the last cache
        for each tile of columns. On two cores of a Zen 5 layers of 128x1024x2816 f32 and back took
        16.2 ms in blocks whose image fits into the second cache, and 14.2 in one; 256x2048x2048
        20.3 and 18.1; but 8192x64x256 5.2 and 5.8.
        """
        dense, device, pixels = self.dense, self.device, self.width * self.rows
        image = ops.num_bytes(dense.image) // (pixels * math.prod(dense.groups))
        touched = min(PAGE_BYTES, max(ops.num_bytes(value) // pixels for value in dense.results))
        filter_bytes = dense.columns * dense.depth * device.vector_bytes // self.lanes
        if filter_bytes <= device.l2_bytes // 2:
            cache, pages = device.l2_bytes // SECOND_CACHE_PARTS, FIRST_TLB_PAGES
            image = image * min(dense.channels, self._cached_channels()) // dense.channels
        else:
            cache, pages = device.l3_bytes // LAST_CACHE_PARTS, SECOND_TLB_PAGES
            cache, touched = max(device.l2_bytes, cache), touched + min(PAGE_BYTES, image)
        return min(cache // max(1, image), pages * PAGE_BYTES // max(1, touched))

    def _cached_channels(self) -> int:
        """Input channels of which a tile's weights fill half of the second cache."""
        step = self.dense.taps * self.tile.vectors * self.device.vector_bytes
        return max(8, self.device.l2_bytes // 2 // step)

    def _channel_block(self, size: int) -> int:
        """Input channels of which the weights stay in the second cache, for all pixels of a block.

        Their partial sums are in the memory of the first result; all channels where it cannot be.
        """
        dense = self.dense
        pixels = size if self.flat else size * self.width
        fit = self._cached_channels()
        if pixels <= 2 * self.tile.rows or fit >= dense.channels or not self._holds_partial_sums():
            return dense.channels
        blocks = -(-dense.channels // fit)
        return -(-dense.channels // (blocks * self.step)) * self.step

    def _holds_partial_sums(self) -> bool:
        """Whether the memory of the first result can hold vectors of accumulators."""
        held = self.dense.results[0]
        return self._contiguous(held) and ops.element_type(held) == self.accumulator

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
        at = self._moved(at, dense.group_steps)
        weights, channel_step = self._weights_at(tap)

        def add(channel: Linear, held: list[str], element: Element) -> list[str]:
            sums = list(held)
            for number in self._class_taps():
                used = self._used(start, rows, number)
                if not used:
                    continue
                place = weights + channel * channel_step + number * dense.channels * wide
                loaded = self._tile_of_weights(place)
                for row in used:
                    broadcast = element(row, number)
                    for vector in range(vectors):
                        n = row * vectors + vector
                        sums[n] = self.math.multiply_add(broadcast, loaded[vector], sums[n])
            return sums

        def place(row: int, tap: int) -> Linear:
            return at + self._place(start, row, tap)

        return self._in_chunks(sums, lambda held: self._write_channels(rows, held, place, add))

    def _in_chunks(self, sums: list[str], write: Callable[[list[str]], list[str]]) -> list[str]:
        """Writes the loop over input channels, in chunks with accumulators of their own.

        Args:
          sums: the accumulators before it.
          write: writes the loop from `start` to `stop`.

        Returns:
          The accumulators after it, which were on the stack meanwhile.
        """
        dense, writer = self.dense, self.writer
        if dense.read_taps * dense.channels <= MAX_SUMMED or self.accumulator != "f32":
            return write(sums)
        kind = f"memref<{self.tile.rows * self.tile.vectors * self.lanes}xf32>"
        stack = writer.stack(kind, use="totals")
        places = [f"{stack}[{writer.index(n * self.lanes)}]" for n in range(len(sums))]
        zeros = [self.body.splat("0.0", "f32")] * len(sums)
        start, stop = self.start, self.stop
        for name, place in zip(sums, places, strict=True):
            writer.line(f"vector.store {name}, {place} : {kind}, {self.kind}")

        def chunk(begin: str, _: list[str]) -> list[str]:
            self.start = linear(begin)
            self.stop = linear(writer.binary("minsi", self.start + CHUNK, stop))
            for name, place in zip(write(zeros), places, strict=True):
                total = writer.value(f"vector.load {place} : {kind}, {self.kind}")
                total = writer.value(f"arith.addf {total}, {name} : {self.kind}")
                writer.line(f"vector.store {total}, {place} : {kind}, {self.kind}")
            return []

        writer.loop(start, stop, CHUNK, [], [], chunk)
        self.start, self.stop = start, stop
        return [writer.value(f"vector.load {place} : {kind}, {self.kind}") for place in places]

    def _weights_at(self, tap: Linear) -> tuple[Linear, int]:
        """The place of the weights of a tap, and the distance of adjacent input channels."""
        dense, wide = self.dense, self.tile.vectors * self.lanes
        if dense.in_place is not None:
            place = self._moved(self.column, dense.in_place.group_steps)
            return place, dense.in_place.channel_step
        weights = self.weights * (dense.taps * dense.channels * wide)
        return weights + tap * (dense.channels * wide), wide

    def _write_channels(self, rows: int, sums: list[str], place: Place, add: Add) -> list[str]:
        """Writes the loop over input channels.

        Args:
          rows: pixels of the tile.
          sums: the accumulators.
          place: offset in the image of a pixel's first channel at a tap along x.
          add: writes the multiply-adds of one channel, from the element of each pixel and tap.

        Returns:
          The accumulators after it.
        """
        dense = self.dense

        def step(channel: str, held: list[str]) -> list[str]:
            offset = linear(channel) * dense.channel_step

            def element(row: int, tap: int) -> str:
                return self.math.broadcast(self.image, dense.image.type, place(row, tap) + offset)

            return add(linear(channel), held, element)

        return self.writer.loop(self.start, self.stop, 1, sums, [self.kind] * len(sums), step)

    def _moved(self, at: Linear, group_steps: Sequence[int]) -> Linear:
        """An offset in the current group, from that in the first one."""
        for group, step in zip(self.group, group_steps, strict=True):
            at = at + group * step
        return at

    def _tile_of_weights(self, at: Linear) -> list[str]:
        """The vectors of the filter of one input channel, in f32."""
        numbers = range(self.tile.vectors)
        if not self.dense.pairs:
            return [self._weights(at, vector) for vector in numbers]
        return [half for vector in numbers[::2] for half in self._pair_of_weights(at, vector)]

    def _pair_of_weights(self, at: Linear, vector: int) -> tuple[str, str]:
        """Two vectors of an interleaved filter of bf16, in f32: the lower and the upper halves."""
        writer, words = self.writer, self.body.vector_type("i32")
        both = f"vector<{2 * self.lanes}xbf16>"
        place = writer.index(at + vector * self.lanes)
        loaded = writer.value(f"vector.load {self.packed}[{place}] : {memref(self.filter)}, {both}")
        held = writer.value(f"vector.bitcast {loaded} : {both} to {words}")
        return self.math.lower_half(held), self.math.upper_half(held)

    def _weights(self, at: Linear, vector: int) -> str:
        """A vector of the filter, in f32: of a packed one zeros are behind the last channel."""
        element = ops.type_element(self.filter)
        mask = self.masks[vector] if self.dense.in_place is not None else ""
        place = at + vector * self.lanes
        return self.math.widened(self.body.load(self.packed, self.filter, place, mask), element)
