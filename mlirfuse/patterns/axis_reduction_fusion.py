"""Group reductions over any dimensions with their elementwise neighbors, for a kernel.

    %s = linalg.generic {addf} ins(%x)                 tensor<NxCxHxWxT> -> tensor<NxHxWxT>
    %m = linalg.generic {divf} ins(%s)                 tensor<NxHxWxT>
    %y = linalg.generic {subf} ins(%x, %m)             tensor<NxCxHxWxT>
  becomes
    %y = flow.dispatch.region { all of it }

Root: a reduction in no group over any dimensions, of a combiner and element types that
`row_triton_kernel` has. The group has reductions over the same dimensions, and elementwise ops over
these loops or over the kept ones alone: ops that compute the operands, except for the epilogue of a
contraction, and ops that read the results. A group is formed where the kernel's plan succeeds,
without the neighbors where it needs that. Nothing is grouped where Triton is missing. Any rank;
reduced dimensions static. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, PassContext
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.reduction.analysis import ReductionAnalysis
from mlirfuse.kernels.reduction.family import REDUCTION, profitable
from mlirfuse.kernels.reduction.grouping import Growth, is_root
from mlirfuse.structured.ir import ops


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Grows the group of a reduction, as far as a kernel can be planned."""
    if not triton_compiler.supports(ctx.target) or not any(map(ops.users, root.results)):
        return None
    growth = Growth(root, ctx.target.max_operands)
    alone = growth.analysis()
    if not isinstance(alone, ReductionAnalysis):
        return alone
    groups = [(growth.members, alone)]
    for step in (growth.add_producers, growth.add_neighbors):
        step()
        grown = growth.analysis()
        if isinstance(grown, ReductionAnalysis):
            groups.append((growth.members, grown))
    refusal: NoMatch | None = None
    for members, analysis in reversed(groups):
        planned = REDUCTION.plan_analysis(analysis, ctx.target, None)
        if isinstance(planned, Plan):
            refusal = profitable(planned, ctx.target)
            if refusal is None:
                return Match(root, tuple(members))
        else:
            refusal = planned
    return refusal


PASS = passes.group_pass(
    name="axis_reduction_fusion",
    summary="Reductions over any dimensions with their elementwise neighbors, for a kernel",
    roots=("linalg.generic",),
    where=is_root,
    match=match,
    for_kernel=True,
)
