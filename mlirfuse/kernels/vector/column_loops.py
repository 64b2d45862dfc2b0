"""Loops over reduced dimensions whose lanes are elements of kept ones, contiguous in memory.

for each loop of the schedule
  for each reduced axis: combine vectors of the operands with the accumulators, store results

No lanes are combined: each lane is a result. A tile is some vectors of lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.iteration_space import Axis
from mlirfuse.kernels.vector.accumulators import Accumulators, additions
from mlirfuse.kernels.vector.column_layout import Layout
from mlirfuse.kernels.vector.pointwise import Axes, Pointwise, Position
from mlirfuse.kernels.vector.row_analysis import (
    COLUMN,
    RowAnalysis,
    RowReduction,
)
from mlirfuse.kernels.vector.row_schedule import Schedule, result_axes
from mlirfuse.kernels.vector.writer import Linear, Writer, linear, operations
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice

Range = tuple[Linear | int | str, Linear | int | str, int]
"""First index, the index before which a loop ends, and iterations at most."""


class ColumnBody(Pointwise):
    """Writes the elementwise ops. The axes are outer ones, reduced ones, and those of the lanes.

    Attributes:
      analysis: the region.
      first_lane: the first axis of the lanes.
      totals: a reduction's value and the number of a vector of lanes -> its total.
    """

    def __init__(self, writer: Writer, lanes: int, analysis: RowAnalysis, kept: Layout) -> None:
        super().__init__(writer, lanes)
        self.analysis, self._layout = analysis, kept
        self.first_lane = self.first_merged = len(kept.outer) + len(analysis.column_sizes)
        self.totals: dict[tuple[ir.Value, int], str] = {}
        self._reduced = {one.value for one in analysis.reductions}

    def axis(self, axis: Axis | None) -> int | None:
        """The number of an axis in positions."""
        if axis is None:
            return None
        if axis[0] == COLUMN:
            return len(self._layout.outer) + axis[1]
        if axis[1] in self._layout.outer:
            return self._layout.outer.index(axis[1])
        return self.first_lane + self._layout.lanes.index(axis[1])

    def axes(self, value: ir.Value) -> Axes:
        """The axes of a value of the region."""
        return tuple(map(self.axis, result_axes(self.analysis, value)))

    def total(self, value: ir.Value, element: str, position: Position) -> str:
        """The total of a reduction, whose element type is given, in the lanes of a position."""
        return self.totals[value, int(position.key[0])]

    def scalars(self, op: ir.Operation, position: Position) -> dict[ir.Value, str]:
        """The vectors of the scalars in the body of an op, without those of its accumulators."""
        loops = [self.axis(axis) for axis in self.analysis.loops[op]]
        skipped = {one.combine for one in self.analysis.reductions if one.op == op}
        values: dict[ir.Value, str] = {}
        body = self.forms.body(op)
        for argument, operand, index_map in body.reads:
            if not self.analysis.accumulates(op, argument):
                axes = tuple(None if n is None else loops[n] for n in index_map)
                values[argument] = self.vector(operand, axes, position)
        self.apply_all((o for o in body.computed if o not in skipped), values, loops, position)
        return values

    def _vector(self, value: ir.Value, axes: Axes, position: Position) -> str:
        op = ops.defining_op(value)
        if op is None or op not in self.analysis.loops or self.forms.literal(value) is not None:
            return super()._vector(value, axes, position)
        if self.axes(value) != axes:
            raise Unsupported("a value that is read along other axes")
        if value in self._reduced:
            return self.total(value, ops.element_type(value), position)
        yielded = self.forms.body(op).yielded[list(op.results).index(value)]
        return self.scalar(yielded, self.scalars(op, position))

    def _load(self, value: ir.Value, axes: Axes, position: Position) -> str:
        """The lanes of a tensor from outside."""
        return self._load_slice(value, axes, position) or super()._load(value, axes, position)


class ColumnLoops:
    """Writes the loops of one kernel.

    Attributes:
      analysis: the region.
      layout: its kept axes.
      schedule: its loops.
      device: the CPU.
      vectors: vectors of the tile that is written.
      sizes: iterations of the loops over reduced axes.
      ranges: loop -> its iterations that the kernel takes; those that are missing are whole.
      outputs: the name of the buffer of each result.
      outer_index: the indices of the outer axes.
    """

    def __init__(
        self, analysis: RowAnalysis, kept: Layout, plan: Schedule, device: CpuDevice
    ) -> None:
        self.analysis, self.layout, self.schedule, self.device = analysis, kept, plan, device
        self.lanes = device.lanes
        self.writer = Writer()
        self.body = ColumnBody(self.writer, self.lanes, analysis, kept)
        self.sizes = analysis.column_sizes
        self.accumulators = Accumulators(self.writer, self.body)
        self.vectors = 1
        self.ranges: dict[int, Range] = {}
        self.outputs = [f"%y{n}" for n in range(len(analysis.results))]
        self.outer_index = [Linear()] * len(kept.outer)
        self._place = Linear()
        self._column = Linear()
        self._mask = ""

    # --- tiles ------------------------------------------------------------------------------------

    @property
    def max_vectors(self) -> int:
        """Vectors of a tile at most: accumulators of a loop take half of the registers."""
        count = max(1, *map(len, self.schedule.reductions))
        return max(1, self.device.num_registers // (2 * count))

    def tiles(self, vectors: int) -> int:
        """Tiles of that many vectors at most; all but the last one of each line have as many."""
        return self.layout.num_outer * -(-self.layout.extent // (vectors * self.lanes))

    def write_tile(self, number: str, vectors: int, write: Callable[[], None]) -> None:
        """Writes the code of a tile, and that of a smaller last one, if there is one."""
        per_line = self.tiles(vectors) // self.layout.num_outer
        place = self.writer.binary("remui", number, per_line)
        line = self.writer.binary("divui", number, per_line)
        sizes = [self.analysis.row_sizes[axis] for axis in self.layout.outer]
        self.outer_index = self.writer.split(line, sizes)
        self._column = linear(place) * (vectors * self.lanes)
        self._place = linear(line) * self.layout.extent + self._column
        last = -(-self.layout.extent // self.lanes) - (per_line - 1) * vectors
        masked = self.layout.extent % self.lanes
        if last == vectors and not masked:
            self._write_as(vectors, "", write)
            return
        mask = ""
        if masked:
            mask = self.writer.hoisted(
                f"vector.constant_mask [{masked}] : {self.body.vector_type('i1')}"
            )
        if per_line == 1:
            self._write_as(vectors, mask, write)
            return
        end = self.writer.index(per_line - 1)
        is_last = self.writer.value(f"arith.cmpi eq, {place}, {end} : index")
        with self.writer.block(f"scf.if {is_last} {{", "} else {"):
            self._write_as(last, mask, write)
        with self.writer.block("// whole tiles", "}"):
            self._write_as(vectors, "", write)

    def _write_as(self, vectors: int, mask: str, write: Callable[[], None]) -> None:
        self.vectors, self._mask = vectors, mask
        self.body.totals.clear()
        self.body.forget()
        write()
        self.body.forget()

    def positions(self, reduced: Sequence[Linear] | None = None) -> list[Position]:
        """The positions of the vectors of a tile, at some indices of the reduced axes."""
        if reduced is None:
            reduced = [Linear()] * len(self.analysis.column_sizes)
        before = (*self.outer_index, *reduced, *[Linear()] * (len(self.layout.lanes) - 1))
        return [
            Position((n,), (*before, self._column + n * self.lanes), self.mask_of(n))
            for n in range(self.vectors)
        ]

    def mask_of(self, vector: int) -> str:
        """The lanes of a vector of the tile that exist; empty where all do."""
        return self._mask if vector == self.vectors - 1 else ""

    def place_of(self, vector: int) -> Linear:
        """The place of a vector's first lane among all results."""
        return self._place + vector * self.lanes

    # --- loops ------------------------------------------------------------------------------------

    def write_loop(self, loop: int) -> list[tuple[RowReduction, int, str]]:
        """Writes a loop; returns its totals: reduction, vector, and the total of each lane."""
        reductions = self.schedule.reductions[loop]
        work = [(one, n) for one in reductions for n in range(self.vectors)]
        ones = [one for one, _ in work]
        totals = self.nest(ones, self.sizes, 1, lambda at, held: self._combined(loop, at, held))
        self.body.forget()
        return [(one, n, total) for (one, n), total in zip(work, totals, strict=True)]

    def nest(
        self,
        ones: Sequence[RowReduction],
        sizes: Sequence[int],
        terms: int,
        body: Callable[[list[Linear], list[str]], list[str]],
    ) -> list[str]:
        """Writes loops over reduced axes that carry accumulators.

        Args:
          ones: the reduction of each accumulator.
          sizes: iterations of the loops.
          terms: additions of an innermost iteration to an accumulator.
          body: writes an innermost iteration, from the indices and the accumulators.

        Returns:
          The accumulators after the loops.
        """
        ranges = [self.ranges.get(n, (0, size, size)) for n, size in enumerate(sizes)]
        counts = [terms]
        for *_, most in reversed(ranges[1:]):
            counts.insert(0, additions(most, counts[0]))

        def loop(index: list[Linear], held: list[str]) -> list[str]:
            if len(index) == len(sizes):
                return body(index, held)
            start, stop, most = ranges[len(index)]
            count = counts[len(index)]
            bounds = (start, stop, 1)
            return self.accumulators.loop(
                ones, bounds, most, held, lambda n, inner: loop([*index, linear(n)], inner), count
            )

        return loop([], [self.accumulators.neutral(one) for one in ones])

    def _combined(self, loop: int, index: list[Linear], held: Sequence[str]) -> list[str]:
        """The accumulators combined with the terms at one index of the reduced axes."""
        self.body.forget()
        positions, totals = self.positions(index), list(held)
        for number, one in enumerate(self.schedule.reductions[loop]):
            for vector, position in enumerate(positions):
                place = number * self.vectors + vector
                totals[place] = self.term_combined(one, totals[place], position)
        for number in self.schedule.results[loop]:
            self.store(number, positions)
        self.body.forget()
        return totals

    def term_combined(self, one: RowReduction, total: str, position: Position) -> str:
        """An accumulator combined with the terms at a position, in the lanes that exist there."""
        term = self.body.scalar(one.term, self.body.scalars(one.op, position))
        made = self.accumulators.combined(one, total, self.accumulators.widened(one, term))
        return self.accumulators.masked(one, position.mask, made, total)

    def define(self, totals: Sequence[tuple[RowReduction, int, str]]) -> None:
        """Sets the totals of reductions, combined with their inits."""
        for one, vector, total in totals:
            self.body.totals[one.value, vector] = self.accumulators.finished(one, total)

    def store(self, number: int, positions: Sequence[Position]) -> None:
        """Stores a result's lanes."""
        value = self.analysis.results[number]
        for position in positions:
            axes = self.body.axes(value)
            name = self.body.vector(value, axes, position)
            at = self.body.offset(value.type, axes, position.index)
            self.body.store(self.outputs[number], value.type, name, at, position.mask)

    def work(self) -> int:
        """Operations on elements for one lane."""
        before, total = len(self.writer.lines), 0
        for loop, reductions in enumerate(self.schedule.reductions):
            start = len(self.writer.lines)
            index = [Linear()] * len(self.analysis.column_sizes)
            self._combined(loop, index, [self.accumulators.neutral(one) for one in reductions])
            total += max(1, operations(self.writer.lines[start:]))
            self.body.totals |= {(one.value, 0): "%unknown" for one in reductions}
        del self.writer.lines[before:]
        self.body.totals.clear()
        return total * math.prod(self.analysis.column_sizes)
