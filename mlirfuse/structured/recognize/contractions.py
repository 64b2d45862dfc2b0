"""Contractions: what follows them elementwise, and what their operands are views of."""

from __future__ import annotations

from collections.abc import Callable

from iree.compiler import ir

from mlirfuse.core import Match, PassContext
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.epilogues import epilogue

ROOTS = ("linalg.generic", *sorted(ops.NAMED_CONTRACTIONS))
"""Names of the ops at which passes look for a contraction."""


def matched(
    root: ir.Operation, ctx: PassContext, accepts: Callable[[list[ir.Operation]], bool]
) -> Match | None:
    """The contraction with its epilogue, when there is one and it is accepted.

    Args:
      root: any op.
      ctx: the target limits the operands.
      accepts: says whether the contraction and the epilogue behind it are what the pass is for.
    """
    if not ops.is_contraction(root):
        return None
    group = [root, *epilogue(root, ctx.target.max_operands)]
    return Match(root, tuple(group)) if len(group) > 1 and accepts(group) else None


def batch_loops(op: ir.Operation) -> frozenset[int]:
    """The loops that index both inputs and the result."""
    maps = [set(m or ()) for m in ops.indexing_maps(op)]
    return frozenset(d for d in set.intersection(*maps) if d is not None)
