"""The kernels of scans, by the place of the scanned axis in memory.

columns    for each tile of contiguous elements: for each element of the scanned axis, combine
rows       the scanned axis is contiguous: for each row, scan the lanes of its vectors, with a carry
packed     whole short rows are in one vector
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.indices import Index, Shifted, axis_of, linear as shifted, parts
from mlirfuse.kernels.scan.analysis import ScanAnalysis
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.indexed import Indexed
from mlirfuse.kernels.vector.lane_scan import LaneScan
from mlirfuse.kernels.vector.pointwise import Axes, Position
from mlirfuse.kernels.vector.scan_combiner import ScanCombiner
from mlirfuse.kernels.vector.tiles import block_size
from mlirfuse.kernels.vector.writer import Linear, Writer, linear
from mlirfuse.structured.ir import ops, slices
from mlirfuse.targets.base import CpuDevice

SPECIAL_OPERATIONS = 16
"""Operations of an op of `math`, such as an exponential: a polynomial and a power of two."""

MAX_VECTORS = 8
"""Vectors of a tile of columns: contiguous lines of one row of an operand."""


class ScanKernel(abc.ABC):
    """Writes one kernel. Its axes are those of the results that have several elements.

    Attributes:
      analysis: the scan.
      device: the CPU.
      sizes: of the axes.
      axis: the scanned axis.
      mask: the lanes that exist; empty where all do.
    """

    def __init__(self, analysis: ScanAnalysis, device: CpuDevice) -> None:
        self.analysis, self.device, self.lanes = analysis, device, device.lanes
        kept = [n for n, size in enumerate(analysis.sizes) if size != 1]
        self._numbers = {n: kept.index(n) for n in kept}
        self.sizes = [analysis.sizes[n] for n in kept]
        self.axis = self._numbers[analysis.axis]
        self.writer = Writer()
        self.body = Indexed(self.writer, self.lanes, analysis.group, len(kept), self._merged())
        self.combiner = ScanCombiner(analysis, self.body)
        self._scanned = self._axes(analysis.index)
        self._whole = self._axes([(0, n) for n in range(len(analysis.sizes))])

    @abc.abstractmethod
    def _merged(self) -> int:
        """How many of the last axes are one."""

    @abc.abstractmethod
    def _units(self) -> int:
        """Parts of the work that depend on no other ones."""

    @abc.abstractmethod
    def _write_unit(self, number: str) -> None:
        """Writes one of them."""

    @abc.abstractmethod
    def _unit_work(self) -> tuple[int, list[Linear]]:
        """Elements of one of them, and the index of a vector."""

    def _axes(self, index: Sequence[Index]) -> Axes:
        """Indices in axes of the results as those in axes of the kernel."""
        found: list[Index] = []
        for part in index:
            axis = axis_of(part)
            _, step, start = parts(part)
            number = None if axis is None else self._numbers.get(axis[1])
            found.append(shifted(None if number is None else (0, number), step, start))
        return tuple(map(self.body.place, found))

    def write(self, entry: str) -> VectorKernel:
        """Writes the whole kernel.

        Raises:
          Unsupported: the region has an op or an access that the kernel cannot compute.
        """
        writer, units = self.writer, self._units()
        read = sum(map(ops.num_bytes, slices.operands_of(list(self.analysis.group))))
        size = block_size(units, self._work(), read / units, self.device)
        first = linear(writer.value("hal.interface.workgroup.id[0] : index")) * size
        last = writer.binary("minsi", first + size, units)

        def unit(number: str, _: list[str]) -> list[str]:
            self._write_unit(number)
            return []

        writer.loop(first, last, 1, [], [], unit)
        return self.body.kernel(entry, self.analysis.results, (-(-units // size), 1))

    def _work(self) -> int:
        """Operations on elements for one unit."""
        elements, index = self._unit_work()
        before = len(self.writer.lines)
        position = Position(("work",), tuple(index))
        held = self._combined(self._elements(position), position)
        self._finish(held, position)
        lines = self.writer.lines[before:]
        del self.writer.lines[before:]
        self.body.forget()
        return elements * sum(SPECIAL_OPERATIONS if "math." in line else 1 for line in lines)

    def _combined(self, vector: str, position: Position) -> str:
        """A vector combined as often as one of the kernel, for the count of operations."""
        return self.combiner.combined(vector, vector)

    def _elements(self, position: Position) -> str:
        """The accumulators of the elements at a position alone."""
        value = self.analysis.scan.operands[0]
        return self.combiner.widened(self.body.vector(value, self._scanned, position))

    def _finish(self, vector: str, position: Position) -> None:
        """Writes the results at a position from the scan."""
        narrowed = self.combiner.narrowed(vector)
        self.body.define(self.analysis.scan.results[0], self._scanned, position, narrowed)
        for number, value in enumerate(self.analysis.results):
            made = self.body.vector(value, self._whole, position)
            at = self.body.offset(value.type, self._whole, position.index)
            self.body.store(f"%y{number}", value.type, made, at, position.mask)


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


class RowScan(ScanKernel):
    """Lanes are elements of the scanned axis, and of those after it, fewer than a vector."""

    def __init__(self, analysis: ScanAnalysis, device: CpuDevice) -> None:
        super().__init__(analysis, device)
        self.stride = math.prod(self.sizes[self.axis + 1 :])
        self.length = self.sizes[self.axis] * self.stride
        self.scan = LaneScan(self.combiner, self.lanes, self.stride, analysis.reversed)

    def _merged(self) -> int:
        return len(self.sizes) - self.axis

    def _units(self) -> int:
        return math.prod(self.sizes[: self.axis])

    def _unit_work(self) -> tuple[int, list[Linear]]:
        return self.length, [Linear()] * len(self.sizes)

    def _combined(self, vector: str, position: Position) -> str:
        return self.combiner.combined(vector, self.scan.scanned(vector, self.lanes))

    def _write_unit(self, number: str) -> None:
        writer, lanes = self.writer, self.lanes
        outer = writer.split(number, self.sizes[: self.axis])
        whole, rest = divmod(self.length, lanes)
        inner = [Linear()] * (len(self.sizes) - 1 - self.axis)

        def step(start: Linear, carry: str, length: int) -> str:
            mask = ""
            if length < lanes:
                kind = self.body.vector_type("i1")
                mask = writer.hoisted(f"vector.constant_mask [{length}] : {kind}")
            self.body.forget()
            position = Position((0,), (*outer, *inner, start), mask)
            held = self.scan.scanned(self._elements(position), length)
            if carry:
                held = self.combiner.combined(carry, held)
            kept = self.analysis.inclusive
            self._finish(held if kept else self.scan.shifted(held, carry, length), position)
            self.body.forget()
            return self.scan.carried(held)

        carry = "" if self.analysis.inclusive else self.combiner.initial()
        if whole:
            carry = step(self._start(Linear()), carry, lanes)
        (carry,) = writer.loop(
            lanes,
            max(1, whole) * lanes,
            lanes,
            [carry],
            [self.combiner.kind],
            lambda at, held: [step(self._start(linear(at)), held[0], lanes)],
        ) if whole > 1 else [carry]
        if rest:
            if whole and self.analysis.reversed:
                carry = self.scan.realigned(carry, rest)
            start = Linear() if self.analysis.reversed else Linear(constant=whole * lanes)
            step(start, carry, rest)

    def _start(self, number: Linear) -> Linear:
        """The first element of the vector at which a scan is after so many elements."""
        if not self.analysis.reversed:
            return number
        return number * -1 + (self.length - self.lanes)


class PackedScan(ScanKernel):
    """A vector holds several rows of the scanned axis and of those after it."""

    def __init__(self, analysis: ScanAnalysis, device: CpuDevice) -> None:
        super().__init__(analysis, device)
        stride = math.prod(self.sizes[self.axis + 1 :])
        self.length = self.sizes[self.axis] * stride
        self.used = self.lanes // self.length * self.length
        self.scan = LaneScan(self.combiner, self.lanes, stride, analysis.reversed)

    def _merged(self) -> int:
        return len(self.sizes)

    def _units(self) -> int:
        return -(-math.prod(self.sizes) // self.used)

    def _unit_work(self) -> tuple[int, list[Linear]]:
        return self.lanes, [Linear()] * len(self.sizes)

    def _write_unit(self, number: str) -> None:
        writer, total = self.writer, math.prod(self.sizes)
        start = linear(number) * self.used
        kind, mask = self.body.vector_type("i1"), ""
        if total % self.used:
            left = writer.binary("minsi", writer.binary("subi", total, start), self.used)
            mask = writer.value(f"vector.create_mask {left} : {kind}")
        elif self.used < self.lanes:
            mask = writer.hoisted(f"vector.constant_mask [{self.used}] : {kind}")
        self.body.forget()
        inner = [Linear()] * (len(self.sizes) - 1)
        position = Position((0,), (*inner, start), mask)
        held = self.scan.scanned(self._elements(position), self.length)
        if not self.analysis.inclusive:
            initial = self.combiner.initial()
            held = self.combiner.combined(initial, held)
            held = self.scan.shifted(held, initial, self.length)
        self._finish(held, position)
        self.body.forget()
