"""What the kernel passes share: a planned region as a match, building, and the replacement."""

from __future__ import annotations

import functools
from collections.abc import Callable

from iree.compiler import ir

from mlirfuse.core import (
    CompileFailedError,
    FusionPass,
    Kind,
    Match,
    NoMatch,
    Numerics,
    PassContext,
    Reason,
)
from mlirfuse.kernels import building, dispatch
from mlirfuse.kernels.provider import Plan
from mlirfuse.structured import ops

Supports = Callable[[ir.Operation, str], Plan | NoMatch | None]
"""Plans a kernel for a region and an architecture; None for another kind of region."""


def kernel_pass(name: str, summary: str, supports: Supports, source: str) -> FusionPass:
    """A pass that lets kernels compute regions, whichever pass formed them."""
    return FusionPass(
        name=name,
        summary=summary,
        roots=(ops.REGION,),
        match=functools.partial(_match, supports=supports),
        prepare=_prepare,
        rewrite=_rewrite,
        numerics=Numerics.REASSOCIATING,
        kind=Kind.REWRITE,
        feature="kernels",
        targets=frozenset({"cuda"}),
        source=source,
    )


def _match(region: ir.Operation, ctx: PassContext, supports: Supports) -> Match | NoMatch | None:
    """The match of a kernel pass at a region.

    On a target for which no kernels are built nothing is a match, and nothing is recorded.
    """
    if not building.supports(ctx.target):
        return None
    if len(set(region.operands)) > 1:
        return NoMatch(Reason.DYNAMIC_SHAPE, "the results have more than one dynamic size")
    plan = supports(region, ctx.target.arch)
    if not isinstance(plan, Plan):
        return plan
    bound = len(plan.operands) + len(region.results)
    if bound > ctx.target.max_operands:
        limit = ctx.target.max_operands
        return NoMatch(
            Reason.TOO_MANY_OPERANDS, f"{bound} operands and results, the limit is {limit}"
        )
    return Match(region, (region,), plan)


def _prepare(match: Match, ctx: PassContext) -> NoMatch | None:
    """Builds the kernel; what cannot be built leaves the region as it is."""
    refusal = building.missing()
    if refusal is not None:
        return refusal
    try:
        kernel = building.build(match.data.program, ctx.target.arch)
    except CompileFailedError as error:
        return NoMatch(Reason.FELL_BACK, str(error))
    limit = ctx.target.shared_memory
    if limit is not None and kernel.shared_memory > limit:
        return NoMatch(
            Reason.FELL_BACK,
            f"{kernel.shared_memory} bytes of workgroup memory, the limit is {limit}",
        )
    return None


def _rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Puts the built kernel in the place of the region."""
    kernel = building.build(match.data.program, ctx.target.arch)
    return dispatch.replace(match.root, match.data, kernel)
