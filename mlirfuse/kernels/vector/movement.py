"""Elements that are read at linear indices, or concatenated, with elementwise neighbors.

for each row of the results, each part of a concatenation, some contiguous vectors: load, compute,
store
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.tile_writer import attempted, computing, returned
from mlirfuse.kernels.data_movement import analysis
from mlirfuse.kernels.data_movement.analysis import CONCAT, INSERT, ConcatAnalysis
from mlirfuse.kernels.vector import executable
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.indexed import NotMerged
from mlirfuse.kernels.vector.joined import SLICE, Joined, Piece, pieces
from mlirfuse.kernels.vector.memory import ELEMENT_TYPES
from mlirfuse.kernels.vector.pointwise import Axes, Position
from mlirfuse.kernels.vector.workgroups import BLOCKS_PER_CORE, block_size
from mlirfuse.kernels.vector.writer import Linear, Writer, linear, operations
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize import gathers
from mlirfuse.targets.base import CpuDevice

MAX_VECTORS = 4
"""Vectors of an iteration of the loop over a row."""

LOADS_PER_GATHER = 2
"""Operations for each lane of a vector that is gathered: its load, and its place in the vector."""

SHARED = "the axes of the results"

GroupPlanner = Callable[
    [Sequence[ir.Operation], Sequence[ir.Value], CpuDevice], VectorKernel | NoMatch | None
]
"""Plans the kernel of some ops with these results; see `plan_group`."""


def plan(region: ir.Operation, device: CpuDevice) -> VectorKernel | NoMatch | None:
    """Plans the kernel of a region with a gather or a concatenation; None without one."""
    return plan_region(region, device, plan_group)


def plan_region(
    region: ir.Operation, device: CpuDevice, planner: GroupPlanner
) -> VectorKernel | NoMatch | None:
    """Plans the kernel of a region by a planner of groups of ops."""
    found = planner(computing(region), returned(region), device)
    if isinstance(found, VectorKernel) and len(region.operands):
        return NoMatch(Reason.DYNAMIC_SHAPE, "the kernel's sizes are static")
    return found


def plan_group(
    group: Sequence[ir.Operation], results: Sequence[ir.Value], device: CpuDevice
) -> VectorKernel | NoMatch | None:
    """Plans the kernel of ops; None unless one is a gather, or some concatenate computed parts.

    Args:
      group: the ops, in block order.
      results: the values that a region of them returns.
      device: the CPU.
    """
    elementwise = [op for op in group if ops.is_elementwise(op)]
    inserts = [op for op in group if op.name in (INSERT, CONCAT)]
    if not elementwise or not (inserts or any(map(gathers.is_gather, elementwise))):
        return None
    if any(op.name not in (INSERT, CONCAT, SLICE) for op in group if op not in elementwise):
        return None
    return plan_elementwise(group, results, device, "movement")


def plan_elementwise(
    group: Sequence[ir.Operation], results: Sequence[ir.Value], device: CpuDevice, entry: str
) -> VectorKernel | NoMatch:
    """Plans the kernel of elementwise ops.

    Args:
      group: the ops, in block order.
      results: the values that a region of them returns.
      device: the CPU.
      entry: name of the kernel.
    """
    return attempted(lambda: _plan(group, results, device, entry), SHARED)


def replace(region: ir.Operation, kernel: VectorKernel) -> ir.Operation:
    """Replaces a region by a call of its kernel; returns the call."""
    return executable.replace(region, kernel, {})


def _plan(
    group: Sequence[ir.Operation], results: Sequence[ir.Value], device: CpuDevice, entry: str
) -> VectorKernel | NoMatch:
    shape = ops.shape(results[0])
    if None in shape or 0 in shape or any(ops.shape(value) != shape for value in results):
        raise Unsupported("results of dynamic sizes or of several shapes")
    if any(ops.element_type(value) not in ELEMENT_TYPES for value in results):
        raise Unsupported(f"a result of type {results[0].type}")
    if not {ops.defining_op(value) for value in results} <= set(group):
        raise Unsupported("a result that no op of the region computes")
    sizes = [size or 0 for size in shape if size != 1]
    joined = _concatenation(group, shape)
    axes = len(sizes) if joined is None else _axes_from(shape, joined.axis)
    refusal: NotMerged | None = None
    least = 0
    for merged in range(axes, 0 if joined is None else max(0, axes - 2), -1):
        if math.prod(sizes[-merged:]) < device.lanes:
            break
        least = merged
        try:
            parts = [Piece(0, math.prod(sizes[-merged:]))]
            if joined is not None:
                parts = pieces(joined, merged=merged == axes)
            return _MovementKernel(group, results, sizes, merged, joined, parts, device).write(
                entry
            )
        except NotMerged as reason:
            refusal = reason
    if refusal is not None and joined is None:
        parts = [Piece(0, math.prod(sizes[-least:]))]
        kernel = _MovementKernel(group, results, sizes, least, None, parts, device, gathers=True)
        if not kernel.gathers_pay:
            return NoMatch(Reason.NOT_PROFITABLE, f"{refusal}, which would be gathered")
        return kernel.write(entry)
    if refusal is not None:
        raise refusal
    detail = f"fewer than {device.lanes} contiguous elements"
    return NoMatch(Reason.NOT_PROFITABLE, detail)


def _concatenation(
    group: Sequence[ir.Operation], shape: Sequence[int | None]
) -> ConcatAnalysis | None:
    """The concatenation among ops; None without one.

    Raises:
      Unsupported: there are several, or it has another shape than the results.
    """
    moves = [op for op in group if op.name in (INSERT, CONCAT)]
    if not moves:
        return None
    chain = moves if moves[-1].name == CONCAT else analysis.chain(moves[-1])
    if chain != moves or sum(op.name == CONCAT for op in moves) > 1:
        raise Unsupported("several concatenations")
    joined = analysis.analyze_chain(chain)
    if isinstance(joined, NoMatch):
        raise Unsupported(joined.detail)
    if ops.shape(joined.result) != shape:
        raise Unsupported("a concatenation of another shape than the results")
    return joined


def _axes_from(shape: Sequence[int | None], dim: int) -> int:
    """The dimensions of several elements from one on."""
    return sum(size != 1 for size in shape[dim:])


def interleaved(parts: Sequence[Sequence[str]]) -> list[str]:
    """The lines of independent parts that compute the same, each op of all parts in turn.

    Their latencies overlap so, also where one part is longer than the processor looks ahead.
    """
    if any(line.endswith(("{", "}")) for part in parts for line in part):
        return [line for part in parts for line in part]
    places = [(n / len(part), line) for part in parts for n, line in enumerate(part)]
    return [line for _, line in sorted(places, key=lambda place: place[0])]


class _MovementKernel:
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
        parts = -(-steps // -(-steps // parts))
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
        if last % step:
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
