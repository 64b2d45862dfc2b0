"""Loops over register tiles of pixels and channels, around a convolution, a matmul or a pooling.

    for each block of rows, and each tile of channels:
      for each row, each tile of pixels along x:
        accumulators of pixels x vectors of channels
        for each row of taps that is inside the image: what the kind of kernel does with it
        epilogue

Tiles at the ends of a row have code of their own, without the taps that are outside of the image:
zeros around an image cost no copy and no work. Where no tap overlaps another one, as in a matmul,
all pixels are one axis. Results whose pixels are contiguous are transposed: `pixel_kernel`.
"""

from __future__ import annotations

import abc
import contextlib
import itertools
import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.vector import residues
from mlirfuse.kernels.vector.pixel_kernel import PixelKernel
from mlirfuse.kernels.vector.pointwise import Axes, Pointwise, Position
from mlirfuse.kernels.vector.register_tiles import RegisterTile
from mlirfuse.kernels.vector.residues import Taps
from mlirfuse.kernels.vector.tiled import Tiled, Window
from mlirfuse.kernels.vector.workgroups import BLOCKS_PER_CORE, MIN_BLOCK_OPERATIONS
from mlirfuse.kernels.vector.writer import Linear, Writer, linear, operations
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice

MAX_UNROLLED_EPILOGUE = 8
"""Operations of an epilogue that is written for each accumulator; a longer one is a loop, whose
accumulators go through the stack."""


class NotFlat(Exception):
    """A tensor is not indexed by all pixels as one axis."""


class _Flat(Pointwise):
    """Elementwise ops whose pixels are one axis."""

    def __init__(self, writer: Writer, lanes: int, problem: Tiled) -> None:
        super().__init__(writer, lanes, gathers=problem.gathers)
        self._pixels = list(range(problem.x + 1))
        self._sizes = problem.extents

    def offset(self, value_type: ir.Type, axes: Axes, index: Sequence[Linear]) -> Linear:
        shape = ops.type_shape(value_type)
        dims = [(a, s) for a, s in zip(axes, shape, strict=True) if s != 1]
        places = [place for place, (a, _) in enumerate(dims) if a in self._pixels]
        needed = [(a, self._sizes[a]) for a in self._pixels if self._sizes[a] != 1]
        # Pixels with other axes between them, as in NCHW, are several runs of memory.
        if places and dims[places[0] : places[-1] + 1] != needed:
            raise NotFlat
        return super().offset(value_type, axes, index)


class TileKernel(PixelKernel, abc.ABC):
    """Writes one kernel.

    Attributes:
      flat: whether all pixels are one axis.
      residue: x of a tile's pixels modulo `problem.spread`; tiles count the pixels of one residue.
      parts: blocks that each row is divided into.
    """

    def __init__(
        self, problem: Tiled, tile: RegisterTile, device: CpuDevice, *, flat: bool
    ) -> None:
        lanes = device.lanes
        if flat:
            body: Pointwise = _Flat(Writer(), lanes, problem)
        else:
            body = Pointwise(Writer(), lanes, gathers=problem.gathers)
        super().__init__(problem, tile, device, body)
        self.flat = flat
        sizes, x = problem.extents, problem.x
        self.width = math.prod(sizes[: x + 1]) if flat else sizes[x]
        self.rows = 1 if flat else math.prod(sizes[:x])
        self.residue = 0
        self.parts = 1
        self._part_bounds = Linear(), Linear()

    # --- the loops over tiles ---------------------------------------------------------------------

    def _blocks(self, tiles: int, work: int, most: int | None = None) -> tuple[int, int]:
        """The number of blocks of rows, or of pixels where they are one axis, and their size.

        Args:
          tiles: workgroups of each block.
          work: operations on elements for a pixel in one of them.
          most: pixels of a block that has enough work; None for any.
        """
        unit = self.tile.rows if self.flat else 1
        units = -(-self.width // unit) if self.flat else self.rows
        pixels = unit if self.flat else self.width
        wanted = max(1, BLOCKS_PER_CORE * self.device.cores // tiles)
        if not self.flat and units < wanted:
            most_parts = min(self._tiles_of_row, self.width * work // MIN_BLOCK_OPERATIONS)
            self.parts = max(1, min(wanted // units, most_parts))
        if self.parts > 1:
            return units * self.parts, 1
        size = -(-units // wanted)
        if most is not None:
            size = min(size, most // pixels)
        size = min(units, max(size, -(-MIN_BLOCK_OPERATIONS // (work * pixels))))
        return -(-units // size), size * unit

    @property
    def _tiles_of_row(self) -> int:
        """The tiles of a row of pixels that read with the same taps."""
        return -(-self.problem.class_width // self.tile.rows)

    def _bounds(self, block: str, size: int) -> tuple[Linear, Linear]:
        """The first row, or pixel, of a block and the one after its last."""
        if self.parts > 1:
            size = -(-self._tiles_of_row // self.parts) * self.tile.rows
            begin = linear(self.writer.binary("remui", block, self.parts)) * size
            self._part_bounds = begin, begin + size
            row = linear(self.writer.binary("divui", block, self.parts))
            return row, row + 1
        first = linear(block) * size
        end = self.width if self.flat else self.rows
        return first, linear(self.writer.binary("minsi", first + size, end))

    def _write_rows(self, first: Linear, last: Linear) -> None:
        """Writes the tiles of a block for the current tile of channels."""
        if self.flat:
            self._write_pixels(first, last)
            return

        def row(number: str, _: list[str]) -> list[str]:
            self.index = self.writer.split(number, self.problem.extents[: self.problem.x])
            self._write_row()
            return []

        self.writer.loop(first, last, 1, [], [], row)

    def _write_pixels(self, first: Linear, last: Linear) -> None:
        """Writes the tiles of a block of pixels that are one axis."""
        self.index = [Linear()] * self.problem.x
        rows, rest = self.tile.rows, self.width % self.tile.rows
        whole = self.width - rest
        end = self.writer.binary("minsi", last, whole)

        def tile(start: str, _: list[str]) -> list[str]:
            self._write_tile(linear(start), rows)
            return []

        self.writer.loop(first, end, rows, [], [], tile)
        if rest:
            condition = self.writer.value(
                f"arith.cmpi eq, {self.writer.index(last)}, {self.writer.index(self.width)} : index"
            )
            with self.writer.block(f"scf.if {condition} {{"):
                self._write_tile(Linear(constant=whole), rest)

    def _write_row(self) -> None:
        """Writes the tiles of one row, for each class of pixels that read with the same taps."""
        spread = self.problem.spread
        for residue in range(min(spread, self.width)):
            self.residue = residue
            self._write_class(-(-(self.width - residue) // spread))

    def _write_class(self, width: int) -> None:
        """Writes the tiles of so many pixels: those at the ends have taps outside of the image."""
        rows = self.tile.rows
        starts = list(range(0, width, rows))
        inside = [width - s >= rows and self._is_inside(s, rows) for s in starts]
        for is_inside, run in itertools.groupby(
            zip(starts, inside, strict=True), key=lambda item: item[1]
        ):
            members = [start for start, _ in run]
            if is_inside and len(members) > 1:

                def tile(start: str, _: list[str]) -> list[str]:
                    self._write_tile(linear(start), rows)
                    return []

                self.writer.loop(*self._in_part(members), rows, [], [], tile)
                continue
            for start in members:
                with self._if_in_part(start):
                    self._write_tile(Linear(constant=start), min(rows, width - start))

    def _in_part(self, starts: Sequence[int]) -> tuple[Linear | int | str, Linear | int | str]:
        """The bounds of a loop over the tiles at these places that are in the part of the row."""
        first, last = starts[0], starts[-1] + 1
        if self.parts == 1:
            return first, last
        begin, end = self._part_bounds
        return self.writer.binary("maxsi", begin, first), self.writer.binary("minsi", end, last)

    def _if_in_part(self, start: int) -> contextlib.AbstractContextManager[None]:
        """A block that is run where the tile at a place is in the part of the row."""
        if self.parts == 1:
            return contextlib.nullcontext()
        begin, end = (self.writer.index(bound) for bound in self._part_bounds)
        place = self.writer.index(start)
        after = self.writer.value(f"arith.cmpi sle, {begin}, {place} : index")
        before = self.writer.value(f"arith.cmpi slt, {place}, {end} : index")
        both = self.writer.value(f"arith.andi {after}, {before} : i1")
        return self.writer.block(f"scf.if {both} {{")

    # --- one tile ---------------------------------------------------------------------------------

    @property
    def _inner(self) -> Window | None:
        """The dimension of the image that x indexes."""
        return next((w for w in self.problem.windows if w.axis == self.problem.x), None)

    def _is_inside(self, start: int, rows: int) -> bool:
        return all(
            self._reads(start + row, tap) for row in range(rows) for tap in self._class_taps()
        )

    def _class_taps(self) -> list[int]:
        """The taps along x that read elements for the pixels of a tile, and no zeros between."""
        window, taps = self._inner, range(self._inner_taps)
        if window is None:
            return list(taps)
        return [tap for tap in taps if window.reads(self.residue, tap)]

    @property
    def _inner_taps(self) -> int:
        return 1 if self._inner is None else self._inner.taps

    def _reads(self, pixel: int, tap: int) -> bool:
        """Whether a pixel reads an element of the image at a tap along x, and no zero."""
        window = self._inner
        if window is None or self.flat:
            return True
        return 0 <= pixel * window.stride + window.element(self.residue, tap) < window.size

    def _write_tile(self, start: Linear, rows: int) -> None:
        """Writes the accumulation of one tile, and its epilogue."""
        self.body.forget()
        positions = self._positions(start, rows)
        sums = self._accumulate(start, rows, self._initial(positions))
        self._end_tile(start, rows, sums, positions)

    def _positions(self, start: Linear, rows: int) -> list[Position]:
        vectors = range(self.tile.vectors)
        return [self._position(start, row, vector) for row in range(rows) for vector in vectors]

    def _initial(self, positions: Sequence[Position]) -> list[str]:
        """The first values of the accumulators."""
        return self._initial_vectors(positions)

    def _initial_vectors(self, positions: Sequence[Position]) -> list[str]:
        """The init at some positions."""
        problem = self.problem
        axes = problem.axes[problem.value]
        return [self.body.vector(problem.init, axes, position) for position in positions]

    def _end_tile(
        self, start: Linear, rows: int, sums: list[str], positions: list[Position]
    ) -> None:
        """Writes all that follows the accumulation."""
        self._write_epilogue(start, rows, sums, positions)

    def _position(self, start: Linear, row: int, vector: int) -> Position:
        x = (start + row) * self.problem.spread + self.residue
        index = [*self.index, x, *self.group]
        index.append(self.column + vector * self.lanes)
        return Position((row, vector), tuple(index), self.masks[vector])

    def _accumulate(self, start: Linear, rows: int, sums: list[str]) -> list[str]:
        """Writes the loops over the rows of taps."""
        outer = [w for w in self.problem.windows if w.axis != self.problem.x]
        kinds = [self.kind] * len(sums)

        def nest(remaining: list[Window], at: Linear, tap: Linear, held: list[str]) -> list[str]:
            if not remaining:
                return self._write_taps(start, rows, at, tap, held)
            window, *others = remaining
            origin = Linear(constant=-window.low)
            if window.axis is not None:
                origin = self._axis(window.axis, start) * window.stride + origin
            if window.taps == 1 and self._always_inside(window):
                return nest(others, at + origin * window.step, tap, held)
            weight = math.prod(w.taps for w in others) * self._inner_taps
            taps = residues.taps(window, origin, self.writer)
            low, high = self._tap_range(window, taps)

            def step(number: str, carried: list[str]) -> list[str]:
                place = taps.element + linear(number) * window.move
                here = tap + (linear(number) * window.period + taps.first) * weight
                return nest(others, at + place * window.step, here, carried)

            return self.writer.loop(low, high, 1, held, kinds, step)

        return nest(outer, Linear(), Linear(), sums)

    def _axis(self, axis: int, start: Linear) -> Linear:
        return start if axis == self.problem.x else self.index[axis]

    def _always_inside(self, window: Window) -> bool:
        return window.always_inside(1 if window.axis is None else self.problem.extents[window.axis])

    def _tap_range(self, window: Window, taps: Taps) -> tuple[Linear | str, Linear | str]:
        """The ordinals of the taps whose elements are inside the image."""
        if self._always_inside(window):
            return Linear(), taps.count
        place, step = self.writer.index(taps.element), window.move

        def ahead(bound: int) -> str:
            """The first tap at or after a bound."""
            left = self.writer.binary("subi", bound, place)
            return left if step == 1 else self.writer.binary("ceildivsi", left, step)

        low = self.writer.binary("maxsi", ahead(0), 0)
        high = self.writer.binary("minsi", ahead(window.size), taps.count)
        return low, high

    @abc.abstractmethod
    def _write_taps(
        self, start: Linear, rows: int, at: Linear, tap: Linear, sums: list[str]
    ) -> list[str]:
        """Writes the work on one row of taps.

        Args:
          start: x of the tile's first pixel.
          rows: pixels of the tile.
          at: offset in the image of the row of taps, at x 0 and channel 0.
          tap: number of the row's first tap in the filter.
          sums: the accumulators.

        Returns:
          The accumulators after it.
        """

    def _used(self, start: Linear, rows: int, tap: int) -> list[int]:
        """The pixels of a tile that read the image, and no zero, at a tap along x."""
        known = start.is_constant
        return [r for r in range(rows) if not known or self._reads(start.constant + r, tap)]

    def _place(self, start: Linear, row: int, tap: int) -> Linear:
        """The offset in the image of a pixel's element at a tap along x."""
        window = self._inner
        if window is None:
            return Linear()
        x = (start + row) * window.stride + window.element(self.residue, tap)
        return x * window.step

    # --- after the accumulation -------------------------------------------------------------------

    def _write_epilogue(
        self, start: Linear, rows: int, sums: list[str], positions: list[Position]
    ) -> None:
        """Writes the epilogue and the results."""
        vectors = self.tile.vectors
        if not self._has_pixel_lanes(start, positions[0]):
            before = len(self.writer.lines)
            self._finish(sums[:vectors], positions[:vectors])
            written = [n for n in self.writer.lines[before:] if not n.endswith(": index")]
            is_short = operations(written) <= MAX_UNROLLED_EPILOGUE * vectors
            if is_short and self._stores_vectors:
                for row in range(1, rows):
                    part = slice(row * vectors, (row + 1) * vectors)
                    self._finish(sums[part], positions[part])
                self._store_pixels(start, rows)
                return
            del self.writer.lines[before:]
        self.body.forget()
        kind = f"memref<{rows * vectors * self.lanes}x{self.accumulator}>"
        stack = self.writer.stack(kind, use="accumulators")
        for number, name in enumerate(sums):
            at = self.writer.index(number * self.lanes)
            self.writer.line(f"vector.store {name}, {stack}[{at}] : {kind}, {self.kind}")
        self._finish_rows(start, rows, stack, kind)

    def _finish_rows(self, start: Linear, rows: int, stack: str, kind: str) -> None:
        """Writes a loop with the epilogue of rows whose accumulators are in a buffer of a type."""
        vectors = self.tile.vectors
        if self._has_pixel_lanes(start, self._position(start, 0, 0)):
            self._finish_pixels(start, rows, stack, kind)
            return

        def step(row: str, _: list[str]) -> list[str]:
            places = [linear(row) * (vectors * self.lanes) + v * self.lanes for v in range(vectors)]
            names = [
                self.writer.value(
                    f"vector.load {stack}[{self.writer.index(at)}] : {kind}, {self.kind}"
                )
                for at in places
            ]
            here = [self._position(start + linear(row), 0, v) for v in range(vectors)]
            self._finish(self._from_stack(names, here), here)
            return []

        self.writer.loop(0, rows, 1, [], [], step)
        self.body.forget()
        self._store_pixels(start, rows)
