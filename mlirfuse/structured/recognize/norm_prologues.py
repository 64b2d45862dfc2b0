"""The elementwise ops in front of a group of row reductions, which only the group reads."""

from __future__ import annotations

import itertools
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
    region: ir.Operation, target: Target, *, gathers: bool = False, shares: bool = False
) -> Extension | NoMatch | None:
    """Finds the elementwise producers that only the group uses, and the reshapes between them.

    Args:
      region: a group that `reduces_rows`.
      target: the target, for its limits.
      gathers: whether elements at computed indices may be among them.
      shares: whether ops behind the group may read a producer of whole rows, too: it becomes a
        result, as the embeddings that a norm and a residual connection read.

    Returns:
      The prologue; a refusal of it; None for none.
    """
    inner = inner_ops(region)
    limits = Limits.of(region, inner, target)
    refusal: NoMatch | None = None
    shared = _other_users(region, inner) if shares else {}
    forms = [shared, {}] if shared else [{}]
    for through_reshapes, others in itertools.product((True, False), forms):
        found = _producers(
            region, inner, others, through_reshapes=through_reshapes, gathers=gathers
        )
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


def _other_users(
    region: ir.Operation, inner: Sequence[ir.Operation]
) -> dict[ir.Operation, list[ir.Operation]]:
    """The users behind the group of producers of its whole rows, in the order of the producers."""
    members, found = set(inner), dict[ir.Operation, list[ir.Operation]]()
    elements = max(ops.num_elements(value) for op in inner for value in op.operands)
    for value in (value for op in inner for value in op.operands):
        op = ops.defining_op(value)
        if op is None or op in members or op.block != region.block:
            continue
        others = [user for user in ops.users(value) if user not in members]
        around = [ops.ancestor_in(region.block, user) for user in others]
        behind = all(op is not None and region.is_before_in_block(op) for op in around)
        if others and behind and ops.num_elements(value) == elements:
            found[op] = others
    return found


def _producers(
    region: ir.Operation,
    inner: Sequence[ir.Operation],
    others: dict[ir.Operation, list[ir.Operation]],
    *,
    through_reshapes: bool,
    gathers: bool,
) -> list[ir.Operation]:
    """The producers, in block order, of which reshapes have producers among them.

    Args:
      region: the group.
      inner: its ops.
      others: users behind the group that a producer may have.
      through_reshapes: whether reshapes may lie between them.
      gathers: whether elements at computed indices may be among them.
    """

    def accepts(op: ir.Operation) -> bool:
        reshapes = through_reshapes and op.name in ops.RESHAPES
        return reshapes or fusable_neighbors.is_free_elementwise(op, gathers=gathers)

    behind = {user for users in others.values() for user in users}
    found = slices.exclusive_producers(inner, accepts, behind, region.block)
    if any(behind.intersection(ops.users(op.results[0])) and op not in others for op in found):
        return []
    kept: list[ir.Operation] = []
    for op in found:
        source = ops.defining_op(op.operands[0])
        if op.name not in ops.RESHAPES or (source is not None and source in kept):
            kept.append(op)
    return kept
