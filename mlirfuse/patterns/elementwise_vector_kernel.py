"""Let a kernel in the vector dialect compute elementwise ops.

    %y = flow.dispatch.region { linalg.generic { elementwise ops } ins(%x) }
  becomes
    %y = flow.dispatch @vector_kernel::@elementwise(%x)

Root: a region of elementwise ops, whichever pass formed it, with as much work as a workgroup has at
least; or such an op in no group that IREE would not fuse with a neighbor and that does more than
move or widen elements. Of any size, and with any neighbors, one with a sine, cosine or tangent:
vectors branch where a lane has an angle of more than 2^20, which takes another reduction; the loops
that IREE vectorizes compute both of all elements. A million sines take 0.93 ms in one thread of a
Zen 4 so, 0.42 with the branch; a batch norm of 72x16x56x56 f32 0.89 ms in one thread of a Zen 5 in
IREE's tiles of 64 elements, 0.41 in the order of memory. A group that is written into a larger
tensor is left to the passes that do so. Results of one shape, a vector of contiguous elements or
more; static sizes; f16, bf16, f32 or wider. CPUs with FMA. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, Numerics, PassContext, Reason
from mlirfuse.kernels.vector import elementwise, movement, passes
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.structured.ir import fusable_neighbors, ops

INTO_LARGER = frozenset({"tensor.insert_slice", "tensor.concat", "tensor.pad"})
"""Ops that write a tensor into a larger one."""

MOVING = frozenset({"arith.extf", "linalg.index", "linalg.yield"})
"""Ops in the bodies of those that move or widen elements."""


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Plans the kernel of a region, or of an elementwise op in no group."""
    if ctx.target.cpu is None:
        return None
    if root.name == ops.REGION:
        if any(user.name in INTO_LARGER for value in root.results for user in ops.users(value)):
            return NoMatch(Reason.LEFT_TO_PRODUCER, "it is written into a larger tensor")
        return passes.match_region(root, ctx, elementwise.plan)
    if ops.in_region(root) or not ops.is_elementwise(root) or not any(map(ops.users, root.results)):
        return None
    if fusable_neighbors.is_fused_by_iree(root):
        return None
    if not elementwise.has_angle_function(root) and not _is_alone(root):
        return None
    planned = elementwise.plan_group([root], list(root.results), ctx.target.cpu)
    return Match(root, (root,)) if isinstance(planned, VectorKernel) else planned


def _is_alone(op: ir.Operation) -> bool:
    """Whether an op computes, and IREE fuses it with none of its neighbors."""
    if set(ops.scalar_names(op)) <= MOVING:
        return False
    users = [user for value in op.results for user in ops.users(value)]
    users += [u for user in users if user.name in ops.RESHAPES for u in ops.users(user.results[0])]
    producers = [ops.defining_op(ops.strip_views(v, ops.RESHAPES)) for v in op.operands]
    near = [*users, *(producer for producer in producers if producer is not None)]
    return not any(other.name in INTO_LARGER or _is_free(other) for other in near)


def _is_free(op: ir.Operation) -> bool:
    """Whether an op is structured and in no group."""
    return not ops.in_region(op) and op.name.startswith("linalg.") and op.name != "linalg.fill"


PASS = passes.kernel_pass(
    name="elementwise_vector_kernel",
    summary="Elementwise ops in the order of memory as one kernel for CPUs",
    plan=elementwise.plan,
    replace=movement.replace,
    source="mlirfuse",
    roots=(ops.REGION, "linalg.generic"),
    match=match,
    numerics=Numerics.EXACT,
    takes_single_op=True,
)
