"""Let a kernel in the vector dialect compute flips, row gathers and concatenations with neighbors.

    %y = flow.dispatch.region { linalg.generic { tensor.extract %x[i, N - 1 - j] } }
  becomes
    %y = flow.dispatch @vector_kernel::@movement(%x, ...)

Root: the region, whichever pass formed it, or a gather in no group. Each index of a tensor is
linear in one loop, with a step of one or minus one along the contiguous dimension; results of one
shape with a vector of contiguous elements or more. A concatenation of that shape, with elementwise
ops before or after it, has a loop for each part, of a vector of contiguous elements or more. Static
sizes; f16, bf16, f32, f64, booleans and integers. IREE reads and writes single elements. Numerics:
exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, Numerics, PassContext
from mlirfuse.kernels.vector import movement, passes
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import gathers


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Plans the kernel of a region, or of a gather in no group."""
    if ctx.target.cpu is None or root.name == ops.REGION:
        return passes.match_region(root, ctx, movement.plan)
    if ops.in_region(root) or not gathers.is_gather(root) or not ops.users(root.results[0]):
        return None
    planned = movement.plan_group([root], list(root.results), ctx.target.cpu)
    return Match(root, (root,)) if isinstance(planned, VectorKernel) else planned


PASS = passes.kernel_pass(
    name="movement_vector_kernel",
    summary="Flips and gathers of rows with their elementwise neighbors as one kernel for CPUs",
    plan=movement.plan,
    replace=movement.replace,
    source="mlirfuse",
    roots=(ops.REGION, "linalg.generic"),
    match=match,
    numerics=Numerics.EXACT,
    takes_single_op=True,
)
