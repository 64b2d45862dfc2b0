"""All iterations of a recurrence in one kernel, whose workgroups have rows or columns of their own.

    for each iteration, for each part of it:         one, or ranges of the columns
      for each tile of columns, each tile of rows:
        accumulators of h @ W, one for each gate:    an element of h times vectors of packed weights
        for each row: the elementwise ops, the new states, the iteration's slices of results

States are in a buffer in memory: those that are contracted twice, since each tile reads all of
their columns as they were before the iteration. Where there are more cores than rows, several
workgroups share the columns of their rows as parts of the iterations (`shared_steps`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.kernels.recurrence.analysis import RecurrenceAnalysis, Stack, State
from mlirfuse.kernels.vector import packing
from mlirfuse.kernels.vector.executable import VectorKernel, memref
from mlirfuse.kernels.vector.lane_math import LaneMath
from mlirfuse.kernels.vector.pointwise import Axes, Position
from mlirfuse.kernels.vector.recurrence_body import StepBody, source_axes
from mlirfuse.kernels.vector.recurrence_split import Split
from mlirfuse.kernels.vector.register_tiles import RegisterTile
from mlirfuse.kernels.vector.shared_steps import SharedSteps, flags_type
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.targets.base import CpuDevice

ENTRY, FLAGS = "recurrence", "%z0"

Tiles = tuple[Linear, Linear]
"""The first tile of columns, and the one behind the last."""


@dataclasses.dataclass(frozen=True, slots=True)
class Gates:
    """A contraction of a state, as blocks of columns that are as wide as the states.

    Attributes:
      op: the contraction.
      state: the state.
      weights: its weights.
      rows_are_k: whether the first dimension of the weights is the contracted one.
      distances: distances of the blocks' columns from those of the states.
      key: names its packed weights.
    """

    op: ir.Operation
    state: State
    weights: ir.Value
    rows_are_k: bool
    distances: tuple[int, ...]
    key: str


class RecurrenceKernel:
    """Writes one kernel.

    Attributes:
      analysis: the loop.
      gates: its contractions.
      split: how workgroups divide the rows and the columns of the states.
      tile: rows and vectors of columns of a tile.
    """

    def __init__(
        self,
        analysis: RecurrenceAnalysis,
        body: StepBody,
        gates: Sequence[Gates],
        split: Split,
        device: CpuDevice,
    ) -> None:
        self.analysis, self.body, self.gates, self.device = analysis, body, gates, device
        self.split, self.tile = split, split.tile
        tile, groups = split.tile, split.groups
        self.writer, self.math, self.lanes = body.writer, LaneMath(body, device), body.lanes
        self._rows = math.prod(analysis.row_sizes)
        self._wide = tile.vectors * self.lanes
        self._tiles = -(-analysis.columns // self._wide)
        self._share = -(-self._rows // groups)
        self._slots = -(-self._share // tile.rows) * tile.rows
        self._half_size = self._slots * self._tiles * self._wide
        contracted = {one.state for one in gates}
        self._starts: dict[State, int] = {}
        self._size = 0
        for state in analysis.states:
            self._starts[state] = self._size
            self._size += self._half_size * (2 if state in contracted else 1)
        self._twice = contracted
        self._scratch = builders.tensor_type([self._size * groups], "f32")
        self._buffer = f"%y{len(analysis.results)}"
        self._packed = {
            one.key: body.reserve(one.key, packed_type(one, analysis.columns, tile, self.lanes))
            for one in gates
        }
        self._base = self._first = self._end = self._old = self._new = self._complete = Linear()
        self._shared: SharedSteps | None = None

    def write(self) -> VectorKernel:
        """Writes the whole kernel."""
        writer, analysis = self.writer, self.analysis
        workgroup = writer.value("hal.interface.workgroup.id[0] : index")
        group, part = writer.split(workgroup, (self.split.groups, self.split.parts))
        self._base = group * self._size
        self._first = group * self._share
        self._end = linear(writer.binary("minsi", self._first + self._share, self._rows))
        flags = () if self.split.parts == 1 else (flags_type(self.split.groups, self.split.parts),)
        for kind in flags:
            self._shared = SharedSteps(writer, FLAGS, kind, self.split.parts)
            complete = self._shared.join(group, part)
            self._complete = linear(writer.binary("maxsi", complete + -1, 0))

        # Of an even iteration; the final states are in the half that the last one wrote.
        self._new = Linear()
        self._each_part(Linear(), lambda tiles: self._each_vector(tiles, self._write_initial))

        def step(number: str, _: list[str]) -> list[str]:
            self._old = linear(writer.binary("remui", number, 2)) * self._half_size
            self._new = self._old * -1 + self._half_size
            self._each_part(
                linear(number) + 1, lambda tiles: self._write_step(linear(number), tiles)
            )
            return []

        iterations = analysis.iterations
        writer.loop(self._complete, iterations, 1, [], [], step)
        self._old = Linear(constant=iterations % 2 * self._half_size)
        self._each_part(
            Linear(constant=iterations + 1),
            lambda tiles: self._each_vector(tiles, self._write_final),
        )
        grid = (self.split.groups * self.split.parts, 1)
        return self.body.kernel(ENTRY, analysis.results, grid, (self._scratch,), flags)

    # --- loops ------------------------------------------------------------------------------------

    def _each_part(self, step: Linear, write: Callable[[Tiles], None]) -> None:
        """Writes the parts of a step: the first states, an iteration, or the final states.

        Args:
          step: its number.
          write: writes a part, from the first of its tiles of columns and the one behind the last.
        """
        if self._shared is None:
            write((Linear(), Linear(constant=self._tiles)))
            return

        def part(number: Linear) -> None:
            first, end = (
                linear(self.writer.binary("divui", (number + n) * self._tiles, self.split.parts))
                for n in range(2)
            )
            write((first, end))

        self._shared.each_part(step, part)

    def _each_vector(self, tiles: Tiles, write: Callable[[Linear, Position], None]) -> None:
        """Writes a loop over all vectors of the states in a range of tiles of columns."""

        def tile(number: str, _: list[str]) -> list[str]:
            column = linear(number) * self._wide
            self._each_in_tile(Linear(), column, Linear(), self._slots, write)
            return []

        self.writer.loop(*tiles, 1, [], [], tile)

    def _each_in_tile(
        self,
        step: Linear,
        column: Linear,
        start: Linear,
        rows: int,
        write: Callable[[Linear, Position], None],
    ) -> None:
        """Writes a loop over the vectors of a tile.

        Args:
          step: the number of the iteration.
          column: the first column.
          start: the first row, of those of the workgroup.
          rows: the number of rows.
          write: writes what is done for one vector, from its row in the tile and its position.
        """
        writer, analysis = self.writer, self.analysis

        def vector(number: str, row: str) -> None:
            self._slot = start + linear(row)
            here = column + linear(number) * self.lanes
            last = writer.binary("minsi", self._first + self._slot, self._end + -1)
            self.body.begin(step, here)
            position = self.body.at(tuple(writer.split(last, analysis.row_sizes)), self._mask(here))
            self._vector = linear(number)
            write(linear(row), position)
            self.body.forget()

        def row(number: str, _: list[str]) -> list[str]:
            def inner(place: str, _: list[str]) -> list[str]:
                vector(place, number)
                return []

            writer.loop(0, self.tile.vectors, 1, [], [], inner)
            return []

        writer.loop(0, rows, 1, [], [], row)

    def _mask(self, column: Linear) -> str:
        """The lanes of a vector that are columns; empty where all are."""
        columns = self.analysis.columns
        if columns % self._wide == 0:
            return ""
        left = self.writer.index(linear(columns) + column * -1)
        some = self.writer.binary("maxsi", left, 0)
        mask = self.writer.value(f"vector.create_mask {some} : {self.body.vector_type('i1')}")
        self.body.add_mask(mask, some, self.device)
        return mask

    # --- states in memory -------------------------------------------------------------------------

    def _place(self, state: State, row: Linear, column: Linear, half: Linear) -> Linear:
        """The place of an element of a state in a row of the workgroup."""
        at = self._base + self._starts[state] + row * (self._tiles * self._wide) + column
        return at + half if state in self._twice else at

    def _own(self, state: State, position: Position, half: Linear) -> str:
        """The place of the current vector of a state."""
        column = position.index[self.body.column_axis]
        return self.writer.index(self._place(state, self._slot, column, half))

    def _read(self, state: State, position: Position) -> str:
        at, kind = self._own(state, position, self._old), memref(self._scratch)
        return self.writer.value(f"vector.load {self._buffer}[{at}] : {kind}, {self.math.kind}")

    def _keep(self, state: State, position: Position, vector: str) -> None:
        at, kind = self._own(state, position, self._new), memref(self._scratch)
        self.writer.line(f"vector.store {vector}, {self._buffer}[{at}] : {kind}, {self.math.kind}")

    def _write_initial(self, row: Linear, position: Position) -> None:
        for state in self.analysis.states:
            vector = self.body.vector(state.initial, self.body.axes, position)
            self._keep(state, position, vector)

    def _write_final(self, row: Linear, position: Position) -> None:
        for state in self.analysis.states:
            if state.result in self.analysis.results:
                vector = self._read(state, position)
                self._store(state.result, self.body.axes, position, vector)

    def _store(self, result: ir.Value, axes: Axes, position: Position, vector: str) -> None:
        number = self.analysis.results.index(result)
        at = self.body.offset(result.type, axes, position.index)
        self.body.store(f"%y{number}", result.type, vector, at, position.mask)

    # --- one iteration ----------------------------------------------------------------------------

    def _write_step(self, step: Linear, tiles: Tiles) -> None:
        """Writes a range of tiles of columns of one iteration."""

        def columns(number: str, _: list[str]) -> list[str]:
            def rows(start: str, _: list[str]) -> list[str]:
                self._write_tile(step, linear(number), linear(start))
                return []

            self.writer.loop(0, self._slots, self.tile.rows, [], [], rows)
            return []

        self.writer.loop(*tiles, 1, [], [], columns)

    def _write_tile(self, step: Linear, tile: Linear, start: Linear) -> None:
        """Writes the contractions of a tile, and the elementwise ops behind them."""
        for one in self.gates:
            self._accumulate(one, tile, start)

        def finish(row: Linear, position: Position) -> None:
            self.body.read_state = self._read
            self.body.accumulator = lambda op, distance: self._accumulated(op, distance, row)
            self._finish(step, position)

        self._each_in_tile(step, tile * self._wide, start, self.tile.rows, finish)

    def _accumulate(self, one: Gates, tile: Linear, start: Linear) -> None:
        """Writes the accumulators of a contraction into a buffer."""
        writer, (rows, vectors) = self.writer, (self.tile.rows, self.tile.vectors)
        count = len(one.distances) * vectors
        packed = packed_type(one, self.analysis.columns, self.tile, self.lanes)
        step = count * self.lanes
        at = tile * (self.analysis.columns * step)
        kind, buffer = self._accumulators(one)
        zero = self.body.splat("0.0", "f32")

        def channel(number: str, sums: list[str]) -> list[str]:
            place = at + linear(number) * step
            weights = [
                self.body.load(self._packed[one.key], packed, place + n * self.lanes)
                for n in range(count)
            ]
            found = []
            for row in range(rows):
                element = self.math.broadcast(
                    self._buffer,
                    self._scratch,
                    self._place(one.state, start + row, linear(number), self._old),
                )
                held = sums[row * count : (row + 1) * count]
                found += [
                    self.math.multiply_add(element, weight, total)
                    for weight, total in zip(weights, held, strict=True)
                ]
            return found

        kinds = [self.math.kind] * (rows * count)
        sums = writer.loop(0, self.analysis.columns, 1, [zero] * len(kinds), kinds, channel)
        for n, name in enumerate(sums):
            place = writer.index(n * self.lanes)
            writer.line(f"vector.store {name}, {buffer}[{place}] : {kind}, {self.math.kind}")

    def _accumulators(self, one: Gates) -> tuple[str, str]:
        """The type and the name of the buffer of a contraction's accumulators."""
        size = self.tile.rows * len(one.distances) * self._wide
        kind = f"memref<{size}xf32>"
        return kind, self.writer.stack(kind, use=one.key)

    def _accumulated(self, op: ir.Operation, distance: int, row: Linear) -> str:
        """The current vector of a contraction, in a row of the tile."""
        one = next(one for one in self.gates if one.op == op)
        kind, buffer = self._accumulators(one)
        block = one.distances.index(distance)
        at = (row * len(one.distances) + block) * self._wide + self._vector * self.lanes
        place = self.writer.index(at)
        return self.writer.value(f"vector.load {buffer}[{place}] : {kind}, {self.math.kind}")

    def _finish(self, step: Linear, position: Position) -> None:
        """Writes the new states of the current vector, and the slices of the iteration."""
        analysis, body = self.analysis, self.body
        new = [body.vector(state.new, body.axes, position) for state in analysis.states]
        for stack in analysis.stacks:
            vector = body.vector(stack.source, source_axes(body, stack.source), position)
            if stack.result in analysis.results:
                self._store_slice(stack, step, position, vector)
        for state, vector in zip(analysis.states, new, strict=True):
            self._keep(state, position, vector)

    def _store_slice(self, stack: Stack, step: Linear, position: Position, vector: str) -> None:
        axes = list(self.body.axes)
        axes.insert(stack.dimension, len(position.index))
        index = (*position.index, step * stack.index.step + stack.index.start)
        moved = dataclasses.replace(position, index=index)
        self._store(stack.result, tuple(axes), moved, vector)


def packed_type(one: Gates, columns: int, tile: RegisterTile, lanes: int) -> ir.Type:
    """The type of the packed weights of a contraction."""
    wide = tile.vectors * lanes
    tiles = -(-columns // wide)
    return builders.tensor_type([tiles * columns * len(one.distances) * wide], "f32")


def packed(held: ir.Value, one: Gates, columns: int, tile: RegisterTile, lanes: int) -> ir.Value:
    """Weights as [tiles of columns][contracted columns][blocks][columns of a tile].

    Args:
      held: the weights.
      one: their contraction.
      columns: columns of the states.
      tile: the tile.
      lanes: elements of a vector.
    """
    value = builders.transpose(held, [1, 0]) if one.rows_are_k else held
    blocks, wide = len(one.distances), tile.vectors * lanes
    value = builders.expand(value, builders.split_axis(2, 0), [blocks, columns, columns])
    value = builders.transpose(value, [0, 2, 1])  # [blocks][contracted columns][columns]
    value = packing.split(value, 0, wide)  # [tiles][blocks][contracted columns][columns of a tile]
    value = builders.transpose(value, [0, 2, 1, 3])
    return builders.collapse(value, [[0, 1, 2, 3]])
