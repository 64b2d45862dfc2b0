"""Passes that replace regions by kernels in the vector dialect."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from iree.compiler import ir

from mlirfuse.builders import form_region, ungroup
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, Numerics, PassContext
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice

Planner = Callable[[ir.Operation, CpuDevice], Any]
"""Plans the kernel of a region for a CPU; a `NoMatch`, or None for another kind of region."""


def match_region(root: ir.Operation, ctx: PassContext, plan: Planner) -> Match | NoMatch | None:
    """The match of a region whose kernel can be planned."""
    if ctx.target.cpu is None or not root.results:
        return None
    found = plan(root, ctx.target.cpu)
    return found if found is None or isinstance(found, NoMatch) else Match(root, (root,), found)


def kernel_pass(
    name: str,
    summary: str,
    plan: Planner,
    replace: Callable[[ir.Operation, Any], ir.Operation],
    source: str,
    form: Callable[[list[ir.Operation]], ir.Operation] = form_region,
    core: Callable[[ir.Operation], bool] | None = None,
    **others: Any,
) -> FusionPass:
    """A pass that replaces regions by kernels, whichever pass formed them.

    A match without a plan is one of ops in no group. They get a region first; where kernels cannot
    compute it, one of the op of the match that is no neighbor, if there is one, else it stays.

    Args:
      name: as of `FusionPass`.
      summary: as of `FusionPass`.
      plan: plans the kernel of a region.
      replace: replaces a region by the kernel of a plan.
      source: as of `FusionPass`.
      form: makes a region of ops in no group.
      core: whether an op is the one that the others are neighbors of.
      **others: further attributes of it, in place of those that such passes have.
    """
    common: dict[str, Any] = {
        "roots": (ops.REGION,),
        "match": functools.partial(match_region, plan=plan),
        "rewrite": functools.partial(_rewrite, plan=plan, replace=replace, form=form, core=core),
        "numerics": Numerics.REASSOCIATING,
        "kind": Kind.REWRITE,
        "feature": "kernels",
        "targets": frozenset({"cpu"}),
    }
    return FusionPass(name=name, summary=summary, source=source, **{**common, **others})


def _rewrite(
    match: Match,
    ctx: PassContext,
    plan: Planner,
    replace: Callable[[ir.Operation, Any], ir.Operation],
    form: Callable[[list[ir.Operation]], ir.Operation],
    core: Callable[[ir.Operation], bool] | None,
) -> ir.Operation:
    region, planned = match.root, match.data
    if planned is None:
        assert ctx.target.cpu is not None
        region = form(list(match.ops))
        planned = plan(region, ctx.target.cpu)
        if isinstance(planned, NoMatch) and core is not None and len(match.ops) > 1:
            block = region.regions[0].blocks[0]
            alone = next(o.operation for o in block.operations if core(o.operation))
            ungroup(region)
            region = form([alone])
            planned = plan(region, ctx.target.cpu)
    return region if planned is None or isinstance(planned, NoMatch) else replace(region, planned)
