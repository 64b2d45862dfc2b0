"""Passes that replace regions by kernels in the vector dialect."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from iree.compiler import ir

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
    **others: Any,
) -> FusionPass:
    """A pass that replaces regions by kernels, whichever pass formed them.

    Args:
      name: as of `FusionPass`.
      summary: as of `FusionPass`.
      plan: plans the kernel of a region.
      replace: replaces a region by the kernel of a plan.
      source: as of `FusionPass`.
      **others: further attributes of it, in place of those that such passes have.
    """
    common: dict[str, Any] = {
        "roots": (ops.REGION,),
        "match": functools.partial(match_region, plan=plan),
        "rewrite": lambda match, ctx: replace(match.root, match.data),
        "numerics": Numerics.REASSOCIATING,
        "kind": Kind.REWRITE,
        "feature": "kernels",
        "targets": frozenset({"cpu"}),
    }
    return FusionPass(name=name, summary=summary, source=source, **{**common, **others})
