"""The kernel of a scatter: each workgroup has a part of the result, and reads all indices.

    a part of the rows of the result, or of the columns of all rows
    for each row: the destination's elements are computed, and stored
    for each window: where its index is a row of the part
      for each vector of its columns: combine it with the result's, store

Rows are the dimensions that indices select, columns those of a window. Updates of one element come
in their order, so the result is the same in each run.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.indices import Shifted
from mlirfuse.kernels.data_movement.analysis import INSERT
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.indexed import Indexed
from mlirfuse.kernels.vector.pointwise import Axes, Position
from mlirfuse.kernels.vector.workgroups import BLOCKS_PER_CORE, MIN_BLOCK_BYTES
from mlirfuse.kernels.vector.writer import Linear, Writer, linear
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.scatters import Scatter
from mlirfuse.targets.base import CpuDevice

COLLAPSE = "tensor.collapse_shape"

MIN_VECTORS = 16
"""Vectors of the columns of a part: with fewer, a workgroup moves on in memory too often."""

INDEX_ELEMENTS = 8
"""Elements that are computed in the time of an index, which each part of the rows reads."""

Columns = Callable[[Indexed, Linear], None]
"""Writes a vector of a body, from the index of its first column."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Space:
    """Bodies over the same axes: one of whole vectors, and one of single elements.

    Attributes:
      vectors: the body of whole vectors.
      elements: that of single elements.
      outer: sizes of the axes before the columns.
    """

    vectors: Indexed
    elements: Indexed
    outer: tuple[int, ...]

    def position(self, body: Indexed, outer: Sequence[Linear], column: Linear) -> Position:
        """The position of a vector; its columns are merged to one axis."""
        inner = [Linear()] * (len(body.sizes) - len(self.outer) - 1)
        return Position((), (*outer, *inner, column))


class ScatterKernel:
    """Writes one kernel.

    Attributes:
      group: the ops that it computes.
      scatter: the last of them.
      result: the updated tensor.
      rows: windows that the result has.
      columns: elements of a window.
    """

    def __init__(self, group: Sequence[ir.Operation], scatter: Scatter, device: CpuDevice) -> None:
        self.group, self.scatter, self.device = set(group), scatter, device
        self.lanes, self.writer = device.lanes, Writer()
        self.result = scatter.op.results[0]
        shape = [size or 0 for size in ops.shape(self.result)]
        indexed = len(scatter.dimensions)
        self._sizes = shape[:indexed]
        self.rows, self.columns = math.prod(shape[:indexed]), math.prod(shape[indexed:])
        self._batch = [size or 0 for size in ops.shape(scatter.updates)[: scatter.batch]]
        self._operands: Indexed | None = None
        self._reshaped: dict[tuple[int, ...], _Space] = {}
        self._destination = self._space(self._sizes, shape[indexed:])
        self._updates = self._space(self._batch, shape[indexed:])
        self._flat = self._space((), shape)

    def write(self, entry: str) -> VectorKernel:
        """Writes the whole kernel.

        Raises:
          Unsupported: the group has an op or an access that the kernel cannot compute.
        """
        writer = self.writer
        by_columns = self.columns >= 2 * MIN_VECTORS * self.lanes
        parts = self._parts(by_columns=by_columns)
        whole = self.columns if by_columns else self.rows
        size = -(-whole // parts)
        size = -(-size // self.lanes) * self.lanes if by_columns else size
        begin, end = Linear(), linear(whole)
        if size < whole:
            begin = linear(writer.value("hal.interface.workgroup.id[0] : index")) * size
            end = linear(writer.binary("minsi", begin + size, whole))
        if by_columns:
            self._copy_rows(begin, end)
            self._update(begin, end, (Linear(), linear(self.rows)))
        else:
            first, last = begin * self.columns, end * self.columns
            self._along(self._flat, first, last, self._copy_of(self._flat, (), Linear()))
            self._update(Linear(), linear(self.columns), (begin, end))
        body = self._flat.vectors
        return body.kernel(entry, [self.result], (-(-whole // size), 1))

    def _parts(self, *, by_columns: bool) -> int:
        """Workgroups: as many as there is work for."""
        num_bytes = 2 * ops.num_bytes(self.result) + 2 * ops.num_bytes(self.scatter.updates)
        most, per_core = self.columns // (MIN_VECTORS * self.lanes), BLOCKS_PER_CORE
        if not by_columns:
            windows = math.prod(self._batch)
            elements = (self.rows + windows) * self.columns
            most, per_core = min(self.rows, elements // (INDEX_ELEMENTS * windows)), 1
        return max(1, min(most, per_core * self.device.cores, num_bytes // MIN_BLOCK_BYTES))

    def _space(self, outer: Sequence[int], inner: Sequence[int]) -> _Space:
        """Bodies over axes before the columns, and over those of the columns."""
        kept = [size for size in inner if size != 1] or [1]
        sizes = [*(size for size in outer if size != 1), *kept]

        def body(lanes: int) -> Indexed:
            made = Indexed(self.writer, lanes, self.group, sizes, len(kept))
            if self._operands is not None:
                made.share(self._operands)
            self._operands = made
            return made

        return _Space(body(self.lanes), body(1), tuple(size for size in outer if size != 1))

    def _axes(self, shape: Sequence[int | None]) -> Axes:
        """The axes of a tensor that has all of a body's."""
        numbers = iter(range(len(shape)))
        return tuple(None if size == 1 else next(numbers) for size in shape)

    def _along(self, space: _Space, begin: Linear, end: Linear, write: Columns) -> None:
        """Writes the loops over columns: of whole vectors, then of the elements behind them."""
        writer, lanes = self.writer, self.lanes
        if begin.is_constant and end.is_constant:
            count = end.constant - begin.constant
            if count == 1:
                self._at(space.elements, begin, write)
                return
            whole = end + -(count % lanes)
        else:
            rest = writer.binary("remui", writer.binary("subi", end, begin), lanes)
            whole = linear(writer.binary("subi", end, rest))
        for body, first, last in (
            (space.vectors, begin, whole),
            (space.elements, whole, end),
        ):

            def columns(number: str, _: list[str], body: Indexed = body) -> list[str]:
                self._at(body, linear(number), write)
                return []

            if first != last:
                writer.loop(first, last, body.lanes, [], [], columns)

    def _at(self, body: Indexed, column: Linear, write: Columns) -> None:
        """Writes a vector, whose values are in no scope but its own."""
        body.forget()
        write(body, column)
        body.forget()

    def _copy_of(self, space: _Space, outer: Sequence[Linear], row: Linear) -> Columns:
        """Writes vectors of the destination into the result."""
        value = self.scatter.destination
        axes = self._axes(ops.shape(value))

        def write(body: Indexed, column: Linear) -> None:
            made = body.vector(value, axes, space.position(body, outer, column))
            body.store("%y0", self.result.type, made, row + column)

        return write

    def _copy_rows(self, begin: Linear, end: Linear) -> None:
        """Writes columns of all rows of the destination into the result."""

        def row(number: str, _: list[str]) -> list[str]:
            outer = self.writer.split(number, self._destination.outer)
            start = linear(number) * self.columns
            self._along(
                self._destination, begin, end, self._copy_of(self._destination, outer, start)
            )
            return []

        self.writer.loop(0, self.rows, 1, [], [], row)

    def _update(self, begin: Linear, end: Linear, rows: tuple[Linear, Linear]) -> None:
        """Writes the loop over windows: columns of those that are among the rows."""
        writer = self.writer

        def window(number: str, _: list[str]) -> list[str]:
            outer = writer.split(number, self._updates.outer)
            found, row = self._row(outer)
            if rows[0].terms:
                found = self._both(found, self._compared("uge", row, rows[0]))
                found = self._both(found, self._compared("ult", row, rows[1]))

            def update(_: list[str]) -> list[str]:
                self._along(self._updates, begin, end, self._combined(outer, linear(row)))
                return []

            writer.when(found, [], [], update)
            return []

        writer.loop(0, math.prod(self._batch), 1, [], [], window)

    def _row(self, outer: Sequence[Linear]) -> tuple[str, str]:
        """Whether a window is in bounds and not masked, and its row."""
        scatter = self.scatter
        batch = self._axes(self._batch)
        found, row = "", Linear()
        if scatter.mask is not None:
            found = self._scalar(scatter.mask, batch, outer)
        for number, dim in enumerate(scatter.dimensions):
            value, places = self._coordinate(number)
            held = self._scalar(value, (*batch, *places), outer)
            kind = ops.element_type(value)
            index = self.writer.value(f"arith.index_cast {held} : {kind} to index")
            inside = self._compared("ult", index, self._sizes[dim])
            found = self._both(found, inside) if found else inside
            row = row + linear(index) * math.prod(self._sizes[dim + 1 :])
        return found, self.writer.index(row)

    def _coordinate(self, number: int) -> tuple[ir.Value, list[Any]]:
        """The tensor that holds a coordinate, and its index behind the batch dimensions.

        Raises:
          Unsupported: an insertion that does not hold coordinates of all windows.
        """
        value = self.scatter.indices
        if not self.scatter.has_coordinates:
            return value, []
        op = ops.defining_op(value)
        while op is not None and op in self.group and op.name == INSERT:
            *batch, (begin, size, _) = ops.slice_params(op).boxes
            if not isinstance(begin, int) or not isinstance(size, int):
                raise Unsupported("an insertion of a dynamic size")
            if [box[:2] for box in batch] != [(0, n) for n in self._batch]:
                raise Unsupported("an insertion of the indices of some windows")
            if begin <= number < begin + size:
                part = op.operands[0]
                dropped = len(ops.shape(part)) == len(batch)
                return part, [] if dropped else [Shifted(None, 0, number - begin)]
            value = op.operands[1]
            op = ops.defining_op(value)
        return value, [Shifted(None, 0, number)]

    def _scalar(self, value: ir.Value, places: Axes, outer: Sequence[Linear]) -> str:
        """An element of the indices or of the mask, which may be a reshape of what is computed."""
        space, op = self._updates, ops.defining_op(value)
        of_batch = len(places) == len(self._batch)
        if of_batch and op is not None and op in self.group and op.name == COLLAPSE:
            value = op.operands[0]
            sizes = [size or 0 for size in ops.shape(value)]
            if tuple(sizes) not in self._reshaped:
                self._reshaped[tuple(sizes)] = self._space(sizes, ())
            places, space = self._axes(sizes), self._reshaped[tuple(sizes)]
            outer = self.writer.split(self._number(outer), space.outer)
        body = space.elements
        body.forget()
        vector = body.vector(value, places, space.position(body, outer, Linear()))
        body.forget()
        return body.of_first_lane(vector, ops.element_type(value))

    def _number(self, outer: Sequence[Linear]) -> Linear:
        """The number of a window among all."""
        total = Linear()
        for size, index in zip(self._updates.outer, outer, strict=True):
            total = total * size + index
        return total

    def _combined(self, outer: Sequence[Linear], row: Linear) -> Columns:
        """Writes vectors of the result, each combined with that of an update."""
        scatter, block = self.scatter, self.scatter.op.regions[0].blocks[0]
        axes = self._axes(ops.shape(scatter.updates))
        *computed, end = [view.operation for view in block.operations]
        update, element = block.arguments

        def write(body: Indexed, column: Linear) -> None:
            position = self._updates.position(body, outer, column)
            at = row * self.columns + column
            values = {update: body.vector(scatter.updates, axes, position)}
            if ops.is_read(element):
                values[element] = body.load("%y0", self.result.type, at)
            body.apply_all(computed, values, (), position)
            made = body.scalar(end.operands[0], values)
            body.store("%y0", self.result.type, made, at)

        return write

    def _compared(self, how: str, one: Linear | str, other: Linear | int) -> str:
        left, right = self.writer.index(one), self.writer.index(other)
        return self.writer.value(f"arith.cmpi {how}, {left}, {right} : index")

    def _both(self, one: str, other: str) -> str:
        return self.writer.value(f"arith.andi {one}, {other} : i1")
