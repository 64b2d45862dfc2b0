"""Elements that are read at linear indices, as of flips, with elementwise neighbors.

for each row of the results, some contiguous vectors of it: load, compute, store
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.tile_writer import attempted, computing, returned
from mlirfuse.kernels.vector import executable
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.indexed import Indexed, NotMerged
from mlirfuse.kernels.vector.pointwise import ELEMENT_TYPES, Axes, Position
from mlirfuse.kernels.vector.workgroups import BLOCKS_PER_CORE, block_size
from mlirfuse.kernels.vector.writer import Linear, Writer, linear, operations
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize import gathers
from mlirfuse.targets.base import CpuDevice

MAX_VECTORS = 4
"""Vectors of an iteration of the loop over a row."""

SHARED = "the axes of the results"


def plan(region: ir.Operation, device: CpuDevice) -> VectorKernel | NoMatch | None:
    """Plans the kernel of a region with a gather; None for a region without one."""
    found = plan_group(computing(region), returned(region), device)
    if isinstance(found, VectorKernel) and len(region.operands):
        return NoMatch(Reason.DYNAMIC_SHAPE, "the kernel's sizes are static")
    return found


def plan_group(
    group: Sequence[ir.Operation], results: Sequence[ir.Value], device: CpuDevice
) -> VectorKernel | NoMatch | None:
    """Plans the kernel of ops; None unless they are elementwise, and one of them a gather.

    Args:
      group: the ops, in block order.
      results: the values that a region of them returns.
      device: the CPU.
    """
    if not any(map(gathers.is_gather, group)) or not all(map(ops.is_elementwise, group)):
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
    refusal: NotMerged | None = None
    for merged in range(len(sizes), 0, -1):
        if math.prod(sizes[-merged:]) < device.lanes:
            break
        try:
            return _MovementKernel(group, results, sizes, merged, device).write(entry)
        except NotMerged as reason:
            refusal = reason
    if refusal is not None:
        raise refusal
    detail = f"fewer than {device.lanes} contiguous elements"
    return NoMatch(Reason.NOT_PROFITABLE, detail)


class _MovementKernel:
    """Writes one kernel. Its axes are those of the results that have several elements."""

    def __init__(
        self,
        group: Sequence[ir.Operation],
        results: Sequence[ir.Value],
        sizes: Sequence[int],
        merged: int,
        device: CpuDevice,
    ) -> None:
        self.group, self.results, self.device = group, results, device
        self.lanes = device.lanes
        self.outer = list(sizes[: len(sizes) - merged])
        self.inner = [Linear()] * (merged - 1)
        self.extent = math.prod(sizes[len(sizes) - merged :])
        self.writer = Writer()
        self.body = Indexed(self.writer, device.lanes, group, sizes, merged)
        numbers = iter(range(len(sizes)))
        shape = ops.shape(results[0])
        self.axes: Axes = tuple(None if size == 1 else next(numbers) for size in shape)
        self.vectors = min(MAX_VECTORS, self.extent // self.lanes)

    def write(self, entry: str) -> VectorKernel:
        """Writes the whole kernel.

        Raises:
          Unsupported: the region has an op or an access that the kernel cannot compute.
        """
        writer, step = self.writer, self.vectors * self.lanes
        rows, steps = math.prod(self.outer), -(-self.extent // step)
        # Few long rows are cut into parts, which are work for all cores.
        parts = min(steps, -(-BLOCKS_PER_CORE * self.device.cores // rows))
        length = -(-steps // parts)
        parts = -(-steps // length)
        units = rows * parts
        read = sum(map(ops.num_bytes, slices.operands_of(list(self.group))))
        size = block_size(units, self._work() * length * step, read / units, self.device)
        first = linear(writer.value("hal.interface.workgroup.id[0] : index")) * size
        last = writer.binary("minsi", first + size, units)

        def unit(number: str, _: list[str]) -> list[str]:
            row, begin, end = linear(number), Linear(), linear(steps)
            if parts > 1:
                row = linear(writer.binary("divui", number, parts))
                begin = linear(writer.binary("remui", number, parts)) * length
                end = linear(writer.binary("minsi", begin + length, steps))
            outer = writer.split(row, self.outer)
            return writer.loop(begin, end, 1, [], [], lambda n, _: self._step(linear(n), outer))

        writer.loop(first, last, 1, [], [], unit)
        return self.body.kernel(entry, self.results, (-(-units // size), 1))

    def _step(self, number: Linear, outer: Sequence[Linear]) -> list[str]:
        """Writes some vectors; the last ones of a row end with its last element."""
        step = self.vectors * self.lanes
        start, last = number * step, self.extent - step
        if last % step:
            start = linear(self.writer.binary("minsi", start, last))
        self.body.forget()
        for vector in range(self.vectors):
            self._write(Position((vector,), (*outer, *self.inner, start + vector * self.lanes)))
        self.body.forget()
        return []

    def _write(self, position: Position) -> None:
        for number, value in enumerate(self.results):
            made = self.body.vector(value, self.axes, position)
            at = self.body.offset(value.type, self.axes, position.index)
            self.body.store(f"%y{number}", value.type, made, at)

    def _work(self) -> int:
        """Operations for an element."""
        before = len(self.writer.lines)
        rank = len(self.outer) + len(self.inner) + 1
        self._write(Position(("work",), (Linear(),) * rank))
        lines = self.writer.lines[before:]
        del self.writer.lines[before:]
        self.body.forget()
        return operations(lines)
