"""Loops over reduced dimensions that keep a last dimension of fewer elements than a vector has.

    %s = linalg.generic {addf} ins(%x)     tensor<RxKxT> -> tensor<KxT>, K below the lanes
  for each vector of the R * K elements: combine it with one of K / gcd(K, lanes) accumulators
  lanes of all accumulators that have the same index modulo K are combined

The reduced axes behind the others and the kept ones are one axis in memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.vector.accumulators import additions
from mlirfuse.kernels.vector.column_layout import Layout
from mlirfuse.kernels.vector.column_loops import ColumnBody, ColumnLoops
from mlirfuse.kernels.vector.indexed import MAX_I32
from mlirfuse.kernels.vector.pointwise import Axes, Position
from mlirfuse.kernels.vector.row_analysis import COLUMN, ROW, RowAnalysis, RowReduction, accesses
from mlirfuse.kernels.vector.row_schedule import Schedule
from mlirfuse.kernels.vector.writer import Linear, Writer, linear, operations
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice
from mlirfuse.targets.cpu_rates import FMA_LATENCY

MIN_ITERATIONS = 2
"""Iterations of the loop over vectors from which on the combination of lanes, some shuffles, costs
less than the loads of so few lanes."""


class FewBody(ColumnBody):
    """Writes the elementwise ops. Positions of two keys are vectors of the merged axis.

    Attributes:
      first_flat: the first of the reduced axes that are merged with the kept ones.
    """

    def __init__(
        self, writer: Writer, lanes: int, analysis: RowAnalysis, kept: Layout, first_flat: int
    ) -> None:
        super().__init__(writer, lanes, analysis, kept)
        self._extent = kept.extent
        self._sizes = (*analysis.column_sizes, *(analysis.row_sizes[n] for n in kept.lanes))
        self.first_merged = len(kept.outer) + first_flat

    def repeated(self, vector: str, element: str, slot: int) -> str:
        """The kept elements, in the first lanes of a vector, as they are in a vector of all."""
        kind = self.vector_type(element)
        order = [(slot * self.lanes + lane) % self._extent for lane in range(self.lanes)]
        return self.writer.value(f"vector.shuffle {vector}, {vector} {order} : {kind}, {kind}")

    def _index(self, axis: int | None, position: Position) -> str:
        """The indices of an axis in all lanes: of a merged one, from those of the merged axis."""
        if axis is None or not self._is_merged(axis) or len(position.key) != 2:
            return super()._index(axis, position)
        first, sizes = axis - len(self._layout.outer), self._sizes
        if math.prod(sizes) > MAX_I32:
            raise Unsupported("an index that is no i32")
        narrow, wide = self.vector_type("i32"), self.vector_type("index")
        found = self.counted(self.writer.index(position.index[-1]))
        inner = self.splat(str(math.prod(sizes[first + 1 :])), "i32")
        found = self.writer.value(f"arith.divui {found}, {inner} : {narrow}")
        size = self.splat(str(sizes[first]), "i32")
        found = self.writer.value(f"arith.remui {found}, {size} : {narrow}")
        return self.writer.value(f"arith.index_cast {found} : {narrow} to {wide}")

    def total(self, one: ir.Value, element: str, position: Position) -> str:
        """The total of a reduction."""
        total = self.totals[one, 0]
        is_flat = len(position.key) == 2
        return self.repeated(total, element, int(position.key[0])) if is_flat else total

    def _load(self, value: ir.Value, axes: Axes, position: Position) -> str:
        read = [axis for axis in axes if axis is not None]
        kept = any(axis >= self.first_lane for axis in read)
        reduced = any(self._is_merged(axis) and axis < self.first_lane for axis in read)
        if len(position.key) < 2 or reduced or not kept:
            return super()._load(value, axes, position)
        mask = self.writer.hoisted(
            f"vector.constant_mask [{self._extent}] : {self.vector_type('i1')}"
        )
        first = Position(("kept",), (*position.index[:-1], Linear()), mask)
        element = ops.element_type(value)
        return self.repeated(super()._load(value, axes, first), element, int(position.key[0]))


class FewLoops(ColumnLoops):
    """Writes the loops of one kernel."""

    body: FewBody

    def __init__(
        self, analysis: RowAnalysis, kept: Layout, plan: Schedule, device: CpuDevice
    ) -> None:
        super().__init__(analysis, kept, plan, device)
        first = _first_flat(analysis, kept)
        self.body = FewBody(self.writer, self.lanes, analysis, kept, first)
        self._period = kept.extent // math.gcd(kept.extent, self.lanes)
        reductions = max(1, *map(len, plan.reductions))
        # Chains of accumulators that hide the latency of combining, as far as registers go.
        wanted = -(-FMA_LATENCY * device.fma_ports // (self._period * reductions))
        most = device.num_registers // (2 * reductions * self._period)
        self._slots = self._period * max(1, min(wanted, most))
        sizes = analysis.column_sizes
        self._elements = math.prod(sizes[first:]) * kept.extent
        self.sizes = (*sizes[:first], self._elements // (self._slots * self.lanes))

    @property
    def is_worthwhile(self) -> bool:
        """Whether the loop has enough iterations."""
        return self.sizes[-1] >= MIN_ITERATIONS

    def write_loop(self, loop: int) -> list[tuple[RowReduction, int, str]]:
        """Writes a loop; returns its totals, in the first lanes of a vector."""
        reductions = self.schedule.reductions[loop]
        ones = [one for one in reductions for _ in range(self._slots)]
        flat = self.sizes[-1]
        *_, most = self.ranges.get(len(self.sizes) - 1, (0, flat, flat))
        terms = additions(most, 1) + 1

        def lines(index: list[Linear], held: list[str]) -> list[str]:
            return self._write_line(loop, index, ones, held)

        sums = self.nest(ones, self.sizes[:-1], terms, lines)
        self.body.forget()
        slots = self._slots
        return [
            (one, 0, self._kept(one, sums[n * slots : (n + 1) * slots]))
            for n, one in enumerate(reductions)
        ]

    def _write_line(
        self, loop: int, index: list[Linear], ones: Sequence[RowReduction], held: list[str]
    ) -> list[str]:
        """Writes the loop over the vectors of the merged axis, and those behind it."""
        step, flat = self._slots * self.lanes, self.sizes[-1]
        start, stop, most = self.ranges.get(len(self.sizes) - 1, (0, flat, flat))

        def whole(number: str, inner: list[str]) -> list[str]:
            return self._slots_combined(loop, index, linear(number) * step, self._slots, inner)

        def rest(inner: list[str]) -> list[str]:
            full, masked = divmod(self._elements - flat * step, self.lanes)
            first = Linear(constant=flat * step)
            count = full + bool(masked)
            return self._slots_combined(loop, index, first, count, inner, masked)

        held = self.accumulators.loop(ones, (start, stop, 1), most, held, whole)
        if self._elements == flat * step:
            return held
        if stop == flat:
            return rest(held)
        last = self.writer.index(flat)
        ends = self.writer.value(f"arith.cmpi eq, {self.writer.index(stop)}, {last} : index")
        kinds = [self.accumulators.kind(one) for one in ones]
        return self.writer.when(ends, kinds, held, rest)

    def _slots_combined(
        self,
        loop: int,
        index: list[Linear],
        first: Linear,
        count: int,
        held: Sequence[str],
        masked: int = 0,
    ) -> list[str]:
        """The accumulators combined with adjacent vectors, the last one perhaps masked."""
        self.body.forget()
        totals, positions = list(held), list[Position]()
        rest = len(self.analysis.column_sizes) - len(index) + len(self.layout.lanes) - 1
        for slot in range(count):
            at = (*self.outer_index, *index, *[Linear()] * rest, first + slot * self.lanes)
            mask = ""
            if masked and slot == count - 1:
                lanes = self.body.vector_type("i1")
                mask = self.writer.hoisted(f"vector.constant_mask [{masked}] : {lanes}")
            positions.append(Position((slot, "flat"), at, mask))
        for number, one in enumerate(self.schedule.reductions[loop]):
            for slot, position in enumerate(positions):
                place = number * self._slots + slot
                totals[place] = self.term_combined(one, totals[place], position)
        for result in self.schedule.results[loop]:
            self.store(result, positions)
        self.body.forget()
        return totals

    def _kept(self, one: RowReduction, sums: list[str]) -> str:
        """The accumulators of all slots combined, in lanes of the kept elements."""
        period, kind = self._period, self.accumulators.kind(one)
        while len(sums) > period:
            sums[-period - 1] = self.accumulators.combined(one, sums[-period - 1], sums[-1])
            sums.pop()
        extent, total = self.layout.extent, ""
        for first in range(0, period * self.lanes, extent):
            vector, lane = divmod(first, self.lanes)
            following = min(vector + 1, period - 1)
            order = [min(lane + n, 2 * self.lanes - 1) for n in range(self.lanes)]
            run = self.writer.value(
                f"vector.shuffle {sums[vector]}, {sums[following]} {order} : {kind}, {kind}"
            )
            total = self.accumulators.combined(one, total, run) if total else run
        return total

    def work(self) -> int:
        """Operations on elements for one lane of a tile, of which there is one vector."""
        before, total = len(self.writer.lines), 0
        for loop, reductions in enumerate(self.schedule.reductions):
            start = len(self.writer.lines)
            index = [Linear()] * (len(self.sizes) - 1)
            held = [
                self.accumulators.neutral(one) for one in reductions for _ in range(self._slots)
            ]
            self._slots_combined(loop, index, Linear(), 1, held)
            total += max(1, operations(self.writer.lines[start:]))
            self.body.totals |= {(one.value, 0): "%unknown" for one in reductions}
        del self.writer.lines[before:]
        self.body.totals.clear()
        return total * math.prod(self.sizes[:-1]) * self._elements // self.lanes


def _first_flat(analysis: RowAnalysis, kept: Layout) -> int:
    """The first of the reduced axes that are contiguous with the kept ones in all tensors.

    Raises:
      Unsupported: there are none.
    """
    sizes, lanes = analysis.column_sizes, [(ROW, n) for n in kept.lanes]
    for first in range(len(sizes)):
        flat = [(COLUMN, n) for n in range(first, len(sizes)) if sizes[n] != 1]
        whole = [*flat, *lanes]
        for read in accesses(analysis):
            of_flat = [axis for axis in read if axis in whole]
            if of_flat not in ([], lanes, whole) or read[len(read) - len(of_flat) :] != of_flat:
                break
        else:
            return first
    raise Unsupported("reduced loops that are not contiguous with the kept ones")
