"""Sorts short rows, one in each lane, by a network of exchanges.

for each group of rows, as many as a vector has lanes:
  a vector of records for each column, each a key with its index
  the network: the lesser and the greater of two vectors, in place of both
  store the first vectors
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.vector.executable import VectorKernel, element_in_memory, memref
from mlirfuse.kernels.vector.lane_ops import LaneOps
from mlirfuse.kernels.vector.merge_network import comparators
from mlirfuse.kernels.vector.row_schedule import STACK_BYTES
from mlirfuse.kernels.vector.row_sort import RowSort, SortMemory, View, allocate
from mlirfuse.kernels.vector.workgroups import block_size
from mlirfuse.kernels.vector.writer import Linear, Writer, linear
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice

CYCLES_PER_EXCHANGE = 2.5
"""Cycles of an exchange: the lesser, the greater, and their moves to and from the stack. With
`radix_sort.CYCLES_PER_PASS` it gives the measured ratios of both kernels on an Intel CPU with
AVX-512: 2.4 for 1024 rows of 1243 f32, 1.3 for 128 rows of 8000."""

CYCLES_PER_GATHERED_LANE = 2
"""Cycles in which one lane of a gather or a scatter is moved."""

OFFSET = "i32"
"""Type of the offsets of the rows in the lanes."""


def lanes(problem: RowSort, device: CpuDevice) -> int:
    """Rows of a vector of records."""
    return device.vector_bytes * 8 // int(problem.record[1:])


def cycles(problem: RowSort, device: CpuDevice) -> float:
    """The modelled cycles of a group of rows."""
    return group_cycles(problem, device, len(comparators(problem.columns, problem.count)))


def group_cycles(problem: RowSort, device: CpuDevice, exchanges: float) -> float:
    """The modelled cycles of a group of rows, with so many exchanges."""
    # Only these have an instruction for the lesser one of integers of 64 bits.
    steps = 1 if problem.record == "i32" or device.has("avx512f", "sve") else 4
    moved = problem.columns + 2 * len(problem.outputs) * problem.count
    gathered = CYCLES_PER_GATHERED_LANE * lanes(problem, device) * moved
    return CYCLES_PER_EXCHANGE * steps * exchanges + gathered


def kernel(problem: RowSort, entry: str, device: CpuDevice) -> VectorKernel:
    """Writes the kernel that sorts a row in each lane.

    Raises:
      Unsupported: a comparator that kernels cannot compute.
    """
    return NetworkKernel(problem, device).write(entry)


class NetworkKernel:
    """Writes one kernel."""

    def __init__(self, problem: RowSort, device: CpuDevice) -> None:
        self.problem, self.device, self.writer = problem, device, Writer()
        self.memory = SortMemory(problem, self.writer)
        self.width = lanes(problem, device)
        self.ops = LaneOps(self.writer, self.width)
        self.groups = -(-problem.rows // self.width)
        work = self.cycles() * device.lanes
        read = self.width * problem.columns * ops.element_bits(problem.source.value) / 8
        self.size = block_size(self.groups, work, read, device)
        self.blocks = -(-self.groups // self.size)
        self.start = Linear()
        self.scratch: tuple[ir.Type, ...] = ()
        held = self.width * self.held_columns
        if held * int(problem.record[1:]) // 8 <= STACK_BYTES:
            self.stack, self.kind = allocate(self.writer, problem.record, held)
        else:
            size = held * self.blocks
            self.stack = f"%y{len(problem.outputs)}"
            self.kind = f"memref<{size}x{problem.record}>"
            self.scratch = (ir.Type.parse(f"tensor<{size}x{problem.record}>"),)

    @property
    def held_columns(self) -> int:
        """Columns of the buffer of records."""
        return self.problem.columns

    def cycles(self) -> float:
        """The modelled cycles of a group of rows."""
        return cycles(self.problem, self.device)

    def write(self, entry: str) -> VectorKernel:
        """Writes the whole kernel."""
        writer = self.writer
        block = writer.value("hal.interface.workgroup.id[0] : index")
        if self.scratch:
            held = self.width * self.held_columns
            self.start = linear(writer.index(linear(block) * held))
        first = linear(block) * self.size
        last = writer.binary("minsi", first + self.size, self.groups)

        def group(number: str, _: list[str]) -> list[str]:
            self._write_group(writer.index(linear(number) * self.width))
            return []

        writer.loop(first, last, 1, [], [], group)
        return self.memory.kernel(entry, (self.blocks, 1), self.scratch)

    def _write_group(self, row: str) -> None:
        problem = self.problem
        starts = self._starts(row)

        def fill(column: str, _: list[str]) -> list[str]:
            self.put(self._record(starts, column), column)
            return []

        def finish(place: str, _: list[str]) -> list[str]:
            self._write_outputs(starts, place, self.held(place))
            return []

        self.writer.loop(0, problem.columns, 1, [], [], fill)
        self.sort()
        self.writer.loop(0, problem.count, 1, [], [], finish)

    def sort(self) -> None:
        """Writes the network of a whole row."""
        exchanges = comparators(self.problem.columns, self.problem.count)
        self.exchange_all(exchanges, Linear(), self.problem.columns, self.problem.count)

    def exchange_all(
        self, exchanges: Sequence[tuple[int, int]], start: Linear, size: int, count: int
    ) -> None:
        """Writes the exchanges of columns from `start` on, and stores the first `count`."""
        records = [self.held(start + number) for number in range(size)]
        for first, second in exchanges:
            records[first], records[second] = self.exchanged(records[first], records[second])
        for number in range(count):
            self.put(records[number], start + number)

    def exchanged(self, one: str, other: str) -> tuple[str, str]:
        """The lesser and the greater of two vectors of records."""
        kind = self.problem.record
        lesser = self.ops.binary("arith.minui", one, other, kind)
        return lesser, self.ops.binary("arith.maxui", one, other, kind)

    def put(self, record: str, column: str | Linear) -> None:
        """Stores the records of a column on the stack."""
        at = self.writer.index(self.start + linear(column) * self.width)
        held = self.ops.type(self.problem.record)
        self.writer.line(f"vector.store {record}, {self.stack}[{at}] : {self.kind}, {held}")

    def held(self, column: str | Linear) -> str:
        """Loads the records of a column."""
        at = self.writer.index(self.start + linear(column) * self.width)
        held = self.ops.type(self.problem.record)
        return self.writer.value(f"vector.load {self.stack}[{at}] : {self.kind}, {held}")

    def _starts(self, row: str) -> dict[View, str]:
        """Tensor -> the offsets of the first elements of the rows; the last row fills a group up.

        Where the elements of the rows are contiguous it is the offset of the first one.
        """
        writer, problem, lanes = self.writer, self.problem, self.ops
        first = self.memory.starts(row)
        number = writer.value(f"arith.index_cast {row} : index to {OFFSET}")
        steps = ", ".join(map(str, range(self.width)))
        numbers = lanes.binary(
            "arith.addi", lanes.splat(number, OFFSET), lanes.constant(f"[{steps}]", OFFSET), OFFSET
        )
        if problem.rows % self.width:
            last = lanes.constant(problem.rows - 1, OFFSET)
            numbers = lanes.binary("arith.minsi", numbers, last, OFFSET)
        index = self.memory.row_index(numbers, lanes, OFFSET)
        found: dict[View, str] = {}
        for view in problem.views:
            if self._is_contiguous(view):
                found[view] = writer.index(first[view])
                continue
            start = lanes.constant(0, OFFSET)
            for dimension, value in index:
                stride = lanes.constant(view.strides[dimension], OFFSET)
                step = lanes.binary("arith.muli", value, stride, OFFSET)
                start = lanes.binary("arith.addi", start, step, OFFSET)
            found[view] = start
        return found

    def _is_contiguous(self, view: View) -> bool:
        """Whether the elements of a column of a group are contiguous in memory."""
        axes = self.problem.row_axes()
        if not axes:
            return False
        dimension, size = axes[-1]
        return view.strides[dimension] == 1 and size % self.width == 0

    def _record(self, starts: dict[View, str], column: str) -> str:
        """The records of a column."""
        problem, lanes = self.problem, self.ops
        element = self._load(problem.source, starts, column)
        key = problem.key.write(lanes, element)
        kind = problem.record
        key = lanes.integer(key, problem.key.held, kind)
        shift = lanes.constant(problem.index_bits, kind)
        high = lanes.binary("arith.shli", key, shift, kind)
        index = self.writer.value(f"arith.index_cast {column} : index to {kind}")
        return lanes.binary("arith.ori", high, lanes.splat(index, kind), kind)

    def _load(
        self, view: View, starts: dict[View, str], column: str = "", columns: str = ""
    ) -> str:
        """The elements of a column, or those of the columns with the indices `columns`."""
        stride = view.strides[self.problem.dimension]
        offsets, base = starts[view], linear(column) * stride if column else Linear()
        element = element_in_memory(view.value.type)
        kind, held = memref(view.value.type), self.ops.type(element)
        if self._is_contiguous(view):
            if column:
                at = self.writer.index(linear(offsets) + base)
                text = f"vector.load {self.memory.buffer(view)}[{at}] : {kind}, {held}"
                return self.writer.value(text)
            steps = ", ".join(map(str, range(self.width)))
            start = self.writer.value(f"arith.index_cast {offsets} : index to {OFFSET}")
            offsets = self.ops.binary(
                "arith.addi",
                self.ops.splat(start, OFFSET),
                self.ops.constant(f"[{steps}]", OFFSET),
                OFFSET,
            )
        if columns:
            step = self.ops.constant(stride, OFFSET)
            moved = self.ops.binary("arith.muli", columns, step, OFFSET)
            offsets = self.ops.binary("arith.addi", offsets, moved, OFFSET)
        zero = self.ops.constant("0.0" if "f" in element else "0", element)
        indices, active = self.ops.type(OFFSET), self.ops.type("i1")
        return self.writer.value(
            f"vector.gather {self.memory.buffer(view)}[{self.writer.index(base)}] [{offsets}],"
            f" {self.ops.constant('true', 'i1')}, {zero} :"
            f" {kind}, {indices}, {active}, {held} into {held}"
        )

    def _write_outputs(self, starts: dict[View, str], place: str, record: str) -> None:
        """Stores one place of the sorted rows."""
        problem, lanes = self.problem, self.ops
        kind = problem.record
        mask = lanes.constant(2**problem.index_bits - 1, kind)
        index = lanes.binary("arith.andi", record, mask, kind)
        columns = lanes.integer(index, kind, OFFSET)
        for one in problem.outputs:
            element = element_in_memory(one.result.value.type)
            if one.payload is None:
                value = lanes.integer(index, kind, element)
            else:
                value = self._load(one.payload, starts, columns=columns)
            self._store(one.result, starts, place, value, element)

    def _store(
        self, view: View, starts: dict[View, str], place: str, value: str, element: str
    ) -> None:
        base = linear(place) * view.strides[self.problem.dimension]
        kind, held = memref(view.value.type), self.ops.type(element)
        buffer = self.memory.buffer(view)
        if self._is_contiguous(view):
            at = self.writer.index(linear(starts[view]) + base)
            self.writer.line(f"vector.store {value}, {buffer}[{at}] : {kind}, {held}")
            return
        indices, active = self.ops.type(OFFSET), self.ops.type("i1")
        self.writer.line(
            f"vector.scatter {buffer}[{self.writer.index(base)}] [{starts[view]}],"
            f" {self.ops.constant('true', 'i1')}, {value} : {kind}, {indices}, {active}, {held}"
        )
