"""Group a scatter with the ops that compute its updates and indices, for a kernel.

    %v = linalg.generic {mulf} ins(%u, %s)             tensor<NxWxf32>
    %j = tensor.collapse_shape %i                      tensor<AxBxi64> to tensor<Nxi64>
    %y = iree_linalg_ext.scatter {addf} ins(%v, %j) outs(%x)
  becomes
    %y = flow.dispatch.region { all of it }

Root: the scatter. Elementwise producers of the updates that only it uses join it, also through
reshapes, slices and concatenations; those of indices join it as copies where others use them, too.
Nothing is grouped where Triton is missing. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import form_region, own_copies
from mlirfuse.core import Match, NoMatch, PassContext, Reason
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.scatter.analysis import ScatterAnalysis, analyze_ops
from mlirfuse.kernels.scatter.family import plan_scatter
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize import scatters


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a scatter and the most ops before it for which there is a kernel."""
    if not triton_compiler.supports(ctx.target) or ops.in_region(root):
        return None
    if not ops.users(root.results[0]):
        return None
    refusal: NoMatch | None = None
    for feeding in scatters.feeding(root):
        refusal = _refusal(feeding, ctx)
        if refusal is None:
            return Match(root, feeding.own, feeding.shared)
    return refusal


def _refusal(feeding: scatters.Feeding, ctx: PassContext) -> NoMatch | None:
    """Why there is no kernel for a scatter with these ops; None if there is one."""
    limit = ctx.target.max_operands
    blocked = slices.check(list(feeding.own), limit, on_demand=True)
    if blocked is not None:
        return blocked
    bound = len(slices.operands_of(feeding.ops)) + 1
    if bound > limit:
        return NoMatch(Reason.TOO_MANY_OPERANDS, f"{bound} tensors, the limit is {limit}")
    analysis = analyze_ops(feeding.ops, feeding.own[-1].results)
    if not isinstance(analysis, ScatterAnalysis):
        return analysis
    plan = plan_scatter(analysis, ctx.target)
    return plan if isinstance(plan, NoMatch) else None


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Puts the ops into a region, those that others use as copies."""
    return form_region(own_copies(list(match.data), list(match.ops)))


PASS = passes.group_pass(
    name="scatter_fusion",
    summary="Scatter with the ops that compute its updates and indices, for a kernel",
    roots=(scatters.SCATTER,),
    match=match,
    rewrite=rewrite,
    computes_on_demand=True,
)
