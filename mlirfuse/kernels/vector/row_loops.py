"""Loops over the columns of rows, in kernels that reduce them.

for each segment of columns
  for each vector of columns: combine it with the accumulators, store results
combine the accumulators, then their lanes

The columns of a segment are contiguous in memory; those of a channel of NCHW are N segments.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.vector.accumulators import Accumulators, additions
from mlirfuse.kernels.vector.lane_sums import across_lanes
from mlirfuse.kernels.vector.pointwise import Position
from mlirfuse.kernels.vector.row_analysis import RowAnalysis, RowReduction
from mlirfuse.kernels.vector.row_body import RowBody
from mlirfuse.kernels.vector.row_schedule import Schedule, has_columns, result_axes
from mlirfuse.kernels.vector.writer import Linear, Writer, linear, operations
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice
from mlirfuse.targets.cpu_rates import FMA_LATENCY


@dataclasses.dataclass(frozen=True, slots=True)
class Columns:
    """Some columns of a segment.

    Attributes:
      start: the first one.
      size: how many there are at most, a multiple of those of an iteration.
      is_last: the condition that they are the last ones.
    """

    start: Linear
    size: int
    is_last: str


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """The columns of a row that a kernel takes.

    Attributes:
      segments: the first segment, and the one before which it ends.
      num_segments: segments at most.
      columns: the columns of each of them; None for all.
    """

    segments: tuple[Linear | int | str, Linear | int | str]
    num_segments: int
    columns: Columns | None = None


class RowLoops:
    """Writes the loops of one kernel.

    Attributes:
      analysis: the region.
      schedule: its loops.
      device: the CPU.
      columns: contiguous elements of a row.
      segments: how many times a row has as many.
      part: the part of the columns that the kernel takes.
    """

    def __init__(self, analysis: RowAnalysis, plan: Schedule, device: CpuDevice) -> None:
        self.analysis, self.schedule, self.device = analysis, plan, device
        self.writer = Writer()
        self.lanes = device.lanes
        self.body = RowBody(self.writer, self.lanes, analysis, plan.homes)
        self.accumulators = Accumulators(self.writer, self.body)
        self.columns, self.segments = analysis.contiguous_columns, analysis.num_segments
        self.part = Part((0, self.segments), self.segments)
        self._rows: list[list[Linear]] = []
        self._segment = [Linear()] * analysis.segment_axes
        self._mask, lanes = "", self.body.vector_type("i1")
        if rest := self.columns % self.lanes:
            self._mask = self.writer.hoisted(f"vector.constant_mask [{rest}] : {lanes}")

    # --- positions --------------------------------------------------------------------------------

    def _position(self, row: int, column: Linear | int, key: int | str, mask: str = "") -> Position:
        columns = [Linear()] * len(self.analysis.column_sizes)
        columns[: len(self._segment)] = self._segment
        columns[-1] = linear(column)
        return Position((row, key), (*self._rows[row], *columns), mask)

    def begin(self, numbers: Sequence[Linear]) -> None:
        """Starts rows that are computed together."""
        self._rows = [self.writer.split(number, self.analysis.row_sizes) for number in numbers]
        self.body.begin_rows([self._position(n, 0, "row") for n in range(len(numbers))])

    # --- values of rows ---------------------------------------------------------------------------

    def write_row_values(self, loop: int) -> None:
        """Writes the values without columns that wait for the loops before one."""
        self.body.loop = loop
        for op in self.analysis.group:
            if self.schedule.levels[op] > loop:
                continue
            axes = self.analysis.loops[op]
            reads = zip(op.operands, ops.plain_maps(op), ops.body(op).arguments, strict=True)
            for value, index_map, argument in reads:
                read = [None if n is None else axes[n] for n in index_map]
                used = ops.users(argument) and not self.analysis.accumulates(op, argument)
                if used and not has_columns(self.analysis, read):
                    for row in self.body.rows:
                        self.body.of_row(value, self.body.axes(op, index_map), row)

    def store_row_results(self) -> None:
        """Writes the results without columns."""
        for number in self.schedule.row_results:
            value = self.analysis.results[number]
            for row in self.body.rows:
                self.body.store_row_result(number, value, row)

    # --- one loop over the columns ----------------------------------------------------------------

    def write_loop(self, loop: int) -> list[tuple[int, RowReduction, str]]:
        """Writes a loop; returns its totals: row, reduction, and the total in all lanes."""
        self.body.loop = loop
        rows = range(len(self.body.rows))
        work = [(row, one) for one in self.schedule.reductions[loop] for row in rows]
        unroll = self.unroll(loop)
        ones = [one for _, one in work for _ in range(unroll)]
        sums = [self.accumulators.neutral(one) for one in ones]
        if self.segments == 1:
            sums = self._columns(loop, work, unroll, sums)
        else:
            part = self.part
            columns = self.columns if part.columns is None else part.columns.size
            terms = additions(columns // (unroll * self.lanes), 1) + 2
            sizes = self.analysis.column_sizes[: self.analysis.segment_axes]

            def segment(number: str, held: list[str]) -> list[str]:
                self._segment = self.writer.split(number, sizes)
                return self._columns(loop, work, unroll, held)

            bounds = (*part.segments, 1)
            sums = self.accumulators.loop(ones, bounds, part.num_segments, sums, segment, terms)
            self._segment = [Linear()] * self.analysis.segment_axes
        self.body.forget()
        return [
            (row, one, self._total(one, sums[number * unroll : (number + 1) * unroll]))
            for number, (row, one) in enumerate(work)
        ]

    def _columns(
        self, loop: int, work: Sequence[tuple[int, RowReduction]], unroll: int, sums: list[str]
    ) -> list[str]:
        """Writes the loop over the columns of a segment; returns the accumulators."""
        full, step = self.columns // self.lanes, unroll * self.lanes
        whole = full // unroll * step
        ones = [one for _, one in work for _ in range(unroll)]
        rows = range(len(self.body.rows))

        def combine(start: Linear, count: int, held: list[str], mask: str = "") -> list[str]:
            self.body.forget()
            held = list(held)
            for slot in range(count):
                column = start + slot * self.lanes
                places = [self._position(row, column, slot, mask) for row in rows]
                for number, (row, one) in enumerate(work):
                    n = number * unroll + slot
                    held[n] = self._combined(one, held[n], places[row])
                for place in places:
                    self._write_values(loop, place)
            return held

        def rest(held: list[str]) -> list[str]:
            if full % unroll:
                held = combine(Linear(constant=whole), full % unroll, held)
            if self.columns % self.lanes:
                held = combine(Linear(constant=full * self.lanes), 1, held, self._mask)
            return held

        def vectors(at: str, held: list[str]) -> list[str]:
            return combine(linear(at), unroll, held)

        part = self.part.columns
        if part is not None:
            last = self.writer.binary("minsi", part.start + part.size, whole)
            bounds = (part.start, last, step)
            sums = self.accumulators.loop(ones, bounds, part.size // step, sums, vectors)
            if whole == self.columns:
                return sums
            kinds = [self.accumulators.kind(one) for one in ones]
            return self.writer.when(part.is_last, kinds, sums, rest)
        if whole > step:
            sums = self.accumulators.loop(ones, (0, whole, step), whole // step, sums, vectors)
        elif whole:
            sums = combine(Linear(), unroll, sums)
        return rest(sums)

    def _write_values(self, loop: int, position: Position) -> None:
        """Writes the results of a loop, and the values that it keeps."""
        body, analysis = self.body, self.analysis
        for value, home in self.schedule.homes.items():
            if home.loop == loop and not self._is_result(loop, home.result, value):
                name = body.vector(value, self._axes(value), position)
                body.keep(value, home, name, position)
        for number in self.schedule.results[loop]:
            value = analysis.results[number]
            name = body.vector(value, self._axes(value), position)
            body.store_result(number, name, position)

    def _is_result(self, loop: int, number: int | None, value: ir.Value) -> bool:
        """Whether a kept value is a result that the loop writes."""
        return number in self.schedule.results[loop] and self.analysis.results[number] == value

    def _axes(self, value: ir.Value) -> tuple[int | None, ...]:
        return tuple(map(self.body.axis, result_axes(self.analysis, value)))

    def _combined(self, one: RowReduction, total: str, position: Position) -> str:
        """An accumulator combined with the term of a vector of columns."""
        term = self.body.scalar(one.term, self.body.scalars(one.op, position))
        made = self.accumulators.combined(one, total, self.accumulators.widened(one, term))
        return self.accumulators.masked(one, position.mask, made, total)

    def _total(self, one: RowReduction, sums: list[str]) -> str:
        """The accumulators and their lanes combined, in all lanes."""
        while len(sums) > 1:
            half = -(-len(sums) // 2)
            pairs = zip(sums, sums[half:], strict=False)
            made = [self.accumulators.combined(one, a, b) for a, b in pairs]
            sums = [*made, *sums[len(made) : half]]
        return self.across_lanes(one, sums[0])

    def across_lanes(self, one: RowReduction, total: str) -> str:
        """The lanes of accumulators combined, in all lanes."""
        kind, combined = self.accumulators.kind(one), self.accumulators.combined
        return across_lanes(
            self.writer, kind, self.lanes, total, lambda held, other: combined(one, held, other)
        )

    # --- how much work it is ----------------------------------------------------------------------

    def _cost(self, loop: int) -> int:
        """Operations of a loop for one vector of columns."""
        before, hoisted = len(self.writer.lines), self.body.loop
        self.body.loop = loop
        self.body.forget()
        position = self._position(0, 0, "cost")
        for one in self.schedule.reductions[loop]:
            self._combined(one, self.accumulators.neutral(one), position)
        self._write_values(loop, position)
        lines = self.writer.lines[before:]
        del self.writer.lines[before:]
        self.body.forget()
        self.body.loop = hoisted
        return max(1, operations(lines))

    def unroll(self, loop: int) -> int:
        """Vectors of a loop's iteration: accumulators that hide the latency of combining.

        Of the numbers from that on the one that leaves the fewest vectors behind the loop; a power
        of two where the rows are divided.
        """
        full = self.columns // self.lanes
        cost, rows = self._cost(loop), len(self.body.rows)
        wanted = -(-FMA_LATENCY * self.device.fma_ports // (cost * rows))
        count = max(1, len(self.schedule.reductions[loop])) * rows
        most = max(1, min(2 * wanted, self.device.num_registers // (2 * count), full))
        least = min(wanted, most)
        if self.part.columns is not None:
            return 1 << (most.bit_length() - 1)
        return min(range(least, most + 1), key=lambda n: (full % n, -n))

    def work(self) -> int:
        """Operations on elements for one row."""
        self.begin([Linear()])
        total = 0
        before = len(self.writer.lines)
        self.body.write_stacks(1, self.columns)
        for loop, reductions in enumerate(self.schedule.reductions):
            self.write_row_values(loop)
            total += self._cost(loop)
            for one in reductions:
                self.body.define_row(one.value, "%unknown", self.body.rows[0])
        del self.writer.lines[before:]
        return total * self.columns * self.segments
