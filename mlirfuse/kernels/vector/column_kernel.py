"""The kernel of reductions that keep the dimension that is contiguous in memory.

for each tile of kept elements, some vectors of them
  for each reduced axis: combine vectors of the operands with the accumulators
  compute the results from the accumulators

No lanes are combined: each lane is a result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.iteration_space import Axis
from mlirfuse.kernels.vector.accumulators import Accumulators
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.pointwise import Axes, Pointwise, Position, literal
from mlirfuse.kernels.vector.row_analysis import COLUMN, ROW, RowAnalysis
from mlirfuse.kernels.vector.row_schedule import has_columns, result_axes
from mlirfuse.kernels.vector.workgroups import block_size
from mlirfuse.kernels.vector.writer import Linear, Writer, linear
from mlirfuse.structured.ir import ops, slices
from mlirfuse.targets.base import CpuDevice

MAX_VECTORS = 8
"""Vectors of a tile: contiguous lines of one row of an operand, and chains of accumulators."""


def lane_axis(analysis: RowAnalysis) -> int | None:
    """The kept axis that is the last dimension of an operand; None where a reduced axis is.

    Args:
      analysis: a region that reduces.
    """
    op = analysis.reductions[0].op
    for index_map in ops.plain_maps(op)[: ops.num_inputs(op)]:
        axes = [analysis.loops[op][loop] for loop in index_map if loop is not None]
        sizes = [_size(analysis, axis) for axis in axes]
        large = [axis for axis, size in zip(axes, sizes, strict=True) if size > 1]
        if large and any(axis[0] == COLUMN for axis in large):
            return large[-1][1] if large[-1][0] == ROW else None
    return None


def _size(analysis: RowAnalysis, axis: Axis) -> int:
    return (analysis.row_sizes if axis[0] == ROW else analysis.column_sizes)[axis[1]]


def kernel(analysis: RowAnalysis, entry: str, device: CpuDevice) -> VectorKernel:
    """Writes the kernel of a region whose results keep the contiguous dimension.

    Raises:
      Unsupported: the region has an op or an access that the kernel cannot compute.
    """
    lane = lane_axis(analysis)
    assert lane is not None
    for value in analysis.results:
        if has_columns(analysis, result_axes(analysis, value)):
            raise Unsupported("a result of all elements beside sums of columns")
    return _ColumnKernel(analysis, lane, device).write(entry)


class _ColumnBody(Pointwise):
    """Writes the elementwise ops. The axes are kept ones, reduced ones, and that of the lanes."""

    def __init__(self, writer: Writer, lanes: int, analysis: RowAnalysis, lane: int) -> None:
        super().__init__(writer, lanes)
        self.analysis = analysis
        self._lane = lane
        self._reduced = {one.value for one in analysis.reductions}

    def axis(self, axis: Axis | None) -> int | None:
        """The number of an axis in positions."""
        if axis is None:
            return None
        rows = len(self.analysis.row_sizes)
        if axis[0] == COLUMN:
            return rows - 1 + axis[1]
        if axis[1] == self._lane:
            return rows - 1 + len(self.analysis.column_sizes)
        return axis[1] - (axis[1] > self._lane)

    def scalars(self, op: ir.Operation, position: Position) -> dict[ir.Value, str]:
        """The vectors of the scalars in the body of an op, without those of its accumulators."""
        loops = self.analysis.loops[op]
        skipped = {one.combine for one in self.analysis.reductions if one.op == op}
        values: dict[ir.Value, str] = {}
        *computed, _ = [o.operation for o in ops.body(op).operations]
        reads = zip(ops.body(op).arguments, op.operands, ops.plain_maps(op), strict=True)
        for argument, operand, index_map in reads:
            if ops.users(argument) and not self.analysis.accumulates(op, argument):
                axes = tuple(None if n is None else self.axis(loops[n]) for n in index_map)
                values[argument] = self.vector(operand, axes, position)
        for inner in computed:
            if inner not in skipped:
                self.apply(inner, values)
        return values

    def _vector(self, value: ir.Value, axes: Axes, position: Position) -> str:
        op = ops.defining_op(value)
        if op is None or op not in self.analysis.loops or literal(value) is not None:
            return super()._vector(value, axes, position)
        own = tuple(map(self.axis, result_axes(self.analysis, value)))
        if value in self._reduced or own != axes:
            raise Unsupported("a value that is read along other axes, or before its reduction")
        *_, end = [o.operation for o in ops.body(op).operations]
        number = list(op.results).index(value)
        return self.scalar(end.operands[number], self.scalars(op, position))


class _ColumnKernel:
    """Writes one kernel."""

    def __init__(self, analysis: RowAnalysis, lane: int, device: CpuDevice) -> None:
        self.analysis, self.device, self.lanes = analysis, device, device.lanes
        self.writer = Writer()
        self.body = _ColumnBody(self.writer, self.lanes, analysis, lane)
        self.accumulators = Accumulators(self.writer, self.body)
        self.extent = analysis.row_sizes[lane]
        self.outer = [s for n, s in enumerate(analysis.row_sizes) if n != lane]
        vectors = -(-self.extent // self.lanes)
        parallel = math.prod(self.outer) * vectors // (2 * device.cores)
        limit = max(1, min(MAX_VECTORS, vectors, parallel))
        self.vectors = max(n for n in range(1, limit + 1) if vectors % n == 0)
        self.tiles = vectors // self.vectors
        self.mask = ""
        self.index: list[Linear] = []

    def write(self, entry: str) -> VectorKernel:
        """Writes the whole kernel."""
        writer, tiles = self.writer, math.prod(self.outer) * self.tiles
        work = math.prod(self.analysis.column_sizes) * self.vectors * self.lanes
        read = sum(map(ops.num_bytes, slices.operands_of(list(self.analysis.group))))
        size = block_size(tiles, work, read / tiles, self.device)
        block = writer.value("hal.interface.workgroup.id[0] : index")
        first = linear(block) * size
        last = writer.binary("minsi", first + size, tiles)

        def tile(number: str, _: list[str]) -> list[str]:
            self._write_tile(number)
            return []

        writer.loop(first, last, 1, [], [], tile)
        return self.body.kernel(entry, self.analysis.results, (-(-tiles // size), 1))

    def _write_tile(self, number: str) -> None:
        writer = self.writer
        column = linear(writer.binary("remui", number, self.tiles)) * (self.vectors * self.lanes)
        rest, found = writer.binary("divui", number, self.tiles), list[Linear]()
        for size in reversed(self.outer):
            found.append(linear(writer.binary("remui", rest, size)))
            rest = writer.binary("divui", rest, size)
        self.index = list(reversed(found))
        if self.extent % self.lanes:
            start = column + (self.vectors - 1) * self.lanes
            left = writer.binary("subi", self.extent, start)
            lanes = self.body.vector_type("i1")
            self.mask = writer.value(f"vector.create_mask {left} : {lanes}")
        self.body.forget()
        sums = self._reduced(column)
        self.body.forget()
        positions = self._positions([Linear()] * len(self.analysis.column_sizes), column)
        for number_of, one in enumerate(self.analysis.reductions):
            axes = tuple(map(self.body.axis, result_axes(self.analysis, one.value)))
            for vector, position in enumerate(positions):
                total = self.accumulators.finished(one, sums[number_of * self.vectors + vector])
                self.body.define(one.value, axes, position, total)
        for position in positions:
            for number_of, value in enumerate(self.analysis.results):
                axes = tuple(map(self.body.axis, result_axes(self.analysis, value)))
                name = self.body.vector(value, axes, position)
                at = self.body.offset(value.type, axes, position.index)
                self.body.store(f"%y{number_of}", value.type, name, at, position.mask)

    def _positions(self, reduced: Sequence[Linear], column: Linear) -> list[Position]:
        found = []
        for vector in range(self.vectors):
            index = (*self.index, *reduced, column + vector * self.lanes)
            found.append(
                Position((vector,), index, self.mask if vector == self.vectors - 1 else "")
            )
        return found

    def _reduced(self, column: Linear) -> list[str]:
        """Writes the loops over the reduced axes; returns the accumulators."""
        reductions = self.analysis.reductions
        kinds = [self.accumulators.kind(one) for one in reductions for _ in range(self.vectors)]
        start = [self.accumulators.neutral(one) for one in reductions for _ in range(self.vectors)]

        def nest(index: list[Linear], held: list[str]) -> list[str]:
            if len(index) == len(self.analysis.column_sizes):
                return self._combined(self._positions(index, column), held)
            size = self.analysis.column_sizes[len(index)]
            return self.writer.loop(
                0, size, 1, held, kinds, lambda n, inner: nest([*index, linear(n)], inner)
            )

        return nest([], start)

    def _combined(self, positions: Sequence[Position], held: Sequence[str]) -> list[str]:
        """The accumulators combined with the terms at one index of the reduced axes."""
        self.body.forget()
        totals = []
        for number, one in enumerate(self.analysis.reductions):
            for vector, position in enumerate(positions):
                term = self.body.scalar(one.term, self.body.scalars(one.op, position))
                term = self.accumulators.widened(one, term)
                total = held[number * self.vectors + vector]
                totals.append(self.accumulators.combined(one, total, term))
        self.body.forget()
        return totals
