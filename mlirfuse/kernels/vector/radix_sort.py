"""Sorts each row by the digits of its keys, the lowest ones first.

for each row: the records of a row, each a key with its index
  count the digits of all records
  for each digit: move each record behind those of lower or equal digits before it
  store the first elements

Each pass keeps the order of equal digits, so the sort is stable; its time does not depend on the
data, and grows with the length of a row alone.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.lane_ops import LaneOps
from mlirfuse.kernels.vector.row_schedule import STACK_BYTES
from mlirfuse.kernels.vector.row_sort import COUNTER, RecordForm, RowSort, SortMemory, allocate
from mlirfuse.kernels.vector.workgroups import block_size
from mlirfuse.kernels.vector.writer import Linear, Writer, linear
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice

RADIX_BITS = 8
"""Bits of a digit: a histogram of 1 KiB for each digit of a key stays in the first cache."""

CYCLES_PER_PASS = 8
"""Cycles in which an element's digit is counted, and the element is moved: twice the latency of a
counter that is loaded after it was stored."""

CYCLES_PER_COUNTER = 3
"""Cycles in which a counter is cleared and added up."""


def passes(problem: RowSort) -> int:
    """The digits of a key."""
    return -(-problem.key.bits // RADIX_BITS)


def cycles(problem: RowSort, columns: int) -> float:
    """The modelled cycles of some elements: passes over them, and over the counters."""
    return passes(problem) * (CYCLES_PER_PASS * columns + (CYCLES_PER_COUNTER << RADIX_BITS))


def kernel(problem: RowSort, entry: str, device: CpuDevice) -> VectorKernel:
    """Writes the kernel that sorts whole rows.

    Raises:
      Unsupported: a comparator that kernels cannot compute.
    """
    return _RadixKernel(problem, device).write(entry)


class Records(RecordForm):
    """Writes the buffer of the records of a row, twice, and their sort.

    Attributes:
      problem: the sort.
      capacity: records that each half of the buffer holds.
      scratch: types of the tensors that hold the records of all workgroups.
    """

    def __init__(self, problem: RowSort, writer: Writer, capacity: int, blocks: int) -> None:
        super().__init__(problem, writer)
        self.capacity = capacity
        kinds = [problem.record] if problem.is_packed else [problem.key.held, COUNTER]
        self.counters = allocate(writer, COUNTER, passes(problem) << RADIX_BITS)
        counted = 4 * passes(problem) << RADIX_BITS
        held = sum(2 * capacity * int(kind[1:]) // 8 for kind in kinds)
        self.scratch: tuple[ir.Type, ...] = ()
        self.start: Linear = Linear()
        if held + counted <= STACK_BYTES:
            self.parts = [(*allocate(writer, kind, 2 * capacity), kind) for kind in kinds]
            return
        size = blocks * 2 * capacity
        first = len(problem.outputs)
        self.parts = [
            (f"%y{first + number}", f"memref<{size}x{kind}>", kind)
            for number, kind in enumerate(kinds)
        ]
        self.scratch = tuple(ir.Type.parse(f"tensor<{size}x{kind}>") for kind in kinds)

    def begin(self, block: str) -> None:
        """Chooses the part of the buffer that a workgroup has."""
        if self.scratch:
            self.start = linear(self.writer.index(linear(block) * (2 * self.capacity)))

    @property
    def halves(self) -> tuple[str, str]:
        """The offsets of the first records of both halves."""
        second = self.start + self.capacity
        return self.writer.index(self.start), self.writer.index(second)

    def store(self, parts: list[str], at: str) -> None:
        """Stores a record."""
        for value, (name, kind, _) in zip(parts, self.parts, strict=True):
            self.writer.line(f"memref.store {value}, {name}[{at}] : {kind}")

    def load(self, at: str) -> list[str]:
        """Loads a record."""
        return [
            self.writer.value(f"memref.load {name}[{at}] : {kind}") for name, kind, _ in self.parts
        ]

    def _counter(self, parts: list[str], digit: int) -> str:
        """The offset of the counter of a record's digit."""
        kind = self.parts[0][2]
        shift = digit * RADIX_BITS + (self.problem.index_bits if self.problem.is_packed else 0)
        value = parts[0]
        if shift:
            amount = self.scalars.constant(shift, kind)
            value = self.scalars.binary("arith.shrui", value, amount, kind)
        mask = self.scalars.constant(2**RADIX_BITS - 1, kind)
        value = self.scalars.binary("arith.andi", value, mask, kind)
        value = self.writer.value(f"arith.index_castui {value} : {kind} to index")
        return self.writer.index(linear(value) + (digit << RADIX_BITS))

    def _count(self, at: str) -> str:
        name, kind = self.counters
        return self.writer.value(f"memref.load {name}[{at}] : {kind}")

    def _set_count(self, value: str, at: str) -> None:
        name, kind = self.counters
        self.writer.line(f"memref.store {value}, {name}[{at}] : {kind}")

    def sort(self, count: str | int, source: str, target: str) -> str:
        """Writes the sort of the first records of a half; returns the offset of the sorted ones."""
        writer, digits = self.writer, range(passes(self.problem))
        zero, one = writer.constant("0", COUNTER), writer.constant("1", COUNTER)
        count = writer.index(count)

        def clear(at: str, _: list[str]) -> list[str]:
            self._set_count(zero, at)
            return []

        def count_digits(number: str, _: list[str]) -> list[str]:
            parts = self.load(writer.index(linear(source) + linear(number)))
            for at in [self._counter(parts, digit) for digit in digits]:
                self._set_count(writer.value(f"arith.addi {self._count(at)}, {one} : i32"), at)
            return []

        writer.loop(0, len(digits) << RADIX_BITS, 1, [], [], clear)
        writer.loop(0, count, 1, [], [], count_digits)
        first = self.load(source)
        whole = writer.value(f"arith.index_cast {count} : index to {COUNTER}")
        equal = [
            self.scalars.compare("eq", self._count(self._counter(first, digit)), whole, COUNTER)
            for digit in digits
        ]

        def add_up(digit: str, sums: list[str]) -> list[str]:
            after = []
            for number, before in enumerate(sums):
                at = writer.index(linear(digit) + (number << RADIX_BITS))
                here = self._count(at)
                self._set_count(before, at)
                after.append(writer.value(f"arith.addi {before}, {here} : {COUNTER}"))
            return after

        kinds = [COUNTER for _ in digits]
        writer.loop(0, 2**RADIX_BITS, 1, [zero for _ in digits], kinds, add_up)
        places = [source, target]
        for digit in digits:
            places = self._moved(digit, equal[digit], count, *places)
        return places[0]

    def _moved(self, digit: int, equal: str, count: str, source: str, target: str) -> list[str]:
        """Moves the records by a digit, unless it is the same in all of them."""
        writer = self.writer
        one = writer.constant("1", COUNTER)

        def move(number: str, _: list[str]) -> list[str]:
            parts = self.load(writer.index(linear(source) + linear(number)))
            at = self._counter(parts, digit)
            place = self._count(at)
            self._set_count(writer.value(f"arith.addi {place}, {one} : {COUNTER}"), at)
            place = writer.value(f"arith.index_castui {place} : {COUNTER} to index")
            self.store(parts, writer.index(linear(target) + linear(place)))
            return []

        def moved() -> list[str]:
            writer.loop(0, count, 1, [], [], move)
            return [target, source]

        return writer.choose(equal, ["index", "index"], lambda: [source, target], moved)


class _RadixKernel:
    """Writes one kernel."""

    def __init__(self, problem: RowSort, device: CpuDevice) -> None:
        self.problem, self.writer = problem, Writer()
        self.memory = SortMemory(problem, self.writer)
        work = cycles(problem, problem.columns) * device.lanes
        read = problem.columns * ops.element_bits(problem.source.value) / 8
        self.size = block_size(problem.rows, work, read, device)
        self.blocks = -(-problem.rows // self.size)
        self.records = Records(problem, self.writer, problem.columns, self.blocks)

    def write(self, entry: str) -> VectorKernel:
        """Writes the whole kernel."""
        writer, problem = self.writer, self.problem
        block = writer.value("hal.interface.workgroup.id[0] : index")
        first = linear(block) * self.size
        last = writer.binary("minsi", first + self.size, problem.rows)
        self.records.begin(block)
        source, target = self.records.halves

        def row(number: str, _: list[str]) -> list[str]:
            self._write_row(number, source, target)
            return []

        writer.loop(first, last, 1, [], [], row)
        return self.memory.kernel(entry, (self.blocks, 1), self.records.scratch)

    def _write_row(self, row: str, source: str, target: str) -> None:
        writer, problem, memory, records = self.writer, self.problem, self.memory, self.records
        starts = memory.starts(row)

        def fill(column: str, _: list[str]) -> list[str]:
            element = memory.load(problem.source, memory.at(problem.source, starts, column))
            key = problem.key.write(LaneOps(writer), element)
            records.store(
                records.record(key, column), writer.index(linear(source) + linear(column))
            )
            return []

        writer.loop(0, problem.columns, 1, [], [], fill)
        ordered = records.sort(problem.columns, source, target)

        def finish(place: str, _: list[str]) -> list[str]:
            parts = records.load(writer.index(linear(ordered) + linear(place)))
            memory.write_outputs(starts, place, records.column(parts))
            return []

        writer.loop(0, problem.count, 1, [], [], finish)
