"""Elementwise ops on vectors, in the order of memory, some vectors at a time.

IREE 3.13 gives a workgroup at most 64 adjacent elements of many rows: it moves on in memory after
256 bytes, at half the rate of one that goes straight on. It computes one vector of an iteration,
where the latencies of several overlap in ours; vectors of two elements where the last dimension has
two; and of sines, cosines and tangents both reductions of the angle, of which the exact one for
large angles takes most of the time: our kernel branches where any lane has a large angle.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.builders.angles import is_angle_function
from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.vector import movement
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.workgroups import MIN_BLOCK_BYTES, MIN_BLOCK_OPERATIONS
from mlirfuse.kernels.vector.writer import SPECIAL_OPERATIONS
from mlirfuse.structured.ir import ops, slices
from mlirfuse.targets.base import CpuDevice


def plan(region: ir.Operation, device: CpuDevice) -> VectorKernel | NoMatch | None:
    """Plans the kernel of a region; None for one that does not pay."""
    return movement.plan_region(region, device, plan_group)


def plan_group(
    group: Sequence[ir.Operation], results: Sequence[ir.Value], device: CpuDevice
) -> VectorKernel | NoMatch | None:
    """Plans the kernel of ops; None unless they are elementwise and have work for a kernel.

    Args:
      group: the ops, in block order.
      results: the values that a region of them returns.
      device: the CPU.
    """
    if not device.has_fma or not all(map(ops.is_elementwise, group)):
        return None
    if not any(map(is_angle_function, _scalar_ops(group))) and not _reads_at_distances(group):
        refusal = _too_small(group, results)
        if refusal is not None:
            return refusal
    return movement.plan_elementwise(group, results, device, "elementwise")


def has_angle_function(op: ir.Operation) -> bool:
    """Whether an elementwise op has a sine, cosine or tangent."""
    return any(map(is_angle_function, _scalar_ops([op])))


def _scalar_ops(group: Sequence[ir.Operation]) -> list[ir.Operation]:
    """The ops in the bodies of ops."""
    return [
        inner.operation for op in group if ops.is_generic(op) for inner in ops.body(op).operations
    ]


def _reads_at_distances(group: Sequence[ir.Operation]) -> bool:
    """Whether ops read a slice with strides, whose elements IREE takes one by one."""
    return not all(map(ops.has_unit_strides, movement.slices_read(group)))


def _too_small(group: Sequence[ir.Operation], results: Sequence[ir.Value]) -> NoMatch | None:
    """Why IREE's code is as good: it computes and moves less than a workgroup of its own does."""
    values = [*slices.operands_of(list(group)), *results]
    if any(None in ops.shape(value) for value in values):
        return NoMatch(Reason.DYNAMIC_SHAPE, "the kernel's sizes are static")
    num_bytes = sum(map(ops.num_bytes, values))
    elements = max(ops.num_elements(value) or 0 for value in results)
    names = [op.name for op in _scalar_ops(group) if op.name != "linalg.yield"]
    work = sum(SPECIAL_OPERATIONS if name.startswith("math.") else 1 for name in names)
    if elements * work >= MIN_BLOCK_OPERATIONS or num_bytes >= MIN_BLOCK_BYTES:
        return None
    detail = f"{elements * work} operations and {num_bytes} bytes are less than a workgroup's"
    return NoMatch(Reason.NOT_PROFITABLE, detail)
