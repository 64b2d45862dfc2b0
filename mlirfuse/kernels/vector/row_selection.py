"""Selects the first elements of long rows: those that come before the last one of the best so far.

for each row:
  for each two vectors of keys: do any come before the limit?
    then append the records of those to the candidates
    where there is no room for more: sort the candidates, keep the first ones, the limit is the last
  store the first candidates

Elements that come later in the row than the limit, and are equal to it, are not among the first
ones: the selection is stable. A row in the worst order costs about as much as sorting all of it.
"""

from __future__ import annotations

from mlirfuse.kernels.vector import radix_sort
from mlirfuse.kernels.vector.executable import VectorKernel, memref
from mlirfuse.kernels.vector.lane_ops import LaneOps
from mlirfuse.kernels.vector.radix_sort import Records
from mlirfuse.kernels.vector.row_sort import RowSort, SortMemory, View
from mlirfuse.kernels.vector.workgroups import block_size
from mlirfuse.kernels.vector.writer import Linear, Writer, linear
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice

VECTORS = 2
"""Vectors that are compared before one branch."""

MIN_CANDIDATES = 128
"""Candidates that are sorted at once, at least: fewer cost no less."""

MIN_CANDIDATES_PER_ELEMENT = 4
"""Room for candidates, as a multiple of the elements that are kept: they are sorted seldom."""

CYCLES_PER_VECTOR = 6
"""Cycles in which the keys of a vector are computed and compared."""


def capacity(problem: RowSort) -> int:
    """Candidates that are held, before those of one more step."""
    return max(MIN_CANDIDATES, MIN_CANDIDATES_PER_ELEMENT * problem.count)


def selects(problem: RowSort) -> bool:
    """Whether few elements of contiguous rows are kept."""
    contiguous = problem.source.strides[problem.dimension] == 1
    return contiguous and problem.columns >= 2 * capacity(problem)


def cycles(problem: RowSort, device: CpuDevice) -> float:
    """The modelled cycles of one row in random order."""
    ratio = problem.columns // problem.count
    appended = capacity(problem) + problem.count * (ratio.bit_length() - 1)
    sorts = appended / (capacity(problem) - problem.count)
    vectors = problem.columns * CYCLES_PER_VECTOR / device.lanes
    step = VECTORS * device.lanes
    return (
        vectors
        + problem.count * (ratio.bit_length() - 1) * step
        + sorts * radix_sort.cycles(problem, capacity(problem))
    )


def kernel(problem: RowSort, entry: str, device: CpuDevice) -> VectorKernel:
    """Writes the kernel that selects the first elements of rows.

    Raises:
      Unsupported: a comparator that kernels cannot compute.
    """
    return _SelectionKernel(problem, device).write(entry)


class _SelectionKernel:
    """Writes one kernel."""

    def __init__(self, problem: RowSort, device: CpuDevice) -> None:
        self.problem, self.writer = problem, Writer()
        self.memory = SortMemory(problem, self.writer)
        self.lanes = LaneOps(self.writer, device.vector_bytes * 8 // int(problem.key.held[1:]))
        self.step = VECTORS * self.lanes.lanes
        work = cycles(problem, device) * device.lanes
        read = problem.columns * ops.element_bits(problem.source.value) / 8
        self.size = block_size(problem.rows, work, read, device)
        self.blocks = -(-problem.rows // self.size)
        room = capacity(problem) + self.step
        self.records = Records(problem, self.writer, room, self.blocks)

    def write(self, entry: str) -> VectorKernel:
        """Writes the whole kernel."""
        writer, problem = self.writer, self.problem
        block = writer.value("hal.interface.workgroup.id[0] : index")
        first = linear(block) * self.size
        last = writer.binary("minsi", first + self.size, problem.rows)
        self.records.begin(block)

        def row(number: str, _: list[str]) -> list[str]:
            self._write_row(number)
            return []

        writer.loop(first, last, 1, [], [], row)
        return self.memory.kernel(entry, (self.blocks, 1), self.records.scratch)

    def _write_row(self, row: str) -> None:
        """Writes one row; carried are the limit, whether any key is allowed, places and a count."""
        writer, problem, records = self.writer, self.problem, self.records
        starts, kind = self.memory.starts(row), problem.key.held
        source, target = records.halves
        any_key = writer.constant("-1", kind)
        initial = [any_key, writer.hoisted("arith.constant true"), source, target, writer.index(0)]
        kinds = [kind, "i1", "index", "index", "index"]

        def chunk(column: str, state: list[str]) -> list[str]:
            limit, alive, here, there, held = state
            found = self._any_before(starts, column, limit, alive)

            def take() -> list[str]:
                count = self._appended(starts, column, limit, alive, here, held)
                return self._compacted(column, limit, alive, here, there, count)

            return writer.choose(found, kinds, take, lambda: state)

        state = writer.loop(0, problem.columns, self.step, initial, kinds, chunk)
        ordered = state[2]

        def finish(place: str, _: list[str]) -> list[str]:
            parts = records.load(writer.index(linear(ordered) + linear(place)))
            self.memory.write_outputs(starts, place, records.column(parts))
            return []

        writer.loop(0, problem.count, 1, [], [], finish)

    def _before(self, lanes: LaneOps, key: str, limit: str, alive: str) -> str:
        """Whether keys are at most the limit, and any is allowed."""
        kind = self.problem.key.held
        below = lanes.compare("ule", key, lanes.splat(limit, kind), kind)
        return lanes.binary("arith.andi", below, lanes.splat(alive, "i1"), "i1")

    def _any_before(self, starts: dict[View, Linear], column: str, limit: str, alive: str) -> str:
        """Whether some elements of a step may be candidates; the last step always has some."""
        writer, problem, lanes = self.writer, self.problem, self.lanes
        end = writer.index(linear(column) + self.step)
        inside = writer.value(f"arith.cmpi slt, {end}, {writer.index(problem.columns)} : index")
        element = ops.element_type(problem.source.value)
        kind, held = memref(problem.source.value.type), lanes.type(element)

        def compare() -> list[str]:
            hits = []
            for number in range(VECTORS):
                place = writer.index(linear(column) + number * lanes.lanes)
                at = self.memory.at(problem.source, starts, place)
                buffer = self.memory.buffer(problem.source)
                loaded = writer.value(f"vector.load {buffer}[{at}] : {kind}, {held}")
                hits.append(self._before(lanes, problem.key.write(lanes, loaded), limit, alive))
            hit = hits[0]
            for other in hits[1:]:
                hit = lanes.binary("arith.ori", hit, other, "i1")
            return [writer.value(f"vector.reduction <or>, {hit} : {lanes.type('i1')} into i1")]

        whole = writer.hoisted("arith.constant true")
        return writer.choose(inside, ["i1"], compare, lambda: [whole])[0]

    def _appended(
        self,
        starts: dict[View, Linear],
        column: str,
        limit: str,
        alive: str,
        here: str,
        held: str,
    ) -> str:
        """Appends the candidates of a step; returns their number."""
        writer, problem, scalars = self.writer, self.problem, LaneOps(self.writer)
        last = writer.binary("minsi", linear(column) + self.step, problem.columns)

        def append(place: str, state: list[str]) -> list[str]:
            (count,) = state
            element = self.memory.load(
                problem.source, self.memory.at(problem.source, starts, place)
            )
            key = problem.key.write(scalars, element)
            at = writer.index(linear(here) + linear(count))
            self.records.store(self.records.record(key, place), at)
            before = self._before(scalars, key, limit, alive)
            taken = writer.value(f"arith.index_castui {before} : i1 to index")
            return [writer.index(linear(count) + linear(taken))]

        return writer.loop(column, last, 1, [held], ["index"], append)[0]

    def _compacted(
        self, column: str, limit: str, alive: str, here: str, there: str, count: str
    ) -> list[str]:
        """Sorts the candidates where there is no room for a step, and at the end of the row."""
        writer, problem, records = self.writer, self.problem, self.records
        kind, scalars = problem.key.held, LaneOps(self.writer)
        full = writer.value(
            f"arith.cmpi sgt, {count}, {writer.index(capacity(problem) - self.step)} : index"
        )
        end = writer.index(linear(column) + self.step)
        ends = writer.value(f"arith.cmpi sge, {end}, {writer.index(problem.columns)} : index")
        due = writer.value(f"arith.ori {full}, {ends} : i1")

        def compact() -> list[str]:
            ordered = records.sort(count, here, there)
            free = writer.index(linear(here) + linear(there) + linear(ordered) * -1)
            last = records.load(writer.index(linear(ordered) + (problem.count - 1)))
            key = records.key(last)
            # Strictly before the last one: at most the key below it, if there is one.
            some = scalars.compare("ne", key, scalars.constant(0, kind), kind)
            below = scalars.binary("arith.subi", key, scalars.constant(1, kind), kind)
            return [below, some, ordered, free, writer.index(problem.count)]

        kinds = [kind, "i1", "index", "index", "index"]
        return writer.choose(due, kinds, compact, lambda: [limit, alive, here, there, count])
