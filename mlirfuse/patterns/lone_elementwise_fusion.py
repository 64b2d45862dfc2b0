"""Group the elementwise ops that are in no group, for a kernel.

    %t = linalg.generic {transposing copy} ins(%x)     tensor<MxNxT>
    %y = linalg.generic {addf} ins(%t, %z)             tensor<MxNxT>
  becomes
    %y = flow.dispatch.region { both }

Root: an elementwise op in no group, also a transposing or a broadcasting copy, a gather, or a mask
that is computed from indices alone. Elementwise producers that only the root uses join it, as far
as one kernel computes all of them. IREE would make one dispatch of the root: its operands are
arguments or results of groups, its users groups or returns. The epilogue of a contraction, a
convolution or a pooling in no group, and an op next to a reduction in no group, are left to IREE,
which fuses them; so is an op for which IREE's code was measured to be as fast, and a tensor that is
computed from indices alone, as `arange`, where only groups read it whose kernels compute it again.
Nothing is grouped where Triton is missing. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.regions import enclosing
from mlirfuse.core import Match, NoMatch, PassContext, Reason
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.pointwise import profitability
from mlirfuse.kernels.pointwise.analysis import (
    PointwiseAnalysis,
    analyze,
    computes_from_indices,
)
from mlirfuse.structured.ir import fusable_neighbors, ops, slices


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds an op for which there is a kernel."""
    if not triton_compiler.supports(ctx.target) or not any(map(ops.users, root.results)):
        return None
    users = [user for value in root.results for user in ops.users(value)]
    if len(set(users)) == 1 and _may_join(users[0]) and root in _group(users[0], ctx):
        return NoMatch(Reason.LEFT_TO_PRODUCER, f"it joins {ops.described(users[0])}")
    if computes_from_indices(root) and all(map(_is_computed_again, users)):
        return NoMatch(Reason.LEFT_TO_PRODUCER, "the kernels that read it compute it from indices")
    group = _group(root, ctx)
    if len(group) > 1:
        return Match(root, tuple(group))
    refusal = profitability.refusal([root], ctx.target)
    return Match(root, (root,)) if refusal is None else refusal


def _is_computed_again(user: ir.Operation) -> bool:
    """Whether a user is in a group whose kernel computes what it reads from indices alone."""
    region = enclosing(user)
    return region is not None and isinstance(analyze(region), PointwiseAnalysis)


def _may_join(op: ir.Operation) -> bool:
    """Whether an op may be in a group with its elementwise neighbors."""
    return (
        ops.is_elementwise(op)
        and len(op.results) == 1
        and not ops.in_region(op)
        and not fusable_neighbors.is_fused_by_iree(op)
    )


def _group(root: ir.Operation, ctx: PassContext) -> list[ir.Operation]:
    """The op and the elementwise producers that only it uses, if one kernel computes them."""
    producers = slices.exclusive_producers([root], _may_join)
    group = [*producers, root]
    if not producers or slices.check(group, ctx.target.max_operands, on_demand=True) is not None:
        return [root]
    return group if profitability.refusal(group, ctx.target) is None else [root]


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Leaves an op to IREE that IREE fuses with another one."""
    for op in match.ops:
        if fusable_neighbors.is_fused_by_iree(op):
            text = "IREE fuses it with a contraction or a reduction in no group"
            return NoMatch(Reason.LEFT_TO_PRODUCER, text)
    return None


PASS = passes.group_pass(
    name="lone_elementwise_fusion",
    summary="Elementwise ops in no group, for a kernel",
    roots=("linalg.generic",),
    where=ops.is_elementwise,
    match=match,
    legal=legal,
    computes_on_demand=True,
)
