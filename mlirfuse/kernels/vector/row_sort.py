"""Sorted rows: the tensors that a sort reads and writes, and the memory of their elements."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.vector.executable import VectorKernel, memref
from mlirfuse.kernels.vector.lane_ops import LaneOps
from mlirfuse.kernels.vector.sort_keys import Key
from mlirfuse.kernels.vector.writer import Linear, Writer, linear
from mlirfuse.structured.ir import ops

COUNTER = "i32"
"""Type of the counters of digits, and of an index that is not in one integer with its key."""


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """A tensor with the dimensions of the sorted one.

    Attributes:
      value: the tensor.
      strides: for each dimension of the sorted tensor the distance of elements in memory.
    """

    value: ir.Value
    strides: tuple[int, ...]

    @classmethod
    def of(cls, value: ir.Value, axes: Sequence[int]) -> View:
        """The view of a tensor whose dimensions `axes` are those of the sorted one, in order."""
        shape = [size or 0 for size in ops.shape(value)]
        return cls(value, tuple(math.prod(shape[axis + 1 :]) for axis in axes))


@dataclasses.dataclass(frozen=True, slots=True)
class SortOutput:
    """A tensor of the first elements of each sorted row.

    Attributes:
      result: the tensor.
      payload: the tensor whose elements it has; None for their indices in the row.
    """

    result: View
    payload: View | None


@dataclasses.dataclass(frozen=True, slots=True)
class RowSort:
    """A stable sort of rows.

    Attributes:
      sizes: sizes of the sorted tensor.
      dimension: the dimension along which rows are.
      count: elements of a sorted row that are kept.
      key: the keys by which it is sorted.
      source: the tensor that the keys are computed of.
      outputs: the results.
    """

    sizes: tuple[int, ...]
    dimension: int
    count: int
    key: Key
    source: View
    outputs: tuple[SortOutput, ...]

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return self.sizes[self.dimension]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return math.prod(self.sizes) // self.columns

    @property
    def index_bits(self) -> int:
        """Bits of an index in a row."""
        return max(1, (self.columns - 1).bit_length())

    @property
    def record(self) -> str:
        """The type of a key with its index in the lowest bits; i64 where they do not fit."""
        return "i32" if self.key.bits + self.index_bits <= 32 else "i64"

    @property
    def is_packed(self) -> bool:
        """Whether a key and its index fit an integer."""
        return self.key.bits + self.index_bits <= 64

    @property
    def views(self) -> list[View]:
        """The tensors that it reads and writes."""
        payloads = [one.payload for one in self.outputs if one.payload is not None]
        return [self.source, *payloads, *(one.result for one in self.outputs)]

    def row_axes(self) -> list[tuple[int, int]]:
        """Dimensions other than the sorted one with their sizes, merged where they can be.

        A merged dimension is named by its last one, of which it has the strides.
        """
        axes: list[tuple[int, int]] = []
        for dimension, size in enumerate(self.sizes):
            if dimension == self.dimension or size == 1:
                continue
            merges = axes and all(
                view.strides[axes[-1][0]] == size * view.strides[dimension] for view in self.views
            )
            if merges:
                axes[-1] = (dimension, axes[-1][1] * size)
            else:
                axes.append((dimension, size))
        return axes


class RecordForm:
    """Writes records: keys with the indices of their elements.

    Attributes:
      problem: the sort.
      writer: the lines of the kernel.
    """

    def __init__(self, problem: RowSort, writer: Writer) -> None:
        self.problem, self.writer = problem, writer
        self.scalars = LaneOps(writer)

    def record(self, key: str, column: str) -> list[str]:
        """The parts of the record of a key and the index of its element."""
        scalars, problem = self.scalars, self.problem
        if not problem.is_packed:
            index = self.writer.value(f"arith.index_cast {column} : index to {COUNTER}")
            return [key, index]
        kind = problem.record
        key = scalars.integer(key, problem.key.held, kind)
        shift = scalars.constant(problem.index_bits, kind)
        high = scalars.binary("arith.shli", key, shift, kind)
        index = self.writer.value(f"arith.index_cast {column} : index to {kind}")
        return [scalars.binary("arith.ori", high, index, kind)]

    def key(self, parts: list[str]) -> str:
        """The key of a record."""
        if not self.problem.is_packed:
            return parts[0]
        kind, held = self.problem.record, self.problem.key.held
        shift = self.scalars.constant(self.problem.index_bits, kind)
        return self.scalars.integer(
            self.scalars.binary("arith.shrui", parts[0], shift, kind), kind, held
        )

    def column(self, parts: list[str]) -> str:
        """The index of a record's element."""
        if not self.problem.is_packed:
            return self.writer.value(f"arith.index_castui {parts[1]} : {COUNTER} to index")
        kind = self.problem.record
        mask = self.scalars.constant(2**self.problem.index_bits - 1, kind)
        index = self.scalars.binary("arith.andi", parts[0], mask, kind)
        return self.writer.value(f"arith.index_castui {index} : {kind} to index")


def allocate(writer: Writer, element: str, size: int) -> tuple[str, str]:
    """Writes a buffer on the stack; returns its name and its type."""
    kind = f"memref<{size}x{element}>"
    return writer.stack(kind), kind


class SortMemory:
    """Writes the accesses of a kernel that sorts rows.

    Attributes:
      problem: the sort.
      writer: the lines of the kernel.
      operands: tensors that the kernel reads, with the names of their buffers.
    """

    def __init__(self, problem: RowSort, writer: Writer) -> None:
        self.problem, self.writer = problem, writer
        self.operands: dict[ir.Value, str] = {}
        self._results = {
            one.result.value: f"%y{number}" for number, one in enumerate(problem.outputs)
        }

    def buffer(self, view: View) -> str:
        """The name of a tensor's buffer."""
        if view.value in self._results:
            return self._results[view.value]
        return self.operands.setdefault(view.value, f"%x{len(self.operands)}")

    def row_index(self, row: str, lanes: LaneOps, element: str) -> list[tuple[int, str]]:
        """The dimensions of rows, and the index of a row in them."""
        found: list[tuple[int, str]] = []
        axes = self.problem.row_axes()
        for number, (dimension, size) in reversed(list(enumerate(axes))):
            if not number:
                found.append((dimension, row))
                break
            held = lanes.constant(size, element)
            found.append((dimension, lanes.binary("arith.remui", row, held, element)))
            row = lanes.binary("arith.divui", row, held, element)
        return found

    def starts(self, row: str) -> dict[View, Linear]:
        """Tensor -> the offset of the first element of a row."""
        index = self.row_index(row, LaneOps(self.writer), "index")
        found: dict[View, Linear] = {}
        for view in self.problem.views:
            start = Linear()
            for dimension, value in index:
                start = start + linear(value) * view.strides[dimension]
            found[view] = linear(self.writer.index(start))
        return found

    def at(self, view: View, starts: dict[View, Linear], column: str) -> str:
        """The offset of an element of a row."""
        stride = view.strides[self.problem.dimension]
        return self.writer.index(starts[view] + linear(column) * stride)

    def load(self, view: View, at: str) -> str:
        """An element of a tensor."""
        kind = memref(view.value.type)
        return self.writer.value(f"memref.load {self.buffer(view)}[{at}] : {kind}")

    def write_outputs(self, starts: dict[View, Linear], place: str, column: str) -> None:
        """Stores one place of a sorted row: the element with that index before the sort."""
        for one in self.problem.outputs:
            if one.payload is None:
                element = ops.element_type(one.result.value)
                text = f"arith.index_cast {column} : index to {element}"
                value = self.writer.value(text)
            else:
                value = self.load(one.payload, self.at(one.payload, starts, column))
            at = self.at(one.result, starts, place)
            kind = memref(one.result.value.type)
            self.writer.line(f"memref.store {value}, {self.buffer(one.result)}[{at}] : {kind}")

    def kernel(
        self, entry: str, grid: tuple[int, int], scratch: tuple[ir.Type, ...] = ()
    ) -> VectorKernel:
        """The kernel of the lines that are written."""
        return VectorKernel(
            entry=entry,
            lines=tuple(self.writer.text()),
            operands=tuple(self.operands),
            kinds=tuple(value.type for value in self.operands),
            results=tuple(one.result.value.type for one in self.problem.outputs),
            grid=grid,
            scratch=scratch,
        )
