"""The kernel of a region that reduces rows of fewer elements than some vectors have.

for each vector of rows
  a vector for each column: loads of contiguous elements, and shuffles
  combine the vectors of the columns; no lanes are combined
  compute results of rows, and those of columns, which shuffles put in the order of memory

Each column is code of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.vector import interleaving, repeated
from mlirfuse.kernels.vector.accumulators import Accumulators
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.pointwise import Axes, Position
from mlirfuse.kernels.vector.row_analysis import RowAnalysis, RowReduction
from mlirfuse.kernels.vector.row_body import RowBody
from mlirfuse.kernels.vector.row_schedule import result_axes, schedule
from mlirfuse.kernels.vector.workgroups import block_size
from mlirfuse.kernels.vector.writer import Linear, Writer, linear, operations
from mlirfuse.structured.ir import ops, slices
from mlirfuse.targets.base import CpuDevice


def kernel(analysis: RowAnalysis, entry: str, device: CpuDevice) -> VectorKernel:
    """Writes the kernel of a region that reduces rows of contiguous columns, all of one segment.

    Raises:
      Unsupported: fewer rows than lanes, or an op or an access that the kernel cannot compute.
    """

    def written() -> VectorKernel:
        return _ShortRows(analysis, device).write(entry)

    return repeated.once(analysis.group, analysis.results, (entry, "short"), written)


class _ShortBody(RowBody):
    """Writes the elementwise ops of a vector of rows, whose indices are one, that of the last row.

    Attributes:
      start: the number of the first row.
    """

    def __init__(self, writer: Writer, lanes: int, analysis: RowAnalysis) -> None:
        super().__init__(writer, lanes, analysis, {})
        self.start = Linear()
        self._num_rows = len(analysis.row_sizes)
        self._wide = [n for n, size in enumerate(analysis.row_sizes) if size != 1]
        self._columns: dict[ir.Value, list[str]] = {}

    def begin(self, start: Linear) -> None:
        """Starts a vector of rows."""
        self.start = start
        self._columns.clear()
        self.begin_rows([self.position("row", 0)])

    def position(self, key: int | str, column: int) -> Position:
        """Where a column of the rows is."""
        index = [Linear()] * (self._num_rows + len(self.analysis.column_sizes))
        index[self._num_rows - 1], index[-1] = self.start, Linear(constant=column)
        return Position((0, key), tuple(index), axis=self._num_rows - 1)

    def _elements(self, kind: ir.Type, axes: Axes) -> int:
        """The elements of each row in a tensor; 0 in one without rows.

        Raises:
          Unsupported: the rows are not its first dimensions.
        """
        shape = ops.type_shape(kind)
        dims = [(axis, size) for axis, size in zip(axes, shape, strict=True) if size != 1]
        rows = [axis for axis, _ in dims if axis is not None and axis < self._num_rows]
        if not rows:
            return 0
        if [axis for axis, _ in dims[: len(rows)]] != self._wide:
            raise Unsupported("a tensor whose first dimensions are not all rows, in their order")
        return math.prod(size for _, size in dims[len(rows) :])

    def offset(self, value_type: ir.Type, axes: Axes, index: Sequence[Linear]) -> Linear:
        """The offset of an element in its buffer."""
        elements = self._elements(value_type, axes)
        has_columns = elements != 1 and self._has_columns(axes)
        column = index[-1] if has_columns else Linear()
        return index[self._num_rows - 1] * elements + column

    def _load(self, value: ir.Value, axes: Axes, position: Position) -> str:
        """The lanes of a tensor from outside: one element of each row, or one of all."""
        buffer, kind = self.buffer(value), value.type
        elements = self._elements(kind, axes)
        at = self.offset(kind, axes, position.index)
        if not elements:
            return self._in_all_lanes(buffer, kind, at)
        if elements == 1:
            return self.load(buffer, kind, at)
        return self.columns(value, buffer, elements)[position.index[-1].constant]

    def columns(self, value: ir.Value, buffer: str, count: int) -> list[str]:
        """The vectors of all columns of a tensor."""
        if value not in self._columns:
            element = ops.element_type(value)
            if element == "i1":
                raise Unsupported("booleans of few columns")
            first = self.start * count
            loaded = [self.load(buffer, value.type, first + n * self.lanes) for n in range(count)]
            kind = self.vector_type(element)
            self._columns[value] = interleaving.deinterleaved(self.writer, kind, self.lanes, loaded)
        return self._columns[value]

    def _index(self, axis: int | None, position: Position) -> str:
        """The indices of an axis in all lanes."""
        several = [size for size in self.analysis.column_sizes if size != 1]
        if axis is not None and axis < self._num_rows:
            if self._wide != [axis]:
                raise Unsupported("an index of one of several rows")
            axis = self._num_rows - 1
        elif axis is not None and len(several) > 1:
            raise Unsupported("an index of one of several contiguous loops")
        if axis is None or axis < self._num_rows:
            return super()._index(axis, position)
        return self.splat(str(position.index[-1].constant), "index")

    def write_result(self, number: int, axes: Axes, columns: Sequence[str]) -> None:
        """Stores the vectors of all columns of a result, or of its one element of each row.

        Raises:
          Unsupported: the result has its rows in another order.
        """
        kind = self.analysis.results[number].type
        if self._elements(kind, axes) != len(columns):
            raise Unsupported("a result without all rows")
        element = ops.type_element(kind)
        if element == "i1" and len(columns) > 1:
            raise Unsupported("booleans of few columns")
        vectors = interleaving.interleaved(
            self.writer, self.vector_type(element), self.lanes, columns
        )
        first = self.start * len(columns)
        for n, vector in enumerate(vectors):
            self.store(self.outputs[number], kind, vector, first + n * self.lanes)


class _ShortRows:
    """Writes one kernel, whose workgroups take blocks of vectors of rows."""

    def __init__(self, analysis: RowAnalysis, device: CpuDevice) -> None:
        self.analysis, self.device = analysis, device
        self.schedule = schedule(analysis, keeps=False)
        self.writer, self.lanes = Writer(), device.lanes
        self.body = _ShortBody(self.writer, self.lanes, analysis)
        self.accumulators = Accumulators(self.writer, self.body)

    def write(self, entry: str) -> VectorKernel:
        """Writes the whole kernel."""
        rows, lanes = math.prod(self.analysis.row_sizes), self.lanes
        if rows < lanes:
            raise Unsupported(f"{rows} rows, fewer than {lanes} lanes")
        units = -(-rows // lanes)
        read = sum(map(ops.num_bytes, slices.operands_of(list(self.analysis.group))))
        size = block_size(units, self._work() * lanes, read / units, self.device)
        first = linear(self.writer.value("hal.interface.workgroup.id[0] : index")) * size
        last = self.writer.binary("minsi", first + size, units)

        def tile(number: str, _: list[str]) -> list[str]:
            start = linear(number) * lanes
            if rows % lanes:
                start = linear(self.writer.binary("minsi", start, rows - lanes))
            self._write_tile(start)
            return []

        self.writer.loop(first, last, 1, [], [], tile)
        return self.body.kernel(entry, self.analysis.results, (-(-units // size), 1))

    def _work(self) -> int:
        """Operations on vectors of a tile."""
        before = len(self.writer.lines)
        self._write_tile(Linear())
        lines = self.writer.lines[before:]
        del self.writer.lines[before:]
        return operations(lines)

    def _write_tile(self, start: Linear) -> None:
        """Writes the work on a vector of rows."""
        body, plan = self.body, self.schedule
        body.begin(start)
        columns = range(self.analysis.contiguous_columns)
        for loop, reductions in enumerate(plan.reductions):
            for one in reductions:
                total = self._total(one, [self._term(one, column) for column in columns])
                body.define_row(one.value, self.accumulators.finished(one, total), body.rows[0])
            for number in plan.results[loop]:
                value = self.analysis.results[number]
                axes = tuple(map(body.axis, result_axes(self.analysis, value)))
                places = [body.position(column, column) for column in columns]
                vectors = [body.vector(value, axes, place) for place in places]
                body.write_result(number, axes, vectors)
        for number in plan.row_results:
            value = self.analysis.results[number]
            axes = tuple(map(body.axis, result_axes(self.analysis, value)))
            body.write_result(number, axes, [body.of_row(value, axes, body.rows[0])])

    def _term(self, one: RowReduction, column: int) -> str:
        """What a column adds to a reduction."""
        scalars = self.body.scalars(one.op, self.body.position(column, column))
        return self.accumulators.widened(one, self.body.scalar(one.term, scalars))

    def _total(self, one: RowReduction, terms: list[str]) -> str:
        """The terms combined, in pairs."""
        while len(terms) > 1:
            pairs = zip(terms[::2], terms[1::2], strict=False)
            made = [self.accumulators.combined(one, a, b) for a, b in pairs]
            terms = [*made, *terms[2 * len(made) :]]
        return terms[0]
