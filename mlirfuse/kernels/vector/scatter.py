"""Scatters with the elementwise ops that compute their operands."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.alignment import VIEWS
from mlirfuse.kernels.codegen.tile_writer import attempted, computing, returned
from mlirfuse.kernels.vector import executable
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.memory import ELEMENT_TYPES
from mlirfuse.kernels.vector.scatter_kernel import ScatterKernel
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.scatters import SCATTER, Scatter, scatter
from mlirfuse.targets.base import CpuDevice

SHARED = "the axes of the scatter"

MIN_SHARE = 0.25
"""Elements of the updates over those of a destination that IREE updates in place, from which on a
kernel, which copies it, is the faster one: IREE combines one element at a time."""

_COPIED = frozenset(
    {"hal.tensor.import", "arith.constant", "util.global.load", "linalg.fill", "tensor.empty"}
)
"""Producers of tensors that a program must not change, and of those that it writes in any case."""


def plan(region: ir.Operation, device: CpuDevice) -> VectorKernel | NoMatch | None:
    """Plans the kernel of a region that ends in a scatter; None for another region."""
    return plan_group(computing(region), returned(region), device)


def plan_group(
    group: Sequence[ir.Operation], results: Sequence[ir.Value], device: CpuDevice
) -> VectorKernel | NoMatch | None:
    """Plans the kernel of ops; None unless the last one is a scatter, and the only one.

    Args:
      group: the ops, in block order.
      results: the values that a region of them returns.
      device: the CPU.
    """
    if not group or group[-1].name != SCATTER:
        return None
    if list(results) != list(group[-1].results):
        return NoMatch(Reason.EXTRA_USERS, "the kernel has no other result than the scatter's")
    found = scatter(group[-1])
    shapes = [ops.shape(value) for value in (found.updates, found.destination)]
    if any(None in shape for shape in shapes):
        return NoMatch(Reason.DYNAMIC_SHAPE, "the kernel's sizes are static")
    if any(0 in shape for shape in shapes):
        return NoMatch(Reason.NOT_PROFITABLE, "a scatter of no elements")
    if ops.element_type(found.destination) not in ELEMENT_TYPES - {"i1"}:
        return NoMatch(Reason.ELEMENT_TYPE, ops.element_type(found.destination))
    if not _pays(found, group):
        return NoMatch(Reason.NOT_PROFITABLE, "few updates of a tensor, which IREE does in place")
    return attempted(lambda: ScatterKernel(group, found, device).write("scatter"), SHARED)


def replace(region: ir.Operation, kernel: VectorKernel) -> ir.Operation:
    """Replaces a region by a call of its kernel; returns the call."""
    return executable.replace(region, kernel, {})


def _pays(found: Scatter, group: Sequence[ir.Operation]) -> bool:
    """Whether the destination is copied in any case, or has many updates."""
    owner = ops.defining_op(ops.strip_views(found.destination, VIEWS))
    if owner is not None and (owner in group or owner.name in _COPIED):
        return True
    updates, elements = (ops.num_elements(v) or 0 for v in (found.updates, found.destination))
    return updates >= MIN_SHARE * elements
