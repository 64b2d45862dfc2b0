"""Contractions on the matrix unit of Intel's servers (AMX), of bf16 and of i8.

    ldtilecfg                                            the shapes of the tile registers
    for each tile of 32 rows, each tile of 32 columns:
      for each 64 bytes of K:
        two tiles of the image, two of the filter:       tileloadd
        four accumulators:                               tdpbf16ps, tdpbssd, ...
      the accumulators go through the stack:             tilestored, then the epilogue

The packed filter has zeros up to a whole step of K; the last elements of the image's rows are
copied to the stack for it. Where Linux refuses the use of tile registers, the same tiles are
computed without them.
"""

from __future__ import annotations

import math

from mlirfuse.kernels.vector.dense import Dense
from mlirfuse.kernels.vector.executable import VectorKernel, memref
from mlirfuse.kernels.vector.forms import literal
from mlirfuse.kernels.vector.grouped import GroupedKernel
from mlirfuse.kernels.vector.pointwise import Position
from mlirfuse.kernels.vector.products import TILE_BYTES, TILE_ROWS, Operands, Product
from mlirfuse.kernels.vector.register_tiles import RegisterTile
from mlirfuse.kernels.vector.tile_registers import TileRegisters
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice
from mlirfuse.targets.cpu_rates import MATRIX_SPEEDUP

MAX_TILES = 2
"""Tile registers of rows, and of columns, in a block of accumulators: eight registers hold four
accumulators, two tiles of the image and two of the filter."""

_ACCUMULATOR, _IMAGE, _FILTER = 0, 4, 6
"""The first tile register of each kind."""


def register_tile(columns: int, device: CpuDevice) -> RegisterTile:
    """The block of accumulators for so many columns."""
    vectors = min(MAX_TILES, -(-columns // device.lanes))
    return RegisterTile(MAX_TILES * TILE_ROWS, vectors)


class MatrixKernel(GroupedKernel):
    """Writes one kernel: of pixels that are one axis, whose input channels are contiguous.

    Attributes:
      depth: elements of K in a tile register.
      uses_tiles: whether the code that is written has the use of tile registers.
    """

    def __init__(
        self, problem: Dense, device: CpuDevice, product: Product, kinds: Operands
    ) -> None:
        super().__init__(problem, device, product, kinds, flat=True)
        self.depth = product.step
        self.uses_tiles = True
        self.registers = TileRegisters(self.writer)
        self._tile_range = (Linear(), Linear())

    # --- the loops over tiles ---------------------------------------------------------------------

    def write(self, entry: str) -> VectorKernel:
        """Writes the whole kernel."""
        dense, writer = self.dense, self.writer
        groups, most = math.prod(dense.groups), self._column_tiles()
        parts = -(-self.tiles // most)
        work = max(1, dense.depth * most * self.wide // self.step // MATRIX_SPEEDUP)
        blocks, size = self._blocks(groups * parts, work)
        part = writer.value("hal.interface.workgroup.id[0] : index")
        block = writer.value("hal.interface.workgroup.id[1] : index")
        if dense.groups:
            number = writer.binary("divui", part, parts)
            self.group_number = linear(number)
            self.group = tuple(writer.split(number, dense.groups))
            part = writer.binary("remui", part, parts)
        begin = linear(part) * most
        self._tile_range = begin, linear(writer.binary("minsi", begin + most, self.tiles))
        first, last = self._bounds(block, size)
        allowed = self.registers.permission()
        with writer.block(f"scf.if {allowed} {{"):
            self._configure(self.tile.rows)
            self._write_rows(first, last)
            self.registers.release()
        true = writer.hoisted("arith.constant true")
        refused = writer.value(f"arith.xori {allowed}, {true} : i1")
        self.uses_tiles = False
        with writer.block(f"scf.if {refused} {{"):
            self._write_rows(first, last)
        return self._kernel(entry, (groups * parts, blocks))

    @property
    def wide(self) -> int:
        """Columns of a tile."""
        return self.tile.vectors * self.lanes

    def _column_tiles(self) -> int:
        """Tiles of columns of a workgroup: the second cache keeps their filter for all its rows."""
        element = self.device.vector_bytes // self.lanes
        panel = self.dense.depth * self.wide * element // self.product.group
        fit = max(1, self.device.l2_bytes // 2 // panel)
        row_tiles = -(-self.width // self.tile.rows) * math.prod(self.dense.groups)
        balanced = -(-self.tiles * row_tiles // (2 * self.device.cores))
        return min(self.tiles, fit, max(1, balanced))

    def _write_tile(self, start: Linear, rows: int) -> None:
        """Writes the tiles of all columns for some rows."""
        if self.uses_tiles and rows != self.tile.rows:
            self._configure(rows)  # The last tile of a workgroup.

        def tile(number: str, _: list[str]) -> list[str]:
            self.weights = self.group_number * self.tiles + linear(number)
            self.column = linear(number) * self.wide
            self._write_masks()
            self._write_block(start, rows)
            return []

        self.writer.loop(*self._tile_range, 1, [], [], tile)

    def _write_block(self, start: Linear, rows: int) -> None:
        """Writes one block of accumulators, and its epilogue."""
        self.body.forget()
        at = self._moved(start * self.dense.pixel_step, self.dense.group_steps)
        weights = self.weights * (self.dense.depth * self.wide)
        stack, kind = self._stack(rows)
        if self.uses_tiles:
            self._multiply(at, weights, rows, stack)
        else:
            self._multiply_without_tiles(at, weights, rows, stack, kind)
        self._finish_rows(start, rows, stack, kind)

    def _stack(self, rows: int) -> tuple[str, str]:
        """The buffer of the accumulators and its type."""
        kind = f"memref<{self.tile.rows * self.wide}x{self.accumulator}>"
        return self.writer.stack(kind, use="accumulators"), kind

    def _from_stack(self, names: list[str], positions: list[Position]) -> list[str]:
        """The accumulators of a row with the init, which tile registers do not start from."""
        if literal(self.problem.init) in ("0", "0.000000e+00", "0.0"):
            return names
        op = "addi" if self.accumulator == "i32" else "addf"
        begun = self._initial_vectors(positions)
        return [
            self.writer.value(f"arith.{op} {init}, {name} : {self.kind}")
            for init, name in zip(begun, names, strict=True)
        ]

    # --- tile registers ---------------------------------------------------------------------------

    def _row_tiles(self, rows: int) -> list[int]:
        """The rows of each tile register of the image."""
        return [min(TILE_ROWS, rows - first) for first in range(0, rows, TILE_ROWS)]

    def _configure(self, rows: int) -> None:
        """Sets the shapes of the tile registers for so many rows."""
        shapes = {_FILTER + vector: (TILE_ROWS, TILE_BYTES) for vector in range(self.tile.vectors)}
        for number, count in enumerate(self._row_tiles(rows)):
            shapes[_IMAGE + number] = (count, TILE_BYTES)
            for vector in range(self.tile.vectors):
                shapes[self._accumulator(number, vector)] = (count, TILE_BYTES)
        self.registers.configure(shapes)

    def _multiply(self, at: Linear, weights: Linear, rows: int, stack: str) -> None:
        """Writes the products of a block into the stack."""
        dense, counts = self.dense, self._row_tiles(rows)
        size = TILE_BYTES // self.depth
        image, filter_type = memref(dense.image.type), memref(dense.packed)
        accumulators = [
            (number, vector) for number in range(len(counts)) for vector in range(self.tile.vectors)
        ]
        for number, vector in accumulators:
            self.registers.zero(self._accumulator(number, vector))

        def step(channel: Linear, buffer: str, kind: str, first: Linear, row_step: int) -> None:
            for vector in range(self.tile.vectors):
                place = weights + channel * self.wide
                place = place + vector * self.lanes * self.product.group
                pointer = self.registers.pointer(self.packed, filter_type, place, size)
                self.registers.load(_FILTER + vector, pointer, self.tile.vectors * TILE_BYTES)
            for number in range(len(counts)):
                place = first + number * TILE_ROWS * row_step
                pointer = self.registers.pointer(buffer, kind, place, size)
                self.registers.load(_IMAGE + number, pointer, row_step * size)
                for vector in range(self.tile.vectors):
                    self.registers.multiply(
                        self.product.intrinsic.removeprefix("llvm.x86."),
                        self._accumulator(number, vector),
                        _IMAGE + number,
                        _FILTER + vector,
                    )

        def body(channel: str, _: list[str]) -> list[str]:
            first = at + linear(channel)
            step(linear(channel), self.image, image, first, dense.pixel_step)
            return []

        rest = dense.channels % self.depth
        whole = dense.channels - rest
        if whole:
            self.writer.loop(0, whole, self.depth, [], [], body)
        if rest:
            buffer, kind = self._copied_rest(at + whole, rows, rest)
            step(Linear(constant=whole), buffer, kind, Linear(), self.depth)
        for number, vector in accumulators:
            place = Linear(constant=number * TILE_ROWS * self.wide + vector * self.lanes)
            kind = f"memref<{self.tile.rows * self.wide}x{self.accumulator}>"
            pointer = self.registers.pointer(stack, kind, place, 4)
            self.registers.store(self._accumulator(number, vector), pointer, 4 * self.wide)

    def _copied_rest(self, at: Linear, rows: int, rest: int) -> tuple[str, str]:
        """A buffer with the last elements of the rows, zeros after them, and its type."""
        writer, element = self.writer, self.kinds.image
        kind, row = f"memref<{self.tile.rows * self.depth}x{element}>", f"{self.depth}x{element}"
        stack = self.writer.stack(kind, use="rest")
        zeros = writer.constant(f"dense<{'0.0' if element == 'bf16' else '0'}>", f"vector<{row}>")
        lanes = [n < rest for n in range(self.depth)]
        mask = writer.constant(f"dense<{str(lanes).lower()}>", f"vector<{self.depth}xi1>")
        image = memref(self.dense.image.type)

        def copy(number: str, _: list[str]) -> list[str]:
            place = writer.index(at + linear(number) * self.dense.pixel_step)
            loaded = writer.value(
                f"vector.maskedload {self.image}[{place}], {mask}, {zeros} : {image},"
                f" vector<{self.depth}xi1>, vector<{row}> into vector<{row}>"
            )
            held = writer.index(linear(number) * self.depth)
            writer.line(f"vector.store {loaded}, {stack}[{held}] : {kind}, vector<{row}>")
            return []

        writer.loop(0, rows, 1, [], [], copy)
        return stack, kind

    def _accumulator(self, number: int, vector: int) -> int:
        return _ACCUMULATOR + MAX_TILES * number + vector

    # --- without tile registers -------------------------------------------------------------------

    def _multiply_without_tiles(
        self, at: Linear, weights: Linear, rows: int, stack: str, kind: str
    ) -> None:
        """Writes the products of a block, element by element of the image."""
        writer, dense, group = self.writer, self.dense, self.product.group
        zero = self.body.splat("0.0" if self.accumulator == "f32" else "0", self.accumulator)
        kinds = [self.kind] * self.tile.vectors

        def add(place: Linear, channel: Linear, count: int, sums: list[str]) -> list[str]:
            words = [
                self._words(weights + channel * self.wide + v * self.lanes * group)
                for v in range(self.tile.vectors)
            ]
            for number in range(count):
                element = self._scalar(place + channel + number)
                sums = [
                    self._multiply_add(element, self._part(word, number), total)
                    for word, total in zip(words, sums, strict=True)
                ]
            return sums

        def row(number: str, _: list[str]) -> list[str]:
            place = at + linear(number) * dense.pixel_step
            rest = dense.channels % group
            whole = dense.channels - rest
            sums = writer.loop(
                *(0, whole, group, [zero] * self.tile.vectors, kinds),
                lambda channel, held: add(place, linear(channel), group, held),
            )
            if rest:
                sums = add(place, Linear(constant=whole), rest, sums)
            for vector, total in enumerate(sums):
                held = writer.index(linear(number) * self.wide + vector * self.lanes)
                writer.line(f"vector.store {total}, {stack}[{held}] : {kind}, {self.kind}")
            return []

        writer.loop(0, rows, 1, [], [], row)

    def _words(self, at: Linear) -> str:
        """Groups of the packed filter, one in each lane, as i32."""
        element = ops.type_element(self.dense.packed)
        held = f"vector<{self.product.group * self.lanes}x{element}>"
        place = self.writer.index(at)
        loaded = self.writer.value(
            f"vector.load {self.packed}[{place}] : {memref(self.dense.packed)}, {held}"
        )
        words = self.body.vector_type("i32")
        return self.writer.value(f"vector.bitcast {loaded} : {held} to {words}")

    def _part(self, words: str, number: int) -> str:
        """One element of each group, as accumulators are."""
        writer, kind = self.writer, self.body.vector_type("i32")
        bits = 32 // self.product.group
        left = self.body.splat(str(32 - bits * (number + 1)), "i32")
        high = writer.value(f"arith.shli {words}, {left} : {kind}")
        right = self.body.splat(str(32 - bits), "i32")
        if self.accumulator == "i32":
            shift = "shrui" if self.kinds.filter_is_unsigned else "shrsi"
            return writer.value(f"arith.{shift} {high}, {right} : {kind}")
        low = writer.value(f"arith.shrui {high}, {right} : {kind}")
        whole = writer.value(f"arith.shli {low}, {right} : {kind}")
        return writer.value(f"arith.bitcast {whole} : {kind} to {self.kind}")

    def _scalar(self, at: Linear) -> str:
        """An element of the image in all lanes, as accumulators are."""
        if self.accumulator == "i32":
            return self._element(at)
        return self.math.broadcast(self.image, self.dense.image.type, at)

    def _multiply_add(self, one: str, other: str, total: str) -> str:
        if self.accumulator == "f32":
            return self.math.multiply_add(one, other, total)
        made = self.writer.value(f"arith.muli {one}, {other} : {self.kind}")
        return self.writer.value(f"arith.addi {total}, {made} : {self.kind}")
