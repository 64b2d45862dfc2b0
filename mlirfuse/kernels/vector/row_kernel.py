"""The kernel of a region that reduces rows.

for each block of rows, a few rows at a time
  for each loop of the schedule
    for each vector of columns: combine it with the accumulators, store results
    combine the accumulators, then their lanes
    compute the values of the rows that wait for them
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.vector.accumulators import Accumulators
from mlirfuse.kernels.vector.executable import VectorKernel, memref
from mlirfuse.kernels.vector.pointwise import Position
from mlirfuse.kernels.vector.row_analysis import RowAnalysis, RowReduction
from mlirfuse.kernels.vector.row_body import RowBody, Stack
from mlirfuse.kernels.vector.row_schedule import (
    STACK_BYTES,
    Schedule,
    has_columns,
    result_axes,
    schedule,
)
from mlirfuse.kernels.vector.tiles import block_size
from mlirfuse.kernels.vector.writer import Linear, Writer, linear, operations
from mlirfuse.structured.ir import ops, slices
from mlirfuse.targets.base import CpuDevice
from mlirfuse.targets.cpu_rates import FMA_LATENCY

WINDOW = 4096
"""Operations on vectors of the rows in flight, so that one row's sums across lanes overlap with the
work on others. Measured on a Zen 4 with AVX2: softmax of 1536x128 takes 75 us, 91 with 1024."""

MAX_ROWS_IN_FLIGHT = 4
"""Rows in flight: each is code of its own."""


def kernel(analysis: RowAnalysis, entry: str, device: CpuDevice) -> VectorKernel:
    """Writes the kernel of a region that reduces rows.

    Raises:
      Unsupported: the region has an op or an access that the kernel cannot compute.
    """
    return _RowKernel(analysis, schedule(analysis), device).write(entry)


class _RowKernel:
    """Writes one kernel.

    Attributes:
      analysis: the region.
      schedule: its loops.
      columns: elements of a row.
    """

    def __init__(self, analysis: RowAnalysis, plan: Schedule, device: CpuDevice) -> None:
        self.analysis, self.schedule, self.device = analysis, plan, device
        self.writer = Writer()
        self.lanes = device.lanes
        self.body = RowBody(self.writer, self.lanes, analysis, plan.homes)
        self.accumulators = Accumulators(self.writer, self.body)
        self.columns = math.prod(analysis.column_sizes)
        self.indices: list[list[Linear]] = []
        rest = self.columns % self.lanes
        self.mask = ""
        if rest:
            lanes = self.body.vector_type("i1")
            self.mask = self.writer.hoisted(f"vector.constant_mask [{rest}] : {lanes}")

    def write(self, entry: str) -> VectorKernel:
        """Writes the whole kernel."""
        writer, rows = self.writer, math.prod(self.analysis.row_sizes)
        work = self._work()
        flight = min(rows, MAX_ROWS_IN_FLIGHT, -(-WINDOW * self.lanes // work))
        flight = max(1, min(flight, STACK_BYTES // max(1, self.schedule.stack_bytes)))
        self._write_stacks(flight)
        read = sum(map(ops.num_bytes, slices.operands_of(list(self.analysis.group))))
        size = block_size(rows, work, read / rows, self.device)
        size = -(-size // flight) * flight
        block = writer.value("hal.interface.workgroup.id[0] : index")
        first = linear(block) * size
        last = writer.binary("minsi", first + size, rows)
        whole = last
        if rows % flight:
            rest = writer.binary("remui", last, flight)
            whole = writer.binary("subi", last, rest)
            # Blocks begin at multiples: only the last one has a rest.

        def several(number: str, _: list[str]) -> list[str]:
            self._write_rows([linear(number) + n for n in range(flight)])
            return []

        def one(number: str, _: list[str]) -> list[str]:
            self._write_rows([linear(number)])
            return []

        writer.loop(first, whole, flight, [], [], several)
        if whole != last:
            writer.loop(whole, last, 1, [], [], one)
        return self.body.kernel(entry, self.analysis.results, (-(-rows // size), 1))

    def _write_stacks(self, rows: int) -> None:
        """Writes the buffers of values that are kept on the stack."""
        padded = -(-self.columns // self.lanes) * self.lanes
        for value, home in self.schedule.homes.items():
            if home.result is None:
                kind = f"memref<{rows * padded}x{ops.element_type(value)}>"
                self.body.stacks[value] = Stack(self.writer.stack(kind), kind, padded)

    # --- some rows --------------------------------------------------------------------------------

    def _position(self, row: int, column: Linear | int, key: int | str, mask: str = "") -> Position:
        columns = [Linear()] * (len(self.analysis.column_sizes) - 1) + [linear(column)]
        return Position((row, key), (*self.indices[row], *columns), mask)

    def _row_index(self, number: Linear) -> list[Linear]:
        """The indices of the axes of the rows."""
        return self.writer.split(number, self.analysis.row_sizes)

    def _begin(self, numbers: Sequence[Linear]) -> None:
        self.indices = [self._row_index(number) for number in numbers]
        self.body.begin_rows([self._position(n, 0, "row") for n in range(len(numbers))])

    def _write_rows(self, numbers: Sequence[Linear]) -> None:
        """Writes all loops of rows that are computed together."""
        self._begin(numbers)
        for loop in range(len(self.schedule.results)):
            self.body.loop = loop
            self._write_row_values(loop)
            self._write_loop(loop)
        self.body.loop = len(self.schedule.results)
        self._write_row_values(self.body.loop)
        self._store_row_results()

    def _write_row_values(self, loop: int) -> None:
        """Writes the values without columns that wait for the loops before one."""
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

    def _store_row_results(self) -> None:
        for number, value in enumerate(self.analysis.results):
            if has_columns(self.analysis, result_axes(self.analysis, value)):
                continue
            element = ops.element_type(value)
            held = self.body.vector_type(element)
            for row in self.body.rows:
                name = self.body.of_row(value, self._axes(value), row)
                scalar = self.writer.value(f"vector.extract {name}[0] : {element} from {held}")
                at = self.writer.index(self.body.place(value, row))
                self.writer.line(f"memref.store {scalar}, %y{number}[{at}] : {memref(value.type)}")

    # --- one loop over the columns ----------------------------------------------------------------

    def _write_loop(self, loop: int) -> None:
        rows = range(len(self.body.rows))
        work = [(row, one) for one in self.schedule.reductions[loop] for row in rows]
        full, rest = divmod(self.columns, self.lanes)
        unroll = self._unroll(loop, full)
        kinds = [self.accumulators.kind(one) for _, one in work for _ in range(unroll)]
        sums = [self.accumulators.neutral(one) for _, one in work for _ in range(unroll)]
        step = unroll * self.lanes
        whole = full // unroll * step

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

        if whole > step:
            sums = self.writer.loop(
                0, whole, step, sums, kinds, lambda at, held: combine(linear(at), unroll, held)
            )
        elif whole:
            sums = combine(Linear(), unroll, sums)
        if full % unroll:
            sums = combine(Linear(constant=whole), full % unroll, sums)
        if rest:
            sums = combine(Linear(constant=full * self.lanes), 1, sums, self.mask)
        self.body.forget()
        for number, (row, one) in enumerate(work):
            total = self._finished(one, sums[number * unroll : (number + 1) * unroll])
            self.body.define_row(one.value, total, self.body.rows[row])

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
        kind = self.accumulators.kind(one)
        term = self.accumulators.widened(one, term)
        made = self.writer.value(f"{one.combine.name} {total}, {term} : {kind}")
        if not position.mask:
            return made
        lanes = self.body.vector_type("i1")
        return self.writer.value(f"arith.select {position.mask}, {made}, {total} : {lanes}, {kind}")

    def _finished(self, one: RowReduction, sums: list[str]) -> str:
        """The accumulators, their lanes and the init of a reduction combined, in all lanes."""
        kind, name = self.accumulators.kind(one), one.combine.name
        while len(sums) > 1:
            half = -(-len(sums) // 2)
            pairs = zip(sums, sums[half:], strict=False)
            made = [self.writer.value(f"{name} {a}, {b} : {kind}") for a, b in pairs]
            sums = [*made, *sums[len(made) : half]]
        total, distance = sums[0], self.lanes // 2
        while distance:
            order = [lane ^ distance for lane in range(self.lanes)]
            other = self.writer.value(f"vector.shuffle {total}, {total} {order} : {kind}, {kind}")
            total = self.writer.value(f"{name} {total}, {other} : {kind}")
            distance //= 2
        return self.accumulators.finished(one, total)

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

    def _unroll(self, loop: int, full: int) -> int:
        """Vectors of a loop's iteration: accumulators that hide the latency of combining.

        Of the numbers from that on the one that leaves the fewest vectors behind the loop.
        """
        cost = self._cost(loop)
        rows = len(self.body.rows)
        wanted = -(-FMA_LATENCY * self.device.fma_ports // (cost * rows))
        count = max(1, len(self.schedule.reductions[loop])) * rows
        most = max(1, min(2 * wanted, self.device.num_registers // (2 * count), full))
        least = min(wanted, most)
        return min(range(least, most + 1), key=lambda n: (full % n, -n))

    def _work(self) -> int:
        """Operations on elements for one row."""
        self._begin([Linear()])
        total = 0
        before = len(self.writer.lines)
        self._write_stacks(1)
        for loop, reductions in enumerate(self.schedule.reductions):
            self.body.loop = loop
            self._write_row_values(loop)
            total += self._cost(loop)
            for one in reductions:
                self.body.define_row(one.value, "%unknown", self.body.rows[0])
        del self.writer.lines[before:]
        return total * self.columns
