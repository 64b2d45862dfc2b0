"""Scans along an axis that is followed by others in memory.

for each tile of contiguous elements
  for each element of the scanned axis, some vectors: combine with accumulators, compute results
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlirfuse.kernels.scan.analysis import ScanAnalysis
from mlirfuse.kernels.vector.pointwise import Position
from mlirfuse.kernels.vector.row_schedule import STACK_BYTES
from mlirfuse.kernels.vector.scan_kernel import ScanKernel
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.targets.base import CpuDevice

MAX_VECTORS = 8
"""Vectors of a row that are combined together."""

UNITS_PER_CORE = 2
"""Tiles for each core, at least, where there are as many vectors."""


class ColumnScan(ScanKernel):
    """Lanes are elements that follow the scanned axis in memory: no lanes are combined.

    A tile has as much of each row as keeps all cores busy, since a cache loads long runs of memory
    ahead; the accumulators are in registers, or on the stack. The last tile begins where it ends
    with the last element: some elements are in two tiles.
    """

    def __init__(self, analysis: ScanAnalysis, device: CpuDevice, *, merged: bool) -> None:
        self._merges = merged
        super().__init__(analysis, device)
        first = self.axis + 1 if merged else len(self.sizes) - 1
        self.extent = math.prod(self.sizes[first:])
        self.others = [*self.sizes[: self.axis], *self.sizes[self.axis + 1 : first]]
        self._bits = int("".join(filter(str.isdigit, self.combiner.accumulator)))
        vectors = max(1, self.extent // self.lanes)
        registers = max(1, self.lanes * self._bits // (8 * device.vector_bytes))
        held = max(1, min(MAX_VECTORS, device.num_registers // (4 * registers), vectors))
        units = -(-UNITS_PER_CORE * device.cores // math.prod(self.others))
        stacked = STACK_BYTES * 8 // (self._bits * self.lanes)
        wide = min(-(-vectors // units), stacked)
        self.vectors = held
        self.steps = max(1, wide // held)
        if self.steps == 1:
            self.vectors = min(held, max(1, wide))
        self.width = self.steps * self.vectors * self.lanes
        self.tiles = max(1, -(-self.extent // self.width))
        self._stack_type = f"memref<{self.width}x{self.combiner.accumulator}>"
        self.stack = self.writer.stack(self._stack_type) if self.steps > 1 else ""
        self.mask = ""
        if self.extent < self.lanes:
            kind = self.body.vector_type("i1")
            self.mask = self.writer.hoisted(f"vector.constant_mask [{self.extent}] : {kind}")

    def _merged(self) -> int:
        return len(self.sizes) - 1 - self.axis if self._merges else 1

    def _units(self) -> int:
        return math.prod(self.others) * self.tiles

    def _unit_work(self) -> tuple[int, list[Linear]]:
        return self.sizes[self.axis] * self.width, [Linear()] * len(self.sizes)

    def _write_unit(self, number: str) -> None:
        writer = self.writer
        start = linear(writer.binary("remui", number, self.tiles)) * self.width
        last = max(0, self.extent - self.width)
        if last % self.width:
            start = linear(writer.binary("minsi", start, last))
        others = writer.split(writer.binary("divui", number, self.tiles), self.others)
        if self.steps > 1:
            self._write_on_stack(start, others)
        else:
            self._write_in_registers(start, others)

    def _write_in_registers(self, start: Linear, others: Sequence[Linear]) -> None:
        """Writes a tile whose accumulators the loop over the scanned axis carries."""
        carried, begin = [self.combiner.initial()] * self.vectors if self._exclusive else [], 0
        if not carried:
            carried, begin = self._row(Linear(), start, others, ()), 1
        kinds = [self.combiner.kind] * self.vectors
        self.writer.loop(
            begin,
            self.sizes[self.axis],
            1,
            carried,
            kinds,
            lambda n, held: self._row(linear(n), start, others, held),
        )

    def _write_on_stack(self, start: Linear, others: Sequence[Linear]) -> None:
        """Writes a tile whose accumulators are in memory, in the first cache."""
        writer, kind, step = self.writer, self.combiner.kind, self.vectors * self.lanes

        def row(number: Linear, *, first: bool) -> list[str]:
            def some(column: str, _: list[str]) -> list[str]:
                places = [
                    f"{self.stack}[{writer.index(linear(column) + n * self.lanes)}]"
                    f" : {self._stack_type}, {kind}"
                    for n in range(self.vectors)
                ]
                held: list[str] = []
                if not first:
                    held = [writer.value(f"vector.load {place}") for place in places]
                elif self._exclusive:
                    held = [self.combiner.initial()] * self.vectors
                made = self._row(number, start + linear(column), others, held)
                for vector, place in zip(made, places, strict=True):
                    writer.line(f"vector.store {vector}, {place}")
                return []

            return writer.loop(0, self.width, step, [], [], some)

        row(Linear(), first=True)
        size = self.sizes[self.axis]
        writer.loop(1, size, 1, [], [], lambda n, _: row(linear(n), first=False))

    @property
    def _exclusive(self) -> bool:
        return not self.analysis.inclusive

    def _row(
        self, number: Linear, start: Linear, others: Sequence[Linear], carried: Sequence[str]
    ) -> list[str]:
        """Writes some vectors of a row; returns the accumulators after it.

        Args:
          number: how many rows the scan has combined before.
          start: the first of the elements.
          others: the indices of the axes that are not in the tile.
          carried: the accumulators before it; none for the first row.
        """
        self.body.forget()
        found = []
        for vector in range(self.vectors):
            index = [*others[: self.axis], self._place(number), *others[self.axis :]]
            index += [Linear()] * (len(self.sizes) - 1 - len(index))
            index.append(start + vector * self.lanes)
            position = Position((vector,), tuple(index), self.mask)
            held = self._elements(position)
            if carried:
                held = self.combiner.combined(carried[vector], held)
            self._finish(carried[vector] if self._exclusive else held, position)
            found.append(held)
        self.body.forget()
        return found

    def _place(self, number: Linear) -> Linear:
        """The index of the scanned axis at which a scan is after so many elements."""
        if not self.analysis.reversed:
            return number
        return number * -1 + (self.sizes[self.axis] - 1)
