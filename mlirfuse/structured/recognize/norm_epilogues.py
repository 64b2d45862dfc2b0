"""Epilogues of groups of row reductions, as of a norm."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import destination, fusable_neighbors, ops, slices
from mlirfuse.structured.ir.common_iteration_space import Space, common_space
from mlirfuse.structured.ir.legality import legal_float, lowering_refusal
from mlirfuse.targets.base import Target


@dataclasses.dataclass(frozen=True, slots=True)
class Extension:
    """Neighbors that can be fused into a group: its epilogue, or its prologue.

    Attributes:
      ops: reshapes and elementwise ops, in block order.
      inner: the ops of the group except clonable ones, in block order.
      space: common iteration space if a reshape separates them; None without one.
    """

    ops: tuple[ir.Operation, ...]
    inner: tuple[ir.Operation, ...]
    space: Space | None


def reduces_rows(region: ir.Operation) -> bool:
    """Whether the group consists of generics with a row reduction and without a contraction."""
    inner = inner_ops(region)
    if not all(ops.is_generic(op) for op in inner):
        return False
    reductions = [op for op in inner if not ops.is_elementwise(op)]
    return bool(reductions) and not any(
        ops.is_contraction(op) or fusable_neighbors.has_window(op) for op in reductions
    )


def match_extension(
    region: ir.Operation, found: Extension | NoMatch | None
) -> Match | NoMatch | None:
    """The match of a group and the ops that are fused into it; a refusal, or None, as it is."""
    if not isinstance(found, Extension):
        return found
    return Match(region, tuple(slices.in_order([region, *found.ops])), found)


def legal_extension(match: Match, ctx: PassContext) -> NoMatch | None:
    """The `legal` of passes that extend a group: refuses element types that were not tested."""
    return legal_float(match, also=("i8", "i1"))


def find(region: ir.Operation, target: Target) -> Extension | NoMatch | None:
    """Finds the longest epilogue of the group's last op.

    Args:
      region: a group that `reduces_rows`.
      target: the target, for its limits.

    Returns:
      The epilogue; a refusal of the first user; None when the first user is not elementwise.
    """
    inner = inner_ops(region)
    ends = [v for v in region.results if ops.defining_op(ops.yielded_value(v)) == inner[-1]]
    if len(ends) != 1:
        return None
    limits = Limits.of(region, inner, target)
    found = _grown(region, ends[0], limits, through_reshapes=True)
    if not isinstance(found, list):
        return found
    if not any(op.name in ops.RESHAPES for op in found):
        return Extension(tuple(found), inner, None)
    space = common_space([*inner, region, *found])
    refusal = lowering_refusal(space, target) if isinstance(space, Space) else space
    if isinstance(space, Space) and refusal is None:
        return Extension(tuple(found), inner, space)
    found = _grown(region, ends[0], limits, through_reshapes=False)
    return Extension(tuple(found), inner, None) if isinstance(found, list) else refusal


def inner_ops(region: ir.Operation) -> tuple[ir.Operation, ...]:
    """The ops of the group except clonable ones and constants."""
    held = [view.operation for view in ops.body(region).operations][:-1]
    return tuple(op for op in held if not slices.is_clonable(op) and op.name != "arith.constant")


def _grown(
    region: ir.Operation, end: ir.Value, limits: Limits, *, through_reshapes: bool
) -> list[ir.Operation] | NoMatch | None:
    """The longest epilogue with one outside result, and its exclusive producers.

    Args:
      region: the group.
      end: the result of the group that the epilogue reads.
      limits: limits of the group's size.
      through_reshapes: whether the epilogue may include reshapes.
    """
    taken: list[ir.Operation] = []
    values = [end]
    fusable: list[ir.Operation] = []
    refusal: NoMatch | None = None
    while True:
        user = slices.first_user(values, set(taken), region.block)
        if user is None:
            break
        if user.name in ops.RESHAPES:
            if not through_reshapes:
                break
        else:
            if not _in_place(user, values):
                break
            refusal = _refusal(user, {region, *taken})
            if refusal is not None:
                break
        taken.append(user)
        values.append(user.results[0])
        # Others may read the narrow elements, too, which then are a result.
        ends = fusable_neighbors.widens_bits(user) or (
            _ends(user, values) and _all_inside(values[:-1], {region, *taken})
        )
        if not ends:
            continue
        whole = _with_feeders(taken)
        refusal = limits.refusal(region, whole)
        if refusal is not None:
            break
        fusable = whole
    return fusable or refusal


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a group.

    Attributes:
      ops: number of additional ops.
      operands: number of operands of the whole group.
    """

    ops: int
    operands: int

    @staticmethod
    def of(region: ir.Operation, inner: Sequence[ir.Operation], target: Target) -> Limits:
        """The limits of a group with so many ops."""
        return Limits(
            fusable_neighbors.MAX_GROUP_OPS - len(inner), target.max_operands - len(region.results)
        )

    def refusal(self, region: ir.Operation, added: list[ir.Operation]) -> NoMatch | None:
        """A refusal if the group with these ops exceeds the limits."""
        if len(added) > self.ops:
            return NoMatch(Reason.TOO_MANY_OPS, f"more than {fusable_neighbors.MAX_GROUP_OPS} ops")
        count = len(slices.operands_of([region, *added]))
        if count > self.operands:
            text = f"{count} operands, the limit without the group's results is {self.operands}"
            return NoMatch(Reason.TOO_MANY_OPERANDS, text)
        return None


def _in_place(op: ir.Operation, values: list[ir.Value]) -> bool:
    """Whether the op is elementwise arithmetic that reads the values at its own loops."""
    if not fusable_neighbors.is_elementwise_in_order(op):
        return False
    read = zip(op.operands, ops.indexing_maps(op), strict=True)
    rank = len(ops.iterator_types(op))
    return all(fusable_neighbors.is_identity(m, rank) for v, m in read if v in values)


def _refusal(op: ir.Operation, members: set[ir.Operation]) -> NoMatch | None:
    """A refusal if the op can be the epilogue of a contraction among its producers."""
    for value in ops.inputs(op):
        producer = ops.defining_op(ops.strip_views(value, ops.RESHAPES))
        if producer is None or producer in members or producer.block != op.block:
            continue
        computes = fusable_neighbors.is_compute(
            producer
        ) or fusable_neighbors.is_epilogue_of_compute(producer)
        # A producer of the norm cannot be fused with a user of the norm.
        if computes and slices.cycle([producer, op]) is None:
            return NoMatch(Reason.LEFT_TO_PRODUCER, producer.name)
    return None


def _ends(op: ir.Operation, values: list[ir.Value]) -> bool:
    """Whether the op may be the last one: no reshape, and no op that only widens elements.

    Users of the narrow elements widen them at no cost.
    """
    if op.name in ops.RESHAPES:
        return False
    read = [v for v in ops.inputs(op) if v in values]
    return ops.element_bits(op.results[0]) <= max(map(ops.element_bits, read))


def _all_inside(values: Iterable[ir.Value], members: set[ir.Operation]) -> bool:
    return all(user in members for value in values for user in ops.users(value))


def _with_feeders(taken: list[ir.Operation]) -> list[ir.Operation]:
    """The ops and the elementwise producers that only they use, in block order."""
    group = destination.with_feeders([op for op in taken if op.name not in ops.RESHAPES])
    return slices.in_order({*group, *taken})
