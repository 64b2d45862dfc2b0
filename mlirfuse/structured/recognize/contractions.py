"""Contractions as roots of passes."""

from __future__ import annotations

from collections.abc import Callable

from iree.compiler import ir

from mlirfuse.core import Match, PassContext
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.epilogues import epilogue, with_producers

ROOTS = ("linalg.generic", *sorted(ops.NAMED_CONTRACTIONS))
"""Names of the ops at which passes look for a contraction."""


def match_with_epilogue(
    root: ir.Operation, ctx: PassContext, accepts: Callable[[list[ir.Operation]], bool]
) -> Match | None:
    """The match of a contraction with its epilogue, if the epilogue is accepted.

    Args:
      root: any op.
      ctx: context of the pass; its target limits the operands of a dispatch.
      accepts: predicate on the contraction followed by its epilogue.
    """
    if not ops.is_contraction(root):
        return None
    group = [root, *epilogue(root, ctx.target.max_operands)]
    if len(group) == 1 or not accepts(group):
        return None
    return Match(root, tuple(with_producers(group, ctx.target.max_operands)))


def batch_loops(op: ir.Operation) -> frozenset[int]:
    """The batch loops of a contraction: those that index both inputs and the result."""
    maps = [set(m or ()) for m in ops.indexing_maps(op)]
    return frozenset(d for d in set.intersection(*maps) if d is not None)
