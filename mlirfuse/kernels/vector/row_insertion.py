"""Selects the few first elements of long rows, which are kept in order in registers.

for each row:
  for each two vectors of keys: do any come before the last one of the first elements?
    then for each of those: first = min(first, max(its record, first moved by one lane))
  store the first elements

An element that is equal to the last one and comes later in the row has a greater record: it is not
inserted, and the selection is stable. A row in the worst order inserts each element.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirfuse.kernels.vector.executable import VectorKernel, memref
from mlirfuse.kernels.vector.lane_ops import LaneOps
from mlirfuse.kernels.vector.row_sort import RecordForm, RowSort, SortMemory, View
from mlirfuse.kernels.vector.workgroups import block_size
from mlirfuse.kernels.vector.writer import Linear, Writer, linear
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice

VECTORS = 2
"""Vectors of keys that are compared before one branch."""

MAX_VECTORS = 4
"""Vectors of the first elements: each is moved for each element that is inserted."""

CYCLES_PER_VECTOR = 6
"""Cycles in which the keys of a vector are computed and compared."""

CYCLES_PER_INSERTION = 30
"""Cycles of an insertion: a branch that is not foreseen, and the latency of a broadcast, a shuffle,
a maximum and a minimum."""

UNFILLED = -1
"""The record of a place without an element: as an unsigned number the greatest one."""


def selects(problem: RowSort, device: CpuDevice) -> bool:
    """Whether registers hold the elements of contiguous rows that are kept.

    They are not more than those of the first step, after which each place has an element.
    """
    contiguous = problem.source.strides[problem.dimension] == 1
    step = VECTORS * _key_lanes(problem, device)
    most = min(step, MAX_VECTORS * _record_lanes(problem, device))
    few = problem.is_packed and problem.count <= most
    return contiguous and few and problem.columns >= 2 * step


def cycles(problem: RowSort, device: CpuDevice) -> float:
    """The modelled cycles of one row in random order: the n-th element is kept with k / n."""
    ratio = problem.columns // problem.count
    inserted = problem.count * ratio.bit_length()
    vectors = problem.columns / _key_lanes(problem, device)
    return vectors * CYCLES_PER_VECTOR + inserted * CYCLES_PER_INSERTION


def kernel(problem: RowSort, entry: str, device: CpuDevice) -> VectorKernel:
    """Writes the kernel that selects the first elements of rows.

    Raises:
      Unsupported: a comparator that kernels cannot compute.
    """
    return _InsertionKernel(problem, device).write(entry)


def _key_lanes(problem: RowSort, device: CpuDevice) -> int:
    return device.vector_bytes * 8 // int(problem.key.held[1:])


def _record_lanes(problem: RowSort, device: CpuDevice) -> int:
    return device.vector_bytes * 8 // int(problem.record[1:])


class _InsertionKernel:
    """Writes one kernel."""

    def __init__(self, problem: RowSort, device: CpuDevice) -> None:
        self.problem, self.writer = problem, Writer()
        self.memory = SortMemory(problem, self.writer)
        self.form = RecordForm(problem, self.writer)
        self.keys = LaneOps(self.writer, _key_lanes(problem, device))
        self.records = LaneOps(self.writer, _record_lanes(problem, device))
        self.vectors = -(-problem.count // self.records.lanes)
        work = cycles(problem, device) * device.lanes
        read = problem.columns * ops.element_bits(problem.source.value) / 8
        self.size = block_size(problem.rows, work, read, device)

    def write(self, entry: str) -> VectorKernel:
        """Writes the whole kernel."""
        writer, problem = self.writer, self.problem
        first = linear(writer.value("hal.interface.workgroup.id[0] : index")) * self.size
        last = writer.binary("minsi", first + self.size, problem.rows)

        def row(number: str, _: list[str]) -> list[str]:
            self._write_row(number)
            return []

        writer.loop(first, last, 1, [], [], row)
        return self.memory.kernel(entry, (-(-problem.rows // self.size), 1))

    def _write_row(self, row: str) -> None:
        """Writes one row; carried are the first records, a limit, and whether it allows any key."""
        writer, problem = self.writer, self.problem
        starts, step = self.memory.starts(row), VECTORS * self.keys.lanes
        kinds = [self.records.type(problem.record)] * self.vectors
        unfilled = [self.records.constant(UNFILLED, problem.record)] * self.vectors
        limit = [writer.constant("-1", problem.key.held), writer.hoisted("arith.constant true")]
        limit_kinds = [problem.key.held, "i1"]

        def chunk(column: str, state: list[str]) -> list[str]:
            return self._write_chunk(starts, column, state, [*kinds, *limit_kinds])

        def rest(column: str, first: list[str]) -> list[str]:
            return self._inserted(starts, column, first)

        whole = problem.columns // step * step
        state = writer.loop(0, whole, step, [*unfilled, *limit], [*kinds, *limit_kinds], chunk)
        first = writer.loop(whole, problem.columns, 1, state[: self.vectors], kinds, rest)
        self._write_first(starts, first)

    def _write_chunk(
        self, starts: dict[View, Linear], column: str, state: list[str], kinds: Sequence[str]
    ) -> list[str]:
        """Compares some vectors with the limit, and inserts what comes before it."""
        writer, lanes = self.writer, self.keys
        *first, limit, alive = state
        places = [linear(column) + number * lanes.lanes for number in range(VECTORS)]
        hits = [self._before(starts, writer.index(place), limit, alive) for place in places]
        hit = hits[0]
        for other in hits[1:]:
            hit = lanes.binary("arith.ori", hit, other, "i1")
        found = writer.value(f"vector.reduction <or>, {hit} : {lanes.type('i1')} into i1")

        def take() -> list[str]:
            held = first
            for place, mask in zip(places, hits, strict=True):
                held = self._each(starts, place, mask, held)
            return [*held, *self._limit(held)]

        return writer.choose(found, kinds, take, lambda: state)

    def _before(self, starts: dict[View, Linear], place: str, limit: str, alive: str) -> str:
        """The lanes whose keys are at most the limit, where any is allowed."""
        problem, lanes = self.problem, self.keys
        source, kind = problem.source, problem.key.held
        held = lanes.type(ops.element_type(source.value))
        at, buffer = self.memory.at(source, starts, place), self.memory.buffer(source)
        loaded = self.writer.value(
            f"vector.load {buffer}[{at}] : {memref(source.value.type)}, {held}"
        )
        key = problem.key.write(lanes, loaded)
        below = lanes.compare("ule", key, lanes.splat(limit, kind), kind)
        return lanes.binary("arith.andi", below, lanes.splat(alive, "i1"), "i1")

    def _each(
        self, starts: dict[View, Linear], place: Linear, mask: str, first: list[str]
    ) -> list[str]:
        """Inserts the elements in the lanes of a mask."""
        writer, lanes, scalars = self.writer, self.keys.lanes, LaneOps(self.writer)
        bits = writer.value(f"vector.bitcast {mask} : {self.keys.type('i1')} to vector<1xi{lanes}>")
        few = writer.value(f"vector.extract {bits}[0] : i{lanes} from vector<1xi{lanes}>")
        left = scalars.integer(few, f"i{lanes}", "i32")
        count = writer.value(f"math.ctpop {left} : i32")
        stop = writer.value(f"arith.index_castui {count} : i32 to index")

        def one(_: str, state: list[str]) -> list[str]:
            bits, *held = state
            lane = writer.value(f"math.cttz {bits} : i32")
            index = writer.value(f"arith.index_castui {lane} : i32 to index")
            lower = scalars.binary("arith.subi", bits, scalars.constant(1, "i32"), "i32")
            rest = scalars.binary("arith.andi", bits, lower, "i32")
            return [rest, *self._inserted(starts, writer.index(place + linear(index)), held)]

        kinds = ["i32", *[self.records.type(self.problem.record)] * self.vectors]
        return writer.loop(0, stop, 1, [left, *first], kinds, one)[1:]

    def _inserted(self, starts: dict[View, Linear], column: str, first: Sequence[str]) -> list[str]:
        """The first records with that of one more element, without the last of them."""
        writer, lanes, kind = self.writer, self.records, self.problem.record
        at = self.memory.at(self.problem.source, starts, column)
        element = self.memory.load(self.problem.source, at)
        key = self.problem.key.write(LaneOps(writer), element)
        (record,) = self.form.record(key, column)
        new, before = lanes.splat(record, kind), lanes.constant(0, kind)
        order = [lanes.lanes - 1 + n for n in range(lanes.lanes)]
        found = []
        for held in first:
            both = f"{before}, {held} {order} : {lanes.type(kind)}, {lanes.type(kind)}"
            moved = writer.value(f"vector.shuffle {both}")
            later = lanes.binary("arith.maxui", new, moved, kind)
            found.append(lanes.binary("arith.minui", held, later, kind))
            before = held
        return found

    def _limit(self, first: Sequence[str]) -> list[str]:
        """The greatest key that comes before the last record, and whether there is one."""
        writer, problem, scalars = self.writer, self.problem, LaneOps(self.writer)
        vector, lane = divmod(problem.count - 1, self.records.lanes)
        record, held = problem.record, problem.key.held
        kind = self.records.type(record)
        last = writer.value(f"vector.extract {first[vector]}[{lane}] : {record} from {kind}")
        key = self.form.key([last])
        some = scalars.compare("ne", key, scalars.constant(0, held), held)
        below = scalars.binary("arith.subi", key, scalars.constant(1, held), held)
        return [below, some]

    def _write_first(self, starts: dict[View, Linear], first: Sequence[str]) -> None:
        """Stores the first elements."""
        writer, record, lanes = self.writer, self.problem.record, self.records
        buffer_type = f"memref<{self.vectors * lanes.lanes}x{record}>"
        buffer = writer.stack(buffer_type, use="first")
        for number, held in enumerate(first):
            at = writer.index(number * lanes.lanes)
            writer.line(
                f"vector.store {held}, {buffer}[{at}] : {buffer_type}, {lanes.type(record)}"
            )

        def finish(place: str, _: list[str]) -> list[str]:
            held = writer.value(f"memref.load {buffer}[{place}] : {buffer_type}")
            self.memory.write_outputs(starts, place, self.form.column([held]))
            return []

        writer.loop(0, self.problem.count, 1, [], [], finish)
