"""Elementwise ops of a region that reduces rows: values of a row, and those of its columns.

Values without columns have the same number in all lanes. They are computed before the loops over
columns that read them, once for each row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.indices import Index, Shifted, of_scalar
from mlirfuse.kernels.codegen.iteration_space import Axis
from mlirfuse.kernels.vector.indexed import Place, as_place, axes_of, place_index
from mlirfuse.kernels.vector.pointwise import Axes, Pointwise, Position
from mlirfuse.kernels.vector.row_analysis import ROW, RowAnalysis
from mlirfuse.kernels.vector.row_schedule import Home, has_columns, result_axes
from mlirfuse.kernels.vector.writer import Linear, Writer
from mlirfuse.structured.ir import ops


@dataclasses.dataclass(frozen=True, slots=True)
class Stack:
    """A buffer on the stack for a value of the rows in flight.

    Attributes:
      name: its name.
      kind: its type.
      stride: elements from one row to the next.
    """

    name: str
    kind: str
    stride: int


class RowBody(Pointwise):
    """Writes the elementwise ops of one row.

    Its axes are those of the rows and, behind them, those of the columns. The columns have one
    index, that of the last axis.

    Attributes:
      analysis: the region.
      homes: value -> where it is kept.
      stacks: value -> its buffer on the stack.
      rows: the positions of the values without columns, for each row in flight. A position's key
        begins with the number of its row.
      loop: number of the loop that is written.
      outputs: the name of the buffer of each result.
    """

    def __init__(
        self, writer: Writer, lanes: int, analysis: RowAnalysis, homes: dict[ir.Value, Home]
    ) -> None:
        super().__init__(writer, lanes)
        self.analysis = analysis
        self.first_merged = len(analysis.row_sizes) + analysis.segment_axes
        self.homes = homes
        self.stacks: dict[ir.Value, Stack] = {}
        self.rows: list[Position] = []
        self.loop = 0
        self.outputs = [f"%y{n}" for n in range(len(analysis.results))]
        self._reduced = {one.value for one in analysis.reductions}
        self._rows: dict[tuple[int | str, ir.Value, Axes], str] = {}
        self._bodies: dict[tuple[ir.Operation, tuple[int | str, ...]], dict[ir.Value, str]] = {}

    def begin_rows(self, rows: list[Position]) -> None:
        """Starts rows: nothing of them has been computed."""
        self.rows, self._rows = rows, {}
        self.forget()

    def forget(self) -> None:
        """Starts a part of the kernel in which earlier vectors of columns are out of scope."""
        super().forget()
        self._bodies.clear()

    def axis(self, axis: Axis | None) -> int | None:
        """The number of an axis in positions."""
        if axis is None:
            return None
        return axis[1] if axis[0] == ROW else len(self.analysis.row_sizes) + axis[1]

    def axes(self, op: ir.Operation, index_map: ops.IndexMap) -> Axes:
        """The axes by which an op indexes an operand."""
        loops = self.analysis.loops[op]
        return tuple(None if n is None else self.axis(loops[n]) for n in index_map)

    def of_row(self, value: ir.Value, axes: Axes, row: Position) -> str:
        """A value without columns, which the row's later code reads, too."""
        key = (row.key[0], value, axes)
        if key not in self._rows:
            self._rows[key] = self._vector(value, axes, row)
        return self._rows[key]

    def define_row(self, value: ir.Value, name: str, row: Position) -> None:
        """Sets the number that a reduction has made."""
        axes = tuple(map(self.axis, result_axes(self.analysis, value)))
        self._rows[row.key[0], value, axes] = name

    def vector(self, value: ir.Value, axes: Axes, position: Position) -> str:
        """The lanes of a tensor; those of one without columns are known, or at its row."""
        if self._has_columns(axes):
            return super().vector(value, axes, position)
        number = position.key[0]
        known = self._rows.get((number, value, axes))
        if known is not None:
            return known
        return super().vector(value, axes, self.rows[int(number)])

    def _has_columns(self, axes: Axes) -> bool:
        rows = len(self.analysis.row_sizes)
        return has_columns(
            self.analysis, [None if a is None else (int(a >= rows), a - rows) for a in axes]
        )

    def _vector(self, value: ir.Value, axes: Axes, position: Position) -> str:
        op = ops.defining_op(value)
        if op is None or op not in self.analysis.loops or self.forms.literal(value) is not None:
            return super()._vector(value, axes, position)
        home = self.homes.get(value)
        if home is not None and home.loop < self.loop:
            return self.load_kept(value, home, position)
        if value in self._reduced:
            raise Unsupported("a reduction that is read along other axes")
        yielded = self.forms.body(op).yielded[list(op.results).index(value)]
        return self.scalar(yielded, self.scalars(op, position))

    def _load(self, value: ir.Value, axes: Axes, position: Position) -> str:
        """The lanes of a tensor from outside."""
        return self._load_slice(value, axes, position) or super()._load(value, axes, position)

    def scalars(self, op: ir.Operation, position: Position) -> dict[ir.Value, str]:
        """The vectors of the scalars in the body of an op, without those of its accumulators."""
        key = (op, position.key)
        if key not in self._bodies:
            self._bodies[key] = self._computed_scalars(op, position)
        return self._bodies[key]

    def _computed_scalars(self, op: ir.Operation, position: Position) -> dict[ir.Value, str]:
        body = self.forms.body(op)
        skipped = {one.combine for one in self.analysis.reductions if one.op == op}
        values: dict[ir.Value, str] = {}
        for argument, operand, index_map in body.reads:
            if not self.analysis.accumulates(op, argument):
                values[argument] = self.vector(operand, self.axes(op, index_map), position)
        axes = [self.axis(axis) for axis in self.analysis.loops[op]]
        self.apply_all((o for o in body.computed if o not in skipped), values, axes, position)
        return values

    def element(
        self,
        op: ir.Operation,
        loops: Mapping[int, Any] | Sequence[Any],
        values: dict[ir.Value, str],
        position: Position,
    ) -> str:
        """The lanes of an element of a tensor, of the row or of each column."""
        tensor, *indices = op.operands
        axes, first = dict(enumerate(loops)), self.first_merged or 0
        known: list[Index] = [None if axis is None else (0, axis) for axis in loops]

        def named(value: ir.Value) -> str:
            if any(a is not None and a >= first for a in axes_of(value, axes)):
                raise Unsupported("an index that is computed for each column")
            return self.of_first_lane(self.scalar(value, values), "index")

        places = [as_place(of_scalar(value, known, named)) for value in indices]
        return self._gathered_row(tensor, places, position)

    def _gathered_row(self, tensor: ir.Value, places: Sequence[Place], position: Position) -> str:
        """The lanes of a tensor from outside, whose columns, if it has any, are contiguous."""
        at, stride, along, column = Linear(), 1, 0, len(position.index) - 1
        shape = ops.shape(tensor)
        for size, place in zip(reversed(shape), reversed(places), strict=True):
            axis = place.axis[1] if isinstance(place, Shifted) and place.axis else place
            if axis == column and place != axis:
                raise Unsupported("columns that are read in another order")
            along = stride if axis == column else along
            at = at + place_index(place, position.index) * stride
            stride *= size or 0
        buffer = self.buffer(tensor)
        if not along:
            return self._in_all_lanes(buffer, tensor.type, at)
        return self.strided(buffer, tensor.type, at, along, position.mask)

    def load_kept(self, value: ir.Value, home: Home, position: Position) -> str:
        """The lanes of a value that an earlier loop has kept."""
        if home.result is None:
            return self.writer.value(f"vector.load {self._on_stack(value, position)}")
        result = self.analysis.results[home.result]
        return self.load(
            self.outputs[home.result], result.type, self.place(result, position), position.mask
        )

    def keep(self, value: ir.Value, home: Home, name: str, position: Position) -> None:
        """Stores the lanes of a value for later loops."""
        if home.result is None:
            self.writer.line(f"vector.store {name}, {self._on_stack(value, position)}")
            return
        self.store_result(home.result, name, position)

    def _on_stack(self, value: ir.Value, position: Position) -> str:
        """The place of a vector on the stack, and the types."""
        stack = self.stacks[value]
        at = self.writer.index(position.index[-1] + int(position.key[0]) * stack.stride)
        held = self.vector_type(ops.element_type(value))
        return f"{stack.name}[{at}] : {stack.kind}, {held}"

    def place(self, result: ir.Value, position: Position) -> Linear:
        """The offset of a position in the memory of a result."""
        axes = tuple(map(self.axis, result_axes(self.analysis, result)))
        return self.offset(result.type, axes, position.index)

    def store_result(self, number: int, name: str, position: Position) -> None:
        """Stores the lanes of a result with columns."""
        result = self.analysis.results[number]
        place = self.place(result, position)
        self.store(self.outputs[number], result.type, name, place, position.mask)

    def store_row_result(self, number: int, value: ir.Value, row: Position) -> None:
        """Stores a result without columns."""
        axes = tuple(map(self.axis, result_axes(self.analysis, value)))
        name, at = self.of_row(value, axes, row), self.place(value, row)
        self.store_first(self.outputs[number], value.type, name, at)

    def write_stacks(self, rows: int, columns: int) -> None:
        """Writes the buffers of values that are kept on the stack."""
        padded = -(-columns // self.lanes) * self.lanes
        for value, home in self.homes.items():
            if home.result is None:
                kind = f"memref<{rows * padded}x{ops.element_type(value)}>"
                self.stacks[value] = Stack(self.writer.stack(kind), kind, padded)
