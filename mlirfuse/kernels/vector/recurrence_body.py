"""The elementwise ops of one iteration of a recurrence, on vectors of columns.

body = StepBody(writer, lanes, analysis)
body.begin(step, column)                        the iteration, and the first lane's column
body.vector(state.new, axes, position)          a vector of a new state

States are read from their buffers, contractions from accumulators that a loop over K has left. A
first walk over an iteration collects the parts of contractions that it needs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from iree.compiler import ir

from mlirfuse.kernels.alignment import VIEWS
from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.recurrence.analysis import RecurrenceAnalysis, State, offsets_of
from mlirfuse.kernels.vector.pointwise import Axes, Pointwise, Position
from mlirfuse.kernels.vector.writer import Linear, Writer, linear
from mlirfuse.structured.ir import ops

SLICE = "tensor.extract_slice"

Accumulator = Callable[[ir.Operation, int], str]
"""The vector of a contraction, from the distance of its columns from those of the states."""


class StepBody(Pointwise):
    """Writes the elementwise ops of one kernel.

    Axes are those of the rows of states, that of their columns, and others of one index each.

    Attributes:
      analysis: the loop.
      read_state: writes the read of a vector of a state, from the state and the position.
      accumulator: the vector of a contraction at the current position.
    """

    def __init__(self, writer: Writer, lanes: int, analysis: RecurrenceAnalysis) -> None:
        super().__init__(writer, lanes)
        self.analysis = analysis
        self.read_state: Callable[[State, Position], str] = self._no_state
        self.accumulator: Accumulator = self._no_accumulator
        self._members = set(analysis.members)
        self._arguments = set(analysis.loop.regions[0].blocks[0].arguments)
        self._step = self._column = Linear()

    @property
    def column_axis(self) -> int:
        """The axis of the columns of states."""
        return len(self.analysis.row_sizes)

    @property
    def axes(self) -> Axes:
        """The axes of a state."""
        numbers = iter(range(self.column_axis + 1))
        return tuple(next(numbers) if size > 1 else None for size in self.analysis.shape)

    def begin(self, step: Linear, column: Linear) -> None:
        """Begins the vectors of an iteration at a column of the states."""
        self.forget()
        self._step, self._column = step, column

    def at(self, rows: tuple[Linear, ...], mask: str) -> Position:
        """The position of the current vector of states in a row."""
        return Position((0,), (*rows, self._column), mask, self.column_axis)

    def computes(self, op: ir.Operation) -> bool:
        """Whether an iteration computes the results of an op."""
        return op in self._members

    def _vector(self, value: ir.Value, axes: Axes, position: Position) -> str:
        state, op = self.analysis.state_of(value), ops.defining_op(value)
        if state is not None:
            if position.index[self.column_axis] != self._column or axes != self.axes:
                raise Unsupported("a state at another place than the result's")
            return self.read_state(state, position)
        if value in self._arguments:
            raise Unsupported("a result that an iteration reads")
        if op is None or not self.computes(op):
            return super()._vector(value, axes, position)
        if ops.is_contraction(op):
            return self._contracted(op, axes, position)
        if ops.num_elements(value) == 1 and ops.element_type(value).startswith("i"):
            return self._counted(value)
        if op.name == SLICE:
            return self._of_slice(op, axes, position)
        if op.name in VIEWS:
            return self._of_view(op, axes, position)
        return super()._vector(value, axes, position)

    def _contracted(self, op: ir.Operation, axes: Axes, position: Position) -> str:
        """The accumulators of a contraction, whose rows are those of the states."""
        read = [axis for axis in axes if axis is not None]
        moved = position.index[self.column_axis] + self._column * -1
        if read != list(range(self.column_axis + 1)) or not moved.is_constant:
            raise Unsupported("a contraction at other rows than the states'")
        return self.accumulator(op, moved.constant)

    def _of_view(self, op: ir.Operation, axes: Axes, position: Position) -> str:
        """The lanes of a tensor with other dimensions of one element."""
        source = op.operands[0]
        shape, wanted = ops.shape(source), ops.shape(op.results[0])
        several = [(axis, size) for axis, size in zip(axes, wanted, strict=True) if size != 1]
        if ops.element_type(source) != ops.element_type(op.results[0]):
            raise Unsupported(ops.described(op))
        if [size for size in shape if size != 1] != [size for _, size in several]:
            raise Unsupported("dimensions that are merged or divided")
        rest = iter(axis for axis, _ in several)
        read = tuple(None if size == 1 else next(rest) for size in shape)
        return self.vector(source, read, position)

    def _of_slice(self, op: ir.Operation, axes: Axes, position: Position) -> str:
        """The lanes of a slice, in its source: at offsets that the iteration decides."""
        offsets = offsets_of(op, self.analysis.counter)
        if offsets is None or not ops.has_unit_strides(op):
            raise Unsupported("a slice at a dynamic offset, or with strides")
        sizes = ops.slice_params(op).static_sizes
        kept = ops.kept_dimensions(sizes, ops.shape(op.results[0]))
        index, read, key = list(position.index), list[int | None](), list(position.key)
        for dim, offset in enumerate(offsets):
            axis = axes[kept.index(dim)] if dim in kept and sizes[dim] != 1 else None
            place = self._step * offset.step + offset.start
            key.append(f"{offset.step}*{offset.start}")
            if axis is None:
                read.append(len(index))
                index.append(place)
                continue
            if axis in read or not place.is_constant:
                raise Unsupported("a slice of several elements that moves")
            index[axis] = index[axis] + place
            read.append(axis)
        moved = dataclasses.replace(position, key=tuple(key), index=tuple(index))
        return self.vector(op.operands[0], tuple(read), moved)

    def _counted(self, value: ir.Value) -> str:
        """An integer that the iteration decides, in all lanes."""
        found, kind = self.analysis.counter.of(value), ops.element_type(value)
        if found is None:
            raise Unsupported("an integer that an iteration computes")
        place = self.writer.index(self._step * found.step + found.start)
        cast = self.writer.value(f"arith.index_cast {place} : index to {kind}")
        return self.writer.value(f"vector.broadcast {cast} : {kind} to {self.vector_type(kind)}")

    def element(
        self,
        op: ir.Operation,
        loops: Mapping[int, Any] | Sequence[Any],
        values: dict[ir.Value, str],
        position: Position,
    ) -> str:
        """The lanes of an element of a tensor; see `Pointwise`."""
        tensor, *indices = op.operands
        index, read = list(position.index), list[int | None]()
        for value in indices:
            found, at = self.analysis.counter.of(value), ops.defining_op(value)
            if found is not None:
                read.append(len(index))
                index.append(self._step * found.step + found.start)
            elif at is not None and at.name == "linalg.index":
                read.append(loops[at.attributes["dim"].value])
            else:
                raise Unsupported("elements at indices that an iteration computes")
        key = (*position.key, *map(str, index[len(position.index) :]))
        moved = dataclasses.replace(position, key=key, index=tuple(index))
        return self.vector(tensor, tuple(read), moved)

    def _no_state(self, state: State, position: Position) -> str:
        raise Unsupported("a state before the first iteration")

    def _no_accumulator(self, op: ir.Operation, distance: int) -> str:
        raise Unsupported("a contraction before the first iteration")


class Findings:
    """The parts of contractions that an iteration needs.

    Attributes:
      distances: contraction -> distances of its columns from those of the states, each once.
    """

    def __init__(self, body: StepBody) -> None:
        """Walks over an iteration; the lines that it writes are removed."""
        self.distances: dict[ir.Operation, dict[int, None]] = {}
        before = len(body.writer.lines)
        body.read_state = lambda state, position: body.splat("0.0", "f32")
        body.accumulator = self._found(body)
        body.begin(linear("%step"), linear("%column"))
        rows = tuple(linear(f"%row{n}") for n in range(body.column_axis))
        position = body.at(rows, "")
        for state in body.analysis.states:
            body.vector(state.new, body.axes, position)
        for stack in body.analysis.stacks:
            body.vector(stack.source, source_axes(body, stack.source), position)
        del body.writer.lines[before:]
        body.forget()

    def _found(self, body: StepBody) -> Accumulator:
        def note(op: ir.Operation, distance: int) -> str:
            self.distances.setdefault(op, {})[distance] = None
            return body.splat("0.0", "f32")

        return note


def source_axes(body: StepBody, source: ir.Value) -> Axes:
    """The axes of a stack's slice, which may have the stack's dimension, of one element."""
    numbers = iter(range(body.column_axis + 1))
    return tuple(next(numbers) if size != 1 else None for size in ops.shape(source))
