"""Let a kernel in the vector dialect compute a scatter with the ops that compute its operands.

    %v = linalg.generic {mulf} ins(%u, %s)             tensor<NxWxf32>
    %d = linalg.generic {maximumf} ins(%x)             tensor<MxWxf32>
    %y = iree_linalg_ext.scatter {addf} ins(%v, %i) outs(%d)
  becomes
    %y = flow.dispatch @vector_kernel::@scatter(%u, %s, %i, %x)

Root: the scatter, with any function of an element and an update, and any number of coordinates. The
elementwise producers of updates, indices and destination that only it uses join it, and so do
gathers and the insertions that put coordinates together. Each workgroup computes a part of the
result, and reads all indices; so elements are combined in the order of the updates, and vectors of
them at a time, where IREE's code takes one element after the other on one core. The kernel copies
the destination: one that IREE updates in place stays with it where few elements are updated. Static
sizes; numbers of 8 to 64 bits. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from collections.abc import Iterator

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, Numerics, PassContext, Reason
from mlirfuse.kernels.vector import passes, scatter
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.structured.ir import fusable_neighbors, ops, slices
from mlirfuse.structured.recognize import scatters


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Plans the kernel of a region, or of a scatter with the most producers that it can compute."""
    if ctx.target.cpu is None or root.name == ops.REGION:
        return passes.match_region(root, ctx, scatter.plan)
    if ops.in_region(root) or not ops.users(root.results[0]):
        return None
    refusal: NoMatch | None = None
    for group in _groups(root):
        operands = len(slices.operands_of(group)) + 1
        if operands > ctx.target.max_operands:
            refusal = refusal or NoMatch(Reason.TOO_MANY_OPERANDS, f"{operands} tensors")
            continue
        planned = scatter.plan_group(group, list(root.results), ctx.target.cpu)
        if isinstance(planned, VectorKernel):
            return Match(root, tuple(group))
        refusal = refusal or planned
    return refusal


def _groups(root: ir.Operation) -> Iterator[list[ir.Operation]]:
    """A scatter with the ops that only it uses: of all its operands first, and alone at last."""
    start = ops.defining_op(root.operands[len(root.operands) - 1])
    before: list[ir.Operation] = []
    if start is not None and ops.users(start.results[0]) == [root] and _joins(start):
        before = [*slices.exclusive_producers([start], _joins), start]
    for found in scatters.feeding(root):
        if before:
            yield slices.in_order({*before, *found.own})
        yield list(found.own)


def _joins(op: ir.Operation) -> bool:
    return fusable_neighbors.is_free_elementwise(op)


PASS = passes.kernel_pass(
    name="scatter_vector_kernel",
    summary="Scatter with the computation of its operands as one kernel for CPUs",
    plan=scatter.plan,
    replace=scatter.replace,
    source="mlirfuse",
    roots=(ops.REGION, scatters.SCATTER),
    match=match,
    numerics=Numerics.EXACT,
    takes_single_op=True,
)
