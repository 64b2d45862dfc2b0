"""Scans along an axis that is contiguous in memory, or followed by less than a vector.

rows      for each row: scan the lanes of its vectors, with a carry from one to the next
packed    a vector holds several whole rows
"""

from __future__ import annotations

import math

from mlirfuse.kernels.scan.analysis import ScanAnalysis
from mlirfuse.kernels.vector.lane_scan import LaneScan
from mlirfuse.kernels.vector.pointwise import Position
from mlirfuse.kernels.vector.scan_kernel import ScanKernel
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.targets.base import CpuDevice

VECTORS_TOGETHER = 4
"""Vectors that are scanned together where a combiner is a chain of ops: as many chains."""


class RowScan(ScanKernel):
    """Lanes are elements of the scanned axis, and of those after it, fewer than a vector.

    Several vectors are scanned together, so that the latency of combining one is that of others,
    too, and the carry is combined once for all of them.
    """

    def __init__(self, analysis: ScanAnalysis, device: CpuDevice) -> None:
        super().__init__(analysis, device)
        self.stride = math.prod(self.sizes[self.axis + 1 :])
        self.length = self.sizes[self.axis] * self.stride
        self.scan = LaneScan(self.combiner, self.lanes, self.stride, analysis.reversed)
        self.outer: list[Linear] = []

    def _merged(self) -> int:
        return len(self.sizes) - self.axis

    def _units(self) -> int:
        return math.prod(self.sizes[: self.axis])

    def _unit_work(self) -> tuple[int, list[Linear]]:
        return self.length, [Linear()] * len(self.sizes)

    def _combined(self, vector: str) -> str:
        return self.combiner.combined(vector, self.scan.scanned([vector], self.lanes)[0])

    def _write_unit(self, number: str) -> None:
        lanes = self.lanes
        self.outer = self.writer.split(number, self.sizes[: self.axis])
        whole, rest = divmod(self.length, lanes)
        group = min(VECTORS_TOGETHER if self.combiner.is_long else 1, max(1, whole))
        carry = "" if self.analysis.inclusive else self.combiner.initial()
        done = 0
        while whole - done >= group:
            rounds = (whole - done) // group if carry else 1
            if rounds == 1:
                carry = self._step(Linear(constant=done * lanes), group, carry)
            else:
                (carry,) = self.writer.loop(
                    done * lanes,
                    (done + rounds * group) * lanes,
                    group * lanes,
                    [carry],
                    [self.combiner.kind],
                    lambda at, held: [self._step(linear(at), group, held[0])],
                )
            done += rounds * group
        if whole > done:
            carry = self._step(Linear(constant=done * lanes), whole - done, carry)
        if rest:
            self._end(carry if whole or not self.analysis.inclusive else "", rest)

    def _step(self, at: Linear, count: int, carry: str) -> str:
        """Writes vectors, the first of which is after so many elements; returns their carry."""
        lanes = self.lanes
        self.body.forget()
        positions = [self._position(n, self._start(at + n * lanes)) for n in range(count)]
        held = self.scan.scanned([self._elements(position) for position in positions], lanes)
        held = self.scan.joined(held)
        if carry:
            carries = [self.scan.realigned(carry, (n + 1) * lanes) for n in range(count)]
            held = [self.combiner.combined(*pair) for pair in zip(carries, held, strict=True)]
        for number, position in enumerate(positions):
            found = held[number]
            if not self.analysis.inclusive:
                before = self.scan.carried(held[number - 1], lanes) if number else carry
                found = self.scan.shifted(found, before, lanes)
            self._finish(found, position)
        self.body.forget()
        return self.scan.carried(held[-1], lanes)

    def _end(self, carry: str, rest: int) -> None:
        """Writes the elements that are less than a vector."""
        self.body.forget()
        mask = self.writer.hoisted(f"vector.constant_mask [{rest}] : {self.body.vector_type('i1')}")
        start = 0 if self.analysis.reversed else self.length - rest
        position = self._position(0, Linear(constant=start), mask)
        (held,) = self.scan.scanned([self._elements(position)], rest)
        if carry:
            if self.length > rest and self.analysis.reversed:
                carry = self.scan.realigned(carry, rest)
            held = self.combiner.combined(carry, held)
        if not self.analysis.inclusive:
            held = self.scan.shifted(held, carry, rest)
        self._finish(held, position)
        self.body.forget()

    def _position(self, number: int, start: Linear, mask: str = "") -> Position:
        inner = [Linear()] * (len(self.sizes) - 1 - self.axis)
        return Position((number,), (*self.outer, *inner, start), mask)

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
        (held,) = self.scan.scanned([self._elements(position)], self.length)
        if not self.analysis.inclusive:
            initial = self.combiner.initial()
            held = self.combiner.combined(initial, held)
            held = self.scan.shifted(held, initial, self.length)
        self._finish(held, position)
        self.body.forget()
