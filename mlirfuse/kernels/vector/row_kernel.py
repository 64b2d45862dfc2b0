"""The kernel of a region that reduces rows.

for each block of rows, a few rows at a time
  for each loop of the schedule
    for each vector of columns: combine it with the accumulators, store results
    combine the accumulators, then their lanes
    compute the values of the rows that wait for them
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlirfuse.kernels.vector import repeated
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.row_analysis import RowAnalysis
from mlirfuse.kernels.vector.row_loops import RowLoops
from mlirfuse.kernels.vector.row_schedule import STACK_BYTES, schedule
from mlirfuse.kernels.vector.workgroups import block_size
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.structured.ir import ops, slices
from mlirfuse.targets.base import CpuDevice

WINDOW = 4096
"""Operations on vectors of the rows in flight, so that one row's sums across lanes overlap with the
work on others. Measured on a Zen 4 with AVX2: softmax of 1536x128 takes 75 us, 91 with 1024."""

MAX_ROWS_IN_FLIGHT = 4
"""Rows in flight: each is code of its own."""


def kernel(analysis: RowAnalysis, entry: str, device: CpuDevice) -> VectorKernel:
    """Writes the kernel of a region that reduces rows.

    Raises:
      Unsupported: the region has an op or an access that the kernel cannot compute.
    """

    def written() -> VectorKernel:
        return _RowKernel(analysis, schedule(analysis), device).write(entry)

    about = (entry, analysis.by_lanes, analysis.segment_axes)
    return repeated.once(analysis.group, analysis.results, about, written)


class _RowKernel(RowLoops):
    """Writes one kernel, whose workgroups take blocks of rows."""

    def write(self, entry: str) -> VectorKernel:
        """Writes the whole kernel."""
        writer, rows = self.writer, math.prod(self.analysis.row_sizes)
        work = self.work()
        flight = min(rows, MAX_ROWS_IN_FLIGHT, -(-WINDOW * self.lanes // work))
        flight = max(1, min(flight, STACK_BYTES // max(1, self.schedule.stack_bytes)))
        self.body.write_stacks(flight, self.columns)
        read = sum(map(ops.num_bytes, slices.operands_of(list(self.analysis.group))))
        size = block_size(rows, work, read / rows, self.device)
        size = -(-size // flight) * flight
        block = writer.value("hal.interface.workgroup.id[0] : index")
        first = linear(block) * size
        last = writer.binary("minsi", first + size, rows)
        whole = last
        if rows % flight:
            rest = writer.binary("remui", last, flight)
            whole = writer.binary("subi", last, rest)
            # Blocks begin at multiples: only the last one has a rest.

        def several(number: str, _: list[str]) -> list[str]:
            self._write_rows([linear(number) + n for n in range(flight)])
            return []

        def one(number: str, _: list[str]) -> list[str]:
            self._write_rows([linear(number)])
            return []

        writer.loop(first, whole, flight, [], [], several)
        if whole != last:
            writer.loop(whole, last, 1, [], [], one)
        return self.body.kernel(entry, self.analysis.results, (-(-rows // size), 1))

    def _write_rows(self, numbers: Sequence[Linear]) -> None:
        """Writes all loops of rows that are computed together."""
        self.begin(numbers)
        for loop in range(len(self.schedule.results)):
            self.write_row_values(loop)
            for row, one, total in self.write_loop(loop):
                made = self.accumulators.finished(one, total)
                self.body.define_row(one.value, made, self.body.rows[row])
        self.write_row_values(len(self.schedule.results))
        self.store_row_results()
