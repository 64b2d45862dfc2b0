"""The kernel of elementwise ops, with a concatenation or a slice among them.

for each row of the results, each part of a concatenation, some contiguous vectors: load, compute,
store
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.data_movement.analysis import ConcatAnalysis
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.joined import Joined, Piece
from mlirfuse.kernels.vector.pointwise import Axes, Position
from mlirfuse.kernels.vector.workgroups import BLOCKS_PER_CORE, block_size
from mlirfuse.kernels.vector.writer import Linear, Writer, linear, operations
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize import gathers
from mlirfuse.targets.base import CpuDevice

MAX_VECTORS = 4
"""Vectors of an iteration of the loop over a row."""

MAX_UNROLLED = 8
"""Iterations over a row that are written one by one, where its elements are gathered: indices that
are known at compile time are an order of the lanes of vectors then."""

LOADS_PER_GATHER = 2
"""Operations for each lane of a vector that is gathered: its load, and its place in the vector."""


def interleaved(parts: Sequence[Sequence[str]]) -> list[str]:
    """The lines of independent parts that compute the same, each op of all parts in turn.

    Their latencies overlap so, also where one part is longer than the processor looks ahead.
    """
    if any(line.endswith(("{", "}")) for part in parts for line in part):
        return [line for part in parts for line in part]
    places = [(n / len(part), line) for part in parts for n, line in enumerate(part)]
    return [line for _, line in sorted(places, key=lambda place: place[0])]


class MovementKernel:
    """Writes one kernel. Its axes are those of the results that have several elements."""

    def __init__(
        self,
        group: Sequence[ir.Operation],
        results: Sequence[ir.Value],
        sizes: Sequence[int],
        merged: int,
        joined: ConcatAnalysis | None,
        pieces: Sequence[Piece],
        device: CpuDevice,
        *,
        gathers: bool = False,
    ) -> None:
        self.group, self.results, self.device = group, results, device
        self.lanes = device.lanes
        # The axis of the concatenation is the last of these, the first of the merged ones, or
        # between them.
        self.between = any(piece.rows for piece in pieces)
        self.outer = list(sizes[: len(sizes) - merged - self.between])
        self.inner = [Linear()] * (merged - 1)
        self.pieces = pieces
        if min(piece.count for piece in self.pieces) < self.lanes:
            raise Unsupported("a part of fewer contiguous elements than a vector has")
        self.writer = Writer()
        self.body = Joined(self.writer, device.lanes, group, sizes, merged, joined, gathers=gathers)
        self._run = math.prod(sizes[len(sizes) - merged + 1 :])
        numbers = iter(range(len(sizes)))
        shape = ops.shape(results[0])
        self.axes: Axes = tuple(None if size == 1 else next(numbers) for size in shape)

    @property
    def gathers_pay(self) -> bool:
        """Whether vectors with gathers cost less than those that all operands have as they are.

        These have the last axes but the first merged one, of fewer elements than a vector.
        """
        work = self._work(self.pieces[0])
        loads = LOADS_PER_GATHER * self.lanes * self.body.num_gathers
        return work * (self.lanes / self._run - 1) > loads

    def write(self, entry: str) -> VectorKernel:
        """Writes the whole kernel.

        Raises:
          Unsupported: the region has an op or an access that the kernel cannot compute.
        """
        writer = self.writer
        rows, steps = math.prod(self.outer), max(map(self._steps, self.pieces))
        # Few long rows are cut into parts, which are work for all cores.
        parts = min(steps, -(-BLOCKS_PER_CORE * self.device.cores // rows))
        parts = 1 if self._is_unrolled(steps) else -(-steps // -(-steps // parts))
        units = rows * parts
        # Of a table that rows are gathered from no more than a result has of them is read.
        most = sum(map(ops.num_bytes, self.results))
        read = sum(min(most, ops.num_bytes(v)) for v in slices.operands_of(list(self.group)))
        work = sum(self._work(p) * p.count * max(1, p.rows) for p in self.pieces) / parts
        size = block_size(units, work, read / units, self.device)
        first = linear(writer.value("hal.interface.workgroup.id[0] : index")) * size
        last = writer.binary("minsi", first + size, units)

        def unit(number: str, _: list[str]) -> list[str]:
            row, part = linear(number), Linear()
            if parts > 1:
                row = linear(writer.binary("divui", number, parts))
                part = linear(writer.binary("remui", number, parts))
            outer = writer.split(row, self.outer)
            for piece in self.pieces:
                self._write_piece(piece, outer, part, parts)
            return []

        writer.loop(first, last, 1, [], [], unit)
        return self.body.kernel(entry, self.results, (-(-units // size), 1))

    def _is_unrolled(self, steps: int) -> bool:
        """Whether iterations over a row, of which there are so many, are written one by one."""
        return steps <= MAX_UNROLLED and any(map(gathers.is_gather, self.group))

    def _vectors(self, piece: Piece) -> int:
        """Vectors of an iteration."""
        return min(MAX_VECTORS, piece.count // self.lanes)

    def _row_steps(self, piece: Piece) -> int:
        """Iterations over the merged axes of a piece."""
        return -(-piece.count // (self._vectors(piece) * self.lanes))

    def _steps(self, piece: Piece) -> int:
        """Iterations over a piece."""
        return max(1, piece.rows) * self._row_steps(piece)

    def _write_piece(self, piece: Piece, outer: Sequence[Linear], part: Linear, parts: int) -> None:
        """Writes a part of a piece of a row."""
        steps = self._steps(piece)
        begin, end = Linear(), linear(steps)
        if parts > 1:
            length = -(-steps // parts)
            begin = part * length
            end = linear(self.writer.binary("minsi", begin + length, steps))
        self.body.piece = piece
        if self._is_unrolled(steps):
            for number in range(steps):
                self._step(piece, linear(number), outer)
            return

        def step(number: str, _: list[str]) -> list[str]:
            return self._step(piece, linear(number), outer)

        self.writer.loop(begin, end, 1, [], [], step)

    def _step(self, piece: Piece, number: Linear, outer: Sequence[Linear]) -> list[str]:
        """Writes some vectors; the last ones of a piece end with its last element."""
        if self.between:
            assert piece.part is not None
            row, number = self.writer.split(
                self.writer.index(number), (piece.rows, self._row_steps(piece))
            )
            outer = (*outer, row + piece.part.start)
        vectors = self._vectors(piece)
        step = vectors * self.lanes
        start, last = number * step, piece.count - step
        if start.is_constant:
            start = linear(min(start.constant, last))
        elif last % step:
            start = linear(self.writer.binary("minsi", start, last))
        start = start + piece.begin
        self.body.forget()
        before, parts = len(self.writer.lines), list[list[str]]()
        for vector in range(vectors):
            self._write(Position((vector,), (*outer, *self.inner, start + vector * self.lanes)))
            parts.append(self.writer.lines[before:])
            del self.writer.lines[before:]
        self.writer.lines += interleaved(parts)
        self.body.forget()
        return []

    def _write(self, position: Position) -> None:
        for number, value in enumerate(self.results):
            made = self.body.vector(value, self.axes, position)
            at = self.body.offset(value.type, self.axes, position.index)
            self.body.store(f"%y{number}", value.type, made, at)

    def _work(self, piece: Piece) -> int:
        """Operations for an element of a piece."""
        before = len(self.writer.lines)
        self.body.piece = piece
        rank = len(self.outer) + self.between + len(self.inner) + 1
        self._write(Position(("work",), (Linear(),) * rank))
        lines = self.writer.lines[before:]
        del self.writer.lines[before:]
        self.body.forget()
        return operations(lines)
