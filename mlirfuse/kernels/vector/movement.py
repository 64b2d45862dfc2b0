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
from mlirfuse.kernels.vector.indexed import NotMerged, Transposed
from mlirfuse.kernels.vector.joined import SLICE, Piece, pieces
from mlirfuse.kernels.vector.memory import ELEMENT_TYPES
from mlirfuse.kernels.vector.movement_kernel import MovementKernel
from mlirfuse.kernels.vector.movement_tiles import TransposingKernel
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import gathers
from mlirfuse.targets.base import CpuDevice

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
    """Plans the kernel of elementwise ops, which reads slices in their sources where it can.

    Args:
      group: the ops, in block order.
      results: the values that a region of them returns.
      device: the CPU.
      entry: name of the kernel.
    """

    def planned(cuts: Sequence[ir.Operation]) -> VectorKernel | NoMatch:
        return attempted(lambda: _plan([*cuts, *group], results, device, entry), SHARED)

    cuts = slices_read(group)
    found = planned(cuts)
    if isinstance(found, VectorKernel) or not cuts:
        return found
    found, read = planned([]), list[ir.Operation]()
    for cut in cuts if len(cuts) > 1 else []:
        more = planned([*read, cut])
        if isinstance(more, VectorKernel):
            found, read = more, [*read, cut]
    return found


def slices_read(group: Sequence[ir.Operation]) -> list[ir.Operation]:
    """The slices outside of a group that its ops read, of static sizes."""
    found = (owner for op in group for _, owner in ops.operand_producers(op))
    cuts = (op for op in found if op is not None and op.name == SLICE and op not in group)
    return [op for op in dict.fromkeys(cuts) if None not in ops.shape(op.operands[0])]


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
            return MovementKernel(group, results, sizes, merged, joined, parts, device).write(entry)
        except NotMerged as reason:
            refusal = reason
        except Transposed as found:
            if joined is not None:
                raise
            return TransposingKernel(group, results, sizes, device, found.axis).write(entry)
    if refusal is not None and joined is None:
        parts = [Piece(0, math.prod(sizes[-least:]))]
        kernel = MovementKernel(group, results, sizes, least, None, parts, device, gathers=True)
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
