"""Scans along an axis that is followed by others in memory.

for each tile of contiguous elements, some vectors of them
  for each element of the scanned axis: combine vectors with the accumulators, compute the results
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlirfuse.kernels.scan.analysis import ScanAnalysis
from mlirfuse.kernels.vector.pointwise import Position
from mlirfuse.kernels.vector.scan_kernel import ScanKernel
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.targets.base import CpuDevice

MAX_VECTORS = 8
"""Vectors of a tile of columns: contiguous lines of one row of an operand."""


class ColumnScan(ScanKernel):
    """Lanes are elements that follow the scanned axis in memory: no lanes are combined.

    The last tile begins where it ends with the last element: some elements are in two tiles.
    """

    def __init__(self, analysis: ScanAnalysis, device: CpuDevice, *, merged: bool) -> None:
        self._merges = merged
        super().__init__(analysis, device)
        first = self.axis + 1 if merged else len(self.sizes) - 1
        self.extent = math.prod(self.sizes[first:])
        self.others = [*self.sizes[: self.axis], *self.sizes[self.axis + 1 : first]]
        self.vectors = self._num_vectors()
        self.tiles = max(1, -(-self.extent // (self.vectors * self.lanes)))
        self.mask = ""
        if self.extent < self.lanes:
            kind = self.body.vector_type("i1")
            self.mask = self.writer.hoisted(f"vector.constant_mask [{self.extent}] : {kind}")

    def _merged(self) -> int:
        return len(self.sizes) - 1 - self.axis if self._merges else 1

    def _num_vectors(self) -> int:
        """Vectors of a tile: as many accumulators as registers hold, and work for all cores."""
        bits = int("".join(filter(str.isdigit, self.combiner.accumulator)))
        registers = max(1, self.lanes * bits // (8 * self.device.vector_bytes))
        vectors = self.extent // self.lanes
        parallel = math.prod(self.others) * vectors // (2 * self.device.cores)
        held = self.device.num_registers // (4 * registers)
        return max(1, min(MAX_VECTORS, held, vectors, parallel))

    def _units(self) -> int:
        return math.prod(self.others) * self.tiles

    def _unit_work(self) -> tuple[int, list[Linear]]:
        return self.sizes[self.axis] * self.vectors * self.lanes, [Linear()] * len(self.sizes)

    def _write_unit(self, number: str) -> None:
        writer, size = self.writer, self.sizes[self.axis]
        tile = writer.binary("remui", number, self.tiles)
        last = max(0, self.extent - self.vectors * self.lanes)
        start = linear(tile) * (self.vectors * self.lanes)
        if last % (self.vectors * self.lanes):
            start = linear(writer.binary("minsi", start, last))
        others = writer.split(writer.binary("divui", number, self.tiles), self.others)
        inclusive = self.analysis.inclusive

        def step(at: Linear, carried: Sequence[str]) -> list[str]:
            self.body.forget()
            found = []
            for vector in range(self.vectors):
                index = [*others[: self.axis], at, *others[self.axis :]]
                index += [Linear()] * (len(self.sizes) - 1 - len(index))
                index.append(start + vector * self.lanes)
                position = Position((vector,), tuple(index), self.mask)
                held = self._elements(position)
                if carried:
                    held = self.combiner.combined(carried[vector], held)
                self._finish(held if inclusive else carried[vector], position)
                found.append(held)
            self.body.forget()
            return found

        begin = 0
        if inclusive:
            carried, begin = step(self._place(Linear()), ()), 1
        else:
            carried = [self.combiner.initial()] * self.vectors
        kinds = [self.combiner.kind] * self.vectors
        writer.loop(
            begin, size, 1, carried, kinds, lambda n, held: step(self._place(linear(n)), held)
        )

    def _place(self, number: Linear) -> Linear:
        """The index of the scanned axis at which a scan is after so many elements."""
        if not self.analysis.reversed:
            return number
        return number * -1 + (self.sizes[self.axis] - 1)
