"""The elementwise ops in front of a group of row reductions, which only the group reads."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.structured.ir import fusable_neighbors, ops, slices
from mlirfuse.structured.ir.common_iteration_space import Space, common_space
from mlirfuse.structured.ir.legality import lowering_refusal
from mlirfuse.structured.recognize.norm_epilogues import (
    Extension,
    Limits,
    inner_ops,
)
from mlirfuse.targets.base import Target


def find(
    region: ir.Operation, target: Target, *, gathers: bool = False
) -> Extension | NoMatch | None:
    """Finds the elementwise producers that only the group uses, and the reshapes between them.

    Args:
      region: a group that `reduces_rows`.
      target: the target, for its limits.
      gathers: whether elements at computed indices may be among them.

    Returns:
      The prologue; a refusal of it; None for none.
    """
    inner = inner_ops(region)
    limits = Limits.of(region, inner, target)
    refusal: NoMatch | None = None
    for through_reshapes in (True, False):
        found = _producers(region, inner, through_reshapes=through_reshapes, gathers=gathers)
        if not found:
            continue
        refusal = limits.refusal(region, found)
        if refusal is not None:
            continue
        if not any(op.name in ops.RESHAPES for op in found):
            return Extension(tuple(found), inner, None)
        space = common_space([*found, *inner])
        unlowered = lowering_refusal(space, target) if isinstance(space, Space) else space
        if isinstance(space, Space) and unlowered is None:
            return Extension(tuple(found), inner, space)
        refusal = unlowered
    return refusal


def _producers(
    region: ir.Operation,
    inner: Sequence[ir.Operation],
    *,
    through_reshapes: bool,
    gathers: bool,
) -> list[ir.Operation]:
    """The producers, in block order, of which reshapes have producers among them.

    Args:
      region: the group.
      inner: its ops.
      through_reshapes: whether reshapes may lie between them.
      gathers: whether elements at computed indices may be among them.
    """

    def accepts(op: ir.Operation) -> bool:
        reshapes = through_reshapes and op.name in ops.RESHAPES
        return reshapes or fusable_neighbors.is_free_elementwise(op, gathers=gathers)

    found = slices.exclusive_producers(inner, accepts, block=region.block)
    kept: list[ir.Operation] = []
    for op in found:
        source = ops.defining_op(op.operands[0])
        if op.name not in ops.RESHAPES or (source is not None and source in kept):
            kept.append(op)
    return kept
