"""Kernels of a region that reduces few rows, each of which is divided among workgroups.

for each loop of the schedule, a kernel:
  for each part of the columns of each row
    combine the totals of the parts in the loops before
    for each vector of columns: combine it with the accumulators, store results
    store the part's totals
a last kernel: combine the totals, compute and store the results without columns
"""

from __future__ import annotations

import dataclasses
import math

from iree.compiler import ir

from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.row_analysis import RowAnalysis, RowReduction
from mlirfuse.kernels.vector.row_loops import Columns, Part, RowLoops
from mlirfuse.kernels.vector.row_schedule import Schedule, schedule
from mlirfuse.kernels.vector.stages import Stages, made_by
from mlirfuse.kernels.vector.workgroups import are_enough, num_parts
from mlirfuse.kernels.vector.writer import linear
from mlirfuse.structured.ir import ops, slices
from mlirfuse.targets.base import CpuDevice

MAX_VECTORS = 32
"""Vectors of an iteration at most: a power of two, and parts are multiples of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Division:
    """The parts of each row.

    Attributes:
      parts: how many there are.
      segments: segments of a part; None where a part has columns of all segments.
      columns: columns of a part; None where it has whole segments.
    """

    parts: int
    segments: int | None
    columns: int | None


def kernels(analysis: RowAnalysis, entry: str, device: CpuDevice) -> Stages | None:
    """Writes the kernels of a region with few rows; None where one kernel takes no longer.

    Raises:
      Unsupported: the region has an op or an access that the kernels cannot compute.
    """
    if are_enough(math.prod(analysis.row_sizes), device):
        return None
    plan = schedule(analysis, keeps=False)
    division = _division(analysis, plan, device)
    if division is None:
        return None
    stages, returned = [], dict[int, tuple[int, int]]()
    for number, written in enumerate(plan.results):
        stages.append(_Stage(analysis, plan, device, division, number).write(entry))
        returned |= {result: (number, place) for place, result in enumerate(written)}
    if plan.row_results:
        last = len(stages)
        stages.append(_Stage(analysis, plan, device, division, last).write_last(entry))
        returned |= {result: (last, place) for place, result in enumerate(plan.row_results)}
    order = tuple(returned[number] for number in range(len(analysis.results)))
    return Stages(tuple(stages), order)


def _division(analysis: RowAnalysis, plan: Schedule, device: CpuDevice) -> Division | None:
    rows = math.prod(analysis.row_sizes)
    work = RowLoops(analysis, plan, device).work()
    read = sum(map(ops.num_bytes, slices.operands_of(list(analysis.group))))
    launches = len(plan.results) - 1 + bool(plan.row_results)
    parts = num_parts(rows, work, read / rows, launches, device)
    if parts < 2:
        return None
    if analysis.num_segments >= parts:
        size = -(-analysis.num_segments // parts)
        return Division(-(-analysis.num_segments // size), size, None)
    step = MAX_VECTORS * device.lanes
    size = -(-analysis.contiguous_columns // (parts * step)) * step
    parts = -(-analysis.contiguous_columns // size)
    return Division(parts, None, size) if parts > 1 else None


class _Stage(RowLoops):
    """Writes the kernel of one loop, or the last kernel.

    Attributes:
      division: the parts of each row.
      number: number of the kernel.
    """

    def __init__(
        self,
        analysis: RowAnalysis,
        plan: Schedule,
        device: CpuDevice,
        division: Division,
        number: int,
    ) -> None:
        super().__init__(analysis, plan, device)
        self.division, self.number = division, number
        self._rows_in_all = math.prod(analysis.row_sizes)
        self._row = ""

    def write(self, entry: str) -> VectorKernel:
        """Writes the kernel of a loop: a workgroup for each part of each row."""
        writer, division = self.writer, self.division
        written = self.schedule.results[self.number]
        self._name_outputs(written)
        unit = writer.value("hal.interface.workgroup.id[0] : index")
        part = writer.binary("remui", unit, division.parts)
        row = writer.binary("divui", unit, division.parts)
        self.part = self._part(part)
        self._begin(row)
        self.write_row_values(self.number)
        kinds = []
        for place, (_, one, total) in enumerate(self.write_loop(self.number)):
            kinds.append(self._totals_type(one))
            name = f"%y{len(written) + place}"
            self.body.store_first(name, kinds[-1], total, linear(unit))
        results = [self.analysis.results[n] for n in written]
        grid = (self._rows_in_all * division.parts, 1)
        return self.body.kernel(f"{entry}_{self.number}", results, grid, tuple(kinds))

    def write_last(self, entry: str) -> VectorKernel:
        """Writes the kernel of the results without columns: one workgroup."""
        written = self.schedule.row_results
        self._name_outputs(written)

        def row(number: str, _: list[str]) -> list[str]:
            self._begin(number)
            self.write_row_values(self.number)
            self.store_row_results()
            return []

        self.writer.loop(0, self._rows_in_all, 1, [], [], row)
        results = [self.analysis.results[n] for n in written]
        return self.body.kernel(f"{entry}_{self.number}", results, (1, 1))

    def _name_outputs(self, written: tuple[int, ...]) -> None:
        for place, number in enumerate(written):
            self.body.outputs[number] = f"%y{place}"

    def _part(self, part: str) -> Part:
        """The columns of a part."""
        division, writer = self.division, self.writer
        if division.segments is not None:
            first = linear(part) * division.segments
            last = writer.binary("minsi", first + division.segments, self.segments)
            return Part((first, last), division.segments)
        assert division.columns is not None
        index = writer.index(division.parts - 1)
        is_last = writer.value(f"arith.cmpi eq, {part}, {index} : index")
        columns = Columns(linear(part) * division.columns, division.columns, is_last)
        return Part((0, self.segments), self.segments, columns)

    def _totals_type(self, one: RowReduction) -> ir.Type:
        """The type of a reduction's totals of all parts of all rows."""
        size = self._rows_in_all * self.division.parts
        element = self.accumulators.element(one)
        return ir.Type.parse(f"tensor<{size}x{element}>", one.op.context)

    def _begin(self, row: str) -> None:
        """Starts a row: combines the totals that earlier kernels have stored of its parts."""
        self._row = row
        self.begin([linear(row)])
        for loop in range(min(self.number, len(self.schedule.reductions))):
            for place, one in enumerate(self.schedule.reductions[loop]):
                key = made_by(loop, len(self.schedule.results[loop]) + place)
                total = self._combined_totals(one, self.body.reserve(key, self._totals_type(one)))
                made = self.accumulators.finished(one, total)
                self.body.define_row(one.value, made, self.body.rows[0])

    def _combined_totals(self, one: RowReduction, buffer: str) -> str:
        """The totals of all parts of a row combined, in all lanes."""
        parts, kind = self.division.parts, self._totals_type(one)
        first = linear(self._row) * parts
        full = parts // self.lanes * self.lanes
        start = self.accumulators.neutral(one)

        def several(at: str, held: list[str]) -> list[str]:
            loaded = self.body.load(buffer, kind, first + linear(at))
            return [self.accumulators.combined(one, held[0], loaded)]

        bounds = (0, full, self.lanes)
        (total,) = self.accumulators.loop([one], bounds, full // self.lanes, [start], several)
        if parts != full:
            mask = self.writer.hoisted(
                f"vector.constant_mask [{parts - full}] : {self.body.vector_type('i1')}"
            )
            loaded = self.body.load(buffer, kind, first + full, mask)
            made = self.accumulators.combined(one, total, loaded)
            total = self.accumulators.masked(one, mask, made, total)
        return self.across_lanes(one, total)
