"""Let a kernel in the vector dialect compute sines, cosines and tangents with their neighbors.

    %y = linalg.generic { math.sin, elementwise ops } ins(%x)
  becomes
    %y = flow.dispatch @vector_kernel::@elementwise(%x)

Root: a region of elementwise ops, whichever pass formed it, or an elementwise op in no group that
IREE would not fuse with a contraction or a reduction. Vectors branch where a lane has an angle of
more than 2^20, which takes another reduction; the loops that IREE vectorizes compute both of all
elements. A million sines take 0.93 ms in one thread of a Zen 4 so, 0.42 with the branch. Results of
one shape, a vector of contiguous elements or more; static sizes; f16, bf16, f32. CPUs with FMA.
Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, Numerics, PassContext
from mlirfuse.kernels.vector import elementwise, movement, passes
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.structured.ir import fusable_neighbors, ops


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Plans the kernel of a region, or of an elementwise op in no group."""
    if ctx.target.cpu is None or root.name == ops.REGION:
        return passes.match_region(root, ctx, elementwise.plan)
    if ops.in_region(root) or not ops.is_elementwise(root) or not any(map(ops.users, root.results)):
        return None
    if fusable_neighbors.is_fused_by_iree(root):
        return None
    planned = elementwise.plan_group([root], list(root.results), ctx.target.cpu)
    return Match(root, (root,)) if isinstance(planned, VectorKernel) else planned


PASS = passes.kernel_pass(
    name="elementwise_vector_kernel",
    summary="Sines, cosines and tangents with their elementwise neighbors as one kernel for CPUs",
    plan=elementwise.plan,
    replace=movement.replace,
    source="mlirfuse",
    roots=(ops.REGION, "linalg.generic"),
    match=match,
    numerics=Numerics.EXACT,
    takes_single_op=True,
)
