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

from iree.compiler import ir

from mlirfuse.kernels.vector.column_loops import ColumnLoops, Layout
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.row_analysis import RowAnalysis, RowReduction
from mlirfuse.kernels.vector.row_schedule import Schedule, schedule
from mlirfuse.kernels.vector.stages import Stages, alone, made_by
from mlirfuse.kernels.vector.workgroups import block_size, num_parts
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.structured.ir import ops, slices
from mlirfuse.targets.base import CpuDevice

MAX_VECTORS = 8
"""Vectors of a tile: contiguous lines of one row of an operand, and chains of accumulators."""


def kernels(analysis: RowAnalysis, kept: Layout, entry: str, device: CpuDevice) -> Stages:
    """Writes the kernels of a region whose results keep the contiguous dimension.

    Raises:
      Unsupported: the region has an op or an access that the kernels cannot compute.
    """
    plan = schedule(analysis, keeps=False)
    loops = ColumnLoops(analysis, kept, plan, device)
    work, read = loops.work(), sum(map(ops.num_bytes, slices.operands_of(list(analysis.group))))
    vectors = -(-kept.extent // device.lanes)
    size = min(vectors, MAX_VECTORS, loops.max_vectors)
    size = -(-vectors // -(-vectors // size))
    tiles = loops.tiles(size)
    launches = len(plan.results) - 1 + bool(plan.row_results)
    parts = num_parts(tiles, work * size * device.lanes, read / tiles, launches, device)
    division = _division(analysis, parts, size)
    if division is not None:
        return _divided(analysis, kept, plan, entry, division, device)
    parallel = kept.num_outer * vectors // (2 * device.cores)
    size = max(1, min(size, parallel))
    return alone(_ColumnKernel(analysis, kept, plan, device).write(entry, size, work, read))


class _ColumnKernel(ColumnLoops):
    """Writes one kernel, whose workgroups take blocks of tiles."""

    def write(self, entry: str, vectors: int, work: int, read: int) -> VectorKernel:
        """Writes the whole kernel.

        Args:
          entry: the beginning of its name.
          vectors: vectors of a tile.
          work: operations for a lane.
          read: bytes that the kernel reads.
        """
        writer, tiles = self.writer, self.tiles(vectors)
        size = block_size(tiles, work * vectors * self.lanes, read / tiles, self.device)
        block = writer.value("hal.interface.workgroup.id[0] : index")
        first = linear(block) * size
        last = writer.binary("minsi", first + size, tiles)

        def tile(number: str, _: list[str]) -> list[str]:
            self.write_tile(number, vectors, self._write)
            return []

        writer.loop(first, last, 1, [], [], tile)
        return self.body.kernel(entry, self.analysis.results, (-(-tiles // size), 1))

    def _write(self) -> None:
        for loop in range(len(self.schedule.results)):
            self.define(self.write_loop(loop))
        for number in self.schedule.row_results:
            self.store(number, number, self.positions())


@dataclasses.dataclass(frozen=True, slots=True)
class _Division:
    """Parts of the indices of a reduced axis.

    Attributes:
      vectors: vectors of a tile.
      axis: the reduced axis.
      size: indices of a part.
      parts: how many there are.
    """

    vectors: int
    axis: int
    size: int
    parts: int


def _division(analysis: RowAnalysis, parts: int, vectors: int) -> _Division | None:
    """Divides the first reduced axis that is long enough, else the longest."""
    sizes = analysis.column_sizes
    longest = max(range(len(sizes)), key=lambda n: sizes[n])
    axis = next((n for n, size in enumerate(sizes) if size >= parts), longest)
    size = -(-sizes[axis] // parts)
    parts = -(-sizes[axis] // size)
    return _Division(vectors, axis, size, parts) if parts > 1 else None


def _divided(
    analysis: RowAnalysis,
    kept: Layout,
    plan: Schedule,
    entry: str,
    division: _Division,
    device: CpuDevice,
) -> Stages:
    stages, returned = [], dict[int, tuple[int, int]]()
    for number, written in enumerate(plan.results):
        stages.append(_Stage(analysis, kept, plan, device).write(entry, division, number))
        returned |= {result: (number, place) for place, result in enumerate(written)}
    if plan.row_results:
        last = len(stages)
        stages.append(_Stage(analysis, kept, plan, device).write_last(entry, division, last))
        returned |= {result: (last, place) for place, result in enumerate(plan.row_results)}
    return Stages(tuple(stages), tuple(returned[n] for n in range(len(analysis.results))))


class _Stage(ColumnLoops):
    """Writes the kernel of one loop, or the last kernel."""

    def write(self, entry: str, division: _Division, number: int) -> VectorKernel:
        """Writes the kernel of a loop: a workgroup for each part of each tile."""
        writer, parts = self.writer, division.parts
        unit = writer.value("hal.interface.workgroup.id[0] : index")
        part, tile = writer.binary("remui", unit, parts), writer.binary("divui", unit, parts)
        first = linear(part) * division.size
        end = writer.binary(
            "minsi", first + division.size, self.analysis.column_sizes[division.axis]
        )
        self.ranges = {division.axis: (first, end, division.size)}
        written = self.schedule.results[number]
        ones = self.schedule.reductions[number]

        def write() -> None:
            self._define_totals(division, number)
            for one, vector, total in self.write_loop(number):
                name = f"%y{len(written) + ones.index(one)}"
                at = linear(part) * self._num_results + self.place_of(vector)
                kind = self._totals_type(one, division)
                self.body.store(name, kind, total, at, self.mask_of(vector))

        self.write_tile(tile, division.vectors, write)
        kinds = tuple(self._totals_type(one, division) for one in ones)
        results = [self.analysis.results[n] for n in written]
        grid = (self.tiles(division.vectors) * parts, 1)
        return self.body.kernel(f"{entry}_{number}", results, grid, kinds)

    def write_last(self, entry: str, division: _Division, number: int) -> VectorKernel:
        """Writes the kernel of the results without reduced axes: one workgroup."""

        def write() -> None:
            self._define_totals(division, number)
            for place, result in enumerate(self.schedule.row_results):
                self.store(place, result, self.positions())

        def tile(index: str, _: list[str]) -> list[str]:
            self.write_tile(index, division.vectors, write)
            return []

        self.writer.loop(0, self.tiles(division.vectors), 1, [], [], tile)
        results = [self.analysis.results[n] for n in self.schedule.row_results]
        return self.body.kernel(f"{entry}_{number}", results, (1, 1))

    @property
    def _num_results(self) -> int:
        return self.layout.num_outer * self.layout.extent

    def _totals_type(self, one: RowReduction, division: _Division) -> ir.Type:
        """The type of a reduction's totals of all parts."""
        element = self.accumulators.element(one)
        text = f"tensor<{division.parts * self._num_results}x{element}>"
        return ir.Type.parse(text, one.op.context)

    def _define_totals(self, division: _Division, number: int) -> None:
        """Combines the totals that earlier kernels have stored of the parts of a tile."""
        for loop in range(min(number, len(self.schedule.reductions))):
            for place, one in enumerate(self.schedule.reductions[loop]):
                key = made_by(loop, len(self.schedule.results[loop]) + place)
                buffer = self.body.reserve(key, self._totals_type(one, division))
                self.define(self._combined_totals(one, buffer, division))

    def _combined_totals(
        self, one: RowReduction, buffer: str, division: _Division
    ) -> list[tuple[RowReduction, int, str]]:
        kind, count = self._totals_type(one, division), self.vectors

        def part(number: str, held: list[str]) -> list[str]:
            combined = []
            for vector, total in enumerate(held):
                at: Linear = linear(number) * self._num_results + self.place_of(vector)
                loaded = self.body.load(buffer, kind, at, self.mask_of(vector))
                combined.append(self.accumulators.combined(one, total, loaded))
            return combined

        start = [self.accumulators.neutral(one)] * count
        bounds = (0, division.parts, 1)
        made = self.accumulators.loop([one] * count, bounds, division.parts, start, part)
        return [(one, vector, total) for vector, total in enumerate(made)]
