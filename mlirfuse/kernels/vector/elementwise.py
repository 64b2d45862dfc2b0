"""Elementwise ops with functions that branch on vectors: sines, cosines and tangents.

Their angles are reduced in two ways, of which the exact one for large angles takes most of the
time. IREE vectorizes loops without branches alone, and so it computes both ways of each element; a
kernel of vectors branches where any lane has a large angle.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.builders.angles import is_angle_function
from mlirfuse.core import NoMatch
from mlirfuse.kernels.vector import movement
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice


def plan(region: ir.Operation, device: CpuDevice) -> VectorKernel | NoMatch | None:
    """Plans the kernel of a region; None for one without such functions."""
    return movement.plan_region(region, device, plan_group)


def plan_group(
    group: Sequence[ir.Operation], results: Sequence[ir.Value], device: CpuDevice
) -> VectorKernel | NoMatch | None:
    """Plans the kernel of ops; None unless they are elementwise and have such functions.

    Args:
      group: the ops, in block order.
      results: the values that a region of them returns.
      device: the CPU.
    """
    if not device.has_fma or not all(map(ops.is_elementwise, group)):
        return None
    bodies = (
        inner.operation for op in group if ops.is_generic(op) for inner in ops.body(op).operations
    )
    if not any(map(is_angle_function, bodies)):
        return None
    return movement.plan_elementwise(group, results, device, "elementwise")
