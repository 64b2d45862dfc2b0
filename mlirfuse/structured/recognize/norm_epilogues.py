"""What follows a group of row reductions and can be computed in it: a norm's epilogue."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.ir import destination, fusable_neighbors, ops, slices
from mlirfuse.structured.ir.common_iteration_space import Space, common_space
from mlirfuse.structured.ir.legality import lowering_refusal
from mlirfuse.targets.base import Target


@dataclasses.dataclass(frozen=True, slots=True)
class Epilogue:
    """What goes into a group.

    Attributes:
      ops: the reshapes and elementwise ops, in block order.
      inner: the ops of the group that compute, in block order.
      space: what all of them are written over when a reshape lies between; None when none does.
    """

    ops: tuple[ir.Operation, ...]
    inner: tuple[ir.Operation, ...]
    space: Space | None


def reduces_rows(region: ir.Operation) -> bool:
    """Whether the group is made of generics with a reduction among them, and of no contraction."""
    inner = _inner(region)
    if not all(ops.is_generic(op) for op in inner):
        return False
    sums = [op for op in inner if not ops.is_elementwise(op)]
    return bool(sums) and not any(
        ops.is_contraction(op) or fusable_neighbors.has_window(op) for op in sums
    )


def find(region: ir.Operation, target: Target) -> Epilogue | NoMatch | None:
    """Finds the longest epilogue of the group's last op.

    Args:
      region: a group that `reduces_rows`.
      target: its limits.

    Returns:
      It; why the first op that reads the value stays outside; None when no such op is elementwise.
    """
    inner = _inner(region)
    ends = [v for v in region.results if ops.defining_op(ops.yielded_value(v)) == inner[-1]]
    if len(ends) != 1:
        return None
    limits = _Limits(
        fusable_neighbors.MAX_GROUP_OPS - len(inner), target.max_operands - len(region.results)
    )
    found = _grown(region, ends[0], limits, through_reshapes=True)
    if not isinstance(found, list):
        return found
    if not any(op.name in ops.RESHAPES for op in found):
        return Epilogue(tuple(found), inner, None)
    space = common_space([*inner, region, *found])
    refusal = lowering_refusal(space, target) if isinstance(space, Space) else space
    if isinstance(space, Space) and refusal is None:
        return Epilogue(tuple(found), inner, space)
    found = _grown(region, ends[0], limits, through_reshapes=False)
    return Epilogue(tuple(found), inner, None) if isinstance(found, list) else refusal


def _inner(region: ir.Operation) -> tuple[ir.Operation, ...]:
    """The ops of the group that compute."""
    held = [view.operation for view in ops.body(region).operations][:-1]
    return tuple(op for op in held if not slices.is_clonable(op))


def _grown(
    region: ir.Operation, end: ir.Value, limits: _Limits, *, through_reshapes: bool
) -> list[ir.Operation] | NoMatch | None:
    """The ops behind the value of which only the last is read elsewhere, and what only they read.

    Args:
      region: the group.
      end: its result that they read.
      limits: of what may come along.
      through_reshapes: whether reshapes may lie between.
    """
    taken: list[ir.Operation] = []
    values = [end]
    closed: list[ir.Operation] = []
    refusal: NoMatch | None = None
    while True:
        following = slices.first_user(values, set(taken), region.block)
        if following is None:
            break
        if following.name in ops.RESHAPES:
            if not through_reshapes:
                break
        else:
            if not _in_place(following, values):
                break
            refusal = _refusal(following, {region, *taken})
            if refusal is not None:
                break
        taken.append(following)
        values.append(following.results[0])
        if not _ends(following, values) or not _all_inside(values[:-1], {region, *taken}):
            continue
        whole = _with_feeders(taken)
        refusal = limits.passed(region, whole)
        if refusal is not None:
            break
        closed = whole
    return closed or refusal


@dataclasses.dataclass(frozen=True, slots=True)
class _Limits:
    """What a group can hold beside what it has.

    Attributes:
      ops: further ops.
      operands: operands of the whole group.
    """

    ops: int
    operands: int

    def passed(self, region: ir.Operation, epilogue: list[ir.Operation]) -> NoMatch | None:
        """Why the ops are too many for the group."""
        if len(epilogue) > self.ops:
            return NoMatch(Reason.TOO_MANY_OPS, f"more than {fusable_neighbors.MAX_GROUP_OPS} ops")
        count = len(slices.operands_of([region, *epilogue]))
        if count > self.operands:
            text = f"{count} operands, the limit beside the group's results is {self.operands}"
            return NoMatch(Reason.TOO_MANY_OPERANDS, text)
        return None


def _in_place(op: ir.Operation, values: list[ir.Value]) -> bool:
    """Whether the op is elementwise arithmetic that reads the values at its own loops."""
    if not ops.is_elementwise(op) or not fusable_neighbors.has_scalar_body(op) or ops.in_region(op):
        return False
    if len(op.results) != 1 or ops.reads_inits(op) or ops.moved_input(op) is not None:
        return False
    maps = ops.indexing_maps(op)
    rank = len(ops.iterator_types(op))
    if None in maps or not fusable_neighbors.is_identity(maps[-1], rank):
        return False
    read = [m for v, m in zip(op.operands, maps, strict=True) if v in values]
    return all(fusable_neighbors.is_identity(m, rank) for m in read)


def _refusal(op: ir.Operation, members: set[ir.Operation]) -> NoMatch | None:
    """Why the op stays with what else it reads: a contraction that it can be the epilogue of."""
    for value in ops.inputs(op):
        producer = ops.defining_op(ops.strip_views(value, ops.RESHAPES))
        if producer is None or producer in members or producer.block != op.block:
            continue
        computes = fusable_neighbors.is_compute(
            producer
        ) or fusable_neighbors.is_epilogue_of_compute(producer)
        # What the norm is computed from cannot take along what reads the norm.
        if computes and slices.cycle([producer, op]) is None:
            return NoMatch(Reason.LEFT_TO_PRODUCER, producer.name)
    return None


def _ends(op: ir.Operation, values: list[ir.Value]) -> bool:
    """Whether the op may be the last one: no reshape, and nothing that only widens elements.

    Whoever reads the narrow elements widens them on the way.
    """
    if op.name in ops.RESHAPES:
        return False
    read = [v for v in ops.inputs(op) if v in values]
    return ops.element_bits(op.results[0]) <= max(map(ops.element_bits, read))


def _all_inside(values: Iterable[ir.Value], members: set[ir.Operation]) -> bool:
    return all(user in members for value in values for user in ops.users(value))


def _with_feeders(taken: list[ir.Operation]) -> list[ir.Operation]:
    """The ops and the elementwise ones that only they read, in block order."""
    group = destination.with_feeders([op for op in taken if op.name not in ops.RESHAPES])
    return slices.in_order({*group, *taken})
