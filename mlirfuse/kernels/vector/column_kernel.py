"""Kernels of reductions that keep the dimension that is contiguous in memory.

for each tile of kept elements, some vectors of them
  for each loop of the schedule: combine vectors of the operands, store results
  compute the results from the accumulators

Where there are few tiles, reduced indices are divided, too, and each loop is a kernel:

for each loop of the schedule, a kernel:
  for each tile, for each part of the indices of a reduced axis
    combine the totals of the parts in the loops before; the loop; store the part's totals
a last kernel: combine the totals, compute and store the results
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

from iree.compiler import ir

from mlirfuse.kernels.vector.column_layout import Layout
from mlirfuse.kernels.vector.column_loops import ColumnLoops
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.few_lanes import FewLoops
from mlirfuse.kernels.vector.row_analysis import RowAnalysis, RowReduction
from mlirfuse.kernels.vector.row_schedule import schedule
from mlirfuse.kernels.vector.stages import Stages, alone, made_by
from mlirfuse.kernels.vector.workgroups import block_size, num_parts
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.structured.ir import ops, slices
from mlirfuse.targets.base import CpuDevice

MAX_VECTORS = 8
"""Vectors of a tile: contiguous lines of one row of an operand, and chains of accumulators."""


def kernels(analysis: RowAnalysis, kept: Layout, entry: str, device: CpuDevice) -> Stages | None:
    """Writes the kernels of a region whose results keep the contiguous dimension.

    Returns:
      The kernels; None where the work is too little for them.

    Raises:
      Unsupported: the region has an op or an access that the kernels cannot compute.
    """
    plan = schedule(analysis, keeps=False)
    kind = FewLoops if kept.extent < device.lanes else ColumnLoops
    make = functools.partial(kind, analysis, kept, plan, device)
    loops = make()
    if isinstance(loops, FewLoops) and not loops.is_worthwhile:
        return None
    work, read = loops.work(), sum(map(ops.num_bytes, slices.operands_of(list(analysis.group))))
    vectors = -(-kept.extent // device.lanes)
    size = min(vectors, MAX_VECTORS, loops.max_vectors)
    size = -(-vectors // -(-vectors // size))
    tiles = loops.tiles(size)
    launches = len(plan.results) - 1 + bool(plan.row_results)
    parts = num_parts(tiles, work * size * device.lanes, read / tiles, launches, device)
    division = _division(loops.sizes, parts, size)
    if division is not None:
        return _divided(make, entry, division)
    parallel = kept.num_outer * vectors // (2 * device.cores)
    return alone(_whole(make(), entry, max(1, min(size, parallel)), work, read))


def _whole(loops: ColumnLoops, entry: str, vectors: int, work: int, read: int) -> VectorKernel:
    """Writes one kernel, whose workgroups take blocks of tiles.

    Args:
      loops: writes its loops.
      entry: the beginning of its name.
      vectors: vectors of a tile.
      work: operations for a lane.
      read: bytes that the kernel reads.
    """
    writer, tiles = loops.writer, loops.tiles(vectors)
    size = block_size(tiles, work * vectors * loops.lanes, read / tiles, loops.device)
    block = writer.value("hal.interface.workgroup.id[0] : index")
    first = linear(block) * size
    last = writer.binary("minsi", first + size, tiles)

    def write() -> None:
        for loop in range(len(loops.schedule.results)):
            loops.define(loops.write_loop(loop))
        for number in loops.schedule.row_results:
            loops.store(number, loops.positions())

    def tile(number: str, _: list[str]) -> list[str]:
        loops.write_tile(number, vectors, write)
        return []

    writer.loop(first, last, 1, [], [], tile)
    return loops.body.kernel(entry, loops.analysis.results, (-(-tiles // size), 1))


@dataclasses.dataclass(frozen=True, slots=True)
class _Division:
    """Parts of the iterations of a loop over a reduced axis.

    Attributes:
      vectors: vectors of a tile.
      loop: number of the loop.
      size: iterations of a part.
      parts: how many there are.
    """

    vectors: int
    loop: int
    size: int
    parts: int


def _division(sizes: Sequence[int], parts: int, vectors: int) -> _Division | None:
    """Divides the first loop that is long enough, else the longest."""
    longest = max(range(len(sizes)), key=lambda n: sizes[n])
    loop = next((n for n, size in enumerate(sizes) if size >= parts), longest)
    size = -(-sizes[loop] // parts)
    parts = -(-sizes[loop] // size)
    return _Division(vectors, loop, size, parts) if parts > 1 else None


def _divided(make: Callable[[], ColumnLoops], entry: str, division: _Division) -> Stages:
    plan = make().schedule
    stages, returned = [], dict[int, tuple[int, int]]()
    for number, written in enumerate(plan.results):
        stages.append(_Stage(make(), division, number).write(entry))
        returned |= {result: (number, place) for place, result in enumerate(written)}
    if plan.row_results:
        last = len(stages)
        stages.append(_Stage(make(), division, last).write_last(entry))
        returned |= {result: (last, place) for place, result in enumerate(plan.row_results)}
    return Stages(tuple(stages), tuple(returned[n] for n in range(len(returned))))


class _Stage:
    """Writes the kernel of one loop, or the last kernel.

    Attributes:
      loops: writes its loops.
      division: the parts.
      number: number of the kernel.
    """

    def __init__(self, loops: ColumnLoops, division: _Division, number: int) -> None:
        self.loops, self.division, self.number = loops, division, number
        self.schedule, self.results = loops.schedule, loops.analysis.results
        self._num_results = loops.layout.num_outer * loops.layout.extent

    def write(self, entry: str) -> VectorKernel:
        """Writes the kernel of a loop: a workgroup for each part of each tile."""
        loops, division, number = self.loops, self.division, self.number
        writer, parts = loops.writer, division.parts
        unit = writer.value("hal.interface.workgroup.id[0] : index")
        part, tile = writer.binary("remui", unit, parts), writer.binary("divui", unit, parts)
        first = linear(part) * division.size
        end = writer.binary("minsi", first + division.size, loops.sizes[division.loop])
        loops.ranges = {division.loop: (first, end, division.size)}
        written, ones = self.schedule.results[number], self.schedule.reductions[number]
        self._name_outputs(written)

        def write() -> None:
            self._define_totals()
            for one, vector, total in loops.write_loop(number):
                name = f"%y{len(written) + ones.index(one)}"
                at = linear(part) * self._num_results + loops.place_of(vector)
                loops.body.store(name, self._totals_type(one), total, at, loops.mask_of(vector))

        loops.write_tile(tile, division.vectors, write)
        kinds = tuple(map(self._totals_type, ones))
        results = [self.results[n] for n in written]
        grid = (loops.tiles(division.vectors) * parts, 1)
        return loops.body.kernel(f"{entry}_{number}", results, grid, kinds)

    def write_last(self, entry: str) -> VectorKernel:
        """Writes the kernel of the results without reduced axes: one workgroup."""
        loops, written = self.loops, self.schedule.row_results
        self._name_outputs(written)

        def write() -> None:
            self._define_totals()
            for result in written:
                loops.store(result, loops.positions())

        def tile(index: str, _: list[str]) -> list[str]:
            loops.write_tile(index, self.division.vectors, write)
            return []

        loops.writer.loop(0, loops.tiles(self.division.vectors), 1, [], [], tile)
        results = [self.results[n] for n in written]
        return loops.body.kernel(f"{entry}_{self.number}", results, (1, 1))

    def _name_outputs(self, written: Sequence[int]) -> None:
        for place, number in enumerate(written):
            self.loops.outputs[number] = f"%y{place}"

    def _totals_type(self, one: RowReduction) -> ir.Type:
        """The type of a reduction's totals of all parts."""
        element = self.loops.accumulators.element(one)
        text = f"tensor<{self.division.parts * self._num_results}x{element}>"
        return ir.Type.parse(text, one.op.context)

    def _define_totals(self) -> None:
        """Combines the totals that earlier kernels have stored of the parts of a tile."""
        for loop in range(min(self.number, len(self.schedule.reductions))):
            for place, one in enumerate(self.schedule.reductions[loop]):
                key = made_by(loop, len(self.schedule.results[loop]) + place)
                buffer = self.loops.body.reserve(key, self._totals_type(one))
                self.loops.define(self._combined_totals(one, buffer))

    def _combined_totals(
        self, one: RowReduction, buffer: str
    ) -> list[tuple[RowReduction, int, str]]:
        loops, kind, parts = self.loops, self._totals_type(one), self.division.parts

        def part(number: str, held: list[str]) -> list[str]:
            combined = []
            for vector, total in enumerate(held):
                at: Linear = linear(number) * self._num_results + loops.place_of(vector)
                loaded = loops.body.load(buffer, kind, at, loops.mask_of(vector))
                combined.append(loops.accumulators.combined(one, total, loaded))
            return combined

        start = [loops.accumulators.neutral(one)] * loops.vectors
        ones = [one] * loops.vectors
        made = loops.accumulators.loop(ones, (0, parts, 1), parts, start, part)
        return [(one, vector, total) for vector, total in enumerate(made)]
