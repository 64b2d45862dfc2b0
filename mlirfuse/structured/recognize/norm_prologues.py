"""The elementwise ops in front of a group of row reductions, which only the group reads."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.structured.ir import fusable_neighbors, ops, slices
from mlirfuse.structured.ir.common_iteration_space import Space, common_space
from mlirfuse.structured.ir.legality import lowering_refusal
from mlirfuse.structured.recognize.norm_epilogues import Extension, Limits, inner_ops
from mlirfuse.targets.base import Target


def find(region: ir.Operation, target: Target) -> Extension | NoMatch | None:
    """Finds the elementwise producers that only the group uses, and the reshapes between them.

    Args:
      region: a group that `reduces_rows`.
      target: the target, for its limits.

    Returns:
      The prologue; a refusal of it; None for none.
    """
    inner = inner_ops(region)
    limits = Limits.of(region, inner, target)
    refusal: NoMatch | None = None
    for through_reshapes in (True, False):
        found = _producers(region, inner, through_reshapes=through_reshapes)
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
) -> list[ir.Operation]:
    """The producers, in block order, of which reshapes have producers among them.

    Args:
      region: the group.
      inner: its ops.
      through_reshapes: whether reshapes may lie between them.
    """
    members = set(inner)
    found: set[ir.Operation] = set()
    work = [*inner]
    while work:
        for value in work.pop().operands:
            op = ops.defining_op(value)
            if op is None or op in found or op.block != region.block:
                continue
            is_reshape = through_reshapes and op.name in ops.RESHAPES
            if not is_reshape and not _is_free(op):
                continue
            if all(user in members for result in op.results for user in ops.users(result)):
                found.add(op)
                members.add(op)
                work += members
    while idle := {op for op in found if op.name in ops.RESHAPES and not _has_producer(op, found)}:
        found -= idle
    return slices.in_order(found)


def _has_producer(op: ir.Operation, found: set[ir.Operation]) -> bool:
    return ops.defining_op(op.operands[0]) in found


def _is_free(op: ir.Operation) -> bool:
    """Whether an op is elementwise in its loops' order, and no contraction's epilogue."""
    if not ops.is_elementwise(op) or ops.in_region(op) or not fusable_neighbors.has_scalar_body(op):
        return False
    if len(op.results) != 1 or ops.reads_inits(op) or ops.moved_input(op) is not None:
        return False
    maps, rank = ops.indexing_maps(op), len(ops.iterator_types(op))
    if None in maps or not fusable_neighbors.is_identity(maps[-1], rank):
        return False
    return not fusable_neighbors.is_epilogue_of_compute(op)
