"""Contractions: what follows them elementwise, and what their operands are views of."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection

from iree.compiler import ir

from mlirfuse.core import Match, PassContext
from mlirfuse.structured import activations, ops, slices
from mlirfuse.structured.expressions import (
    PRODUCT_NODES,
    Apply,
    Element,
    Expr,
    Index,
    Part,
    source,
    start,
    step_through,
)

ROOTS = ("linalg.generic", *sorted(ops.NAMED_CONTRACTIONS))
"""Names of the ops at which passes look for a contraction."""


def epilogue(contraction: ir.Operation, max_operands: int) -> list[ir.Operation]:
    """The elementwise ops that follow the contraction and can be generated with it, in order.

    Each has the contraction's iteration space and reads it at its own loops; the last may permute
    them. The ops are a closed set: only the value of the last one is read elsewhere. The longest
    such set whose dispatch takes no more than `max_operands` operands and results is returned.
    """
    group = [contraction]
    closed = 1
    while True:
        following = _next_reader(group)
        if following is None or not _continues(following, group):
            break
        group.append(following)
        visible = slices.results_of(group)
        if visible == [following.results[0]]:
            if len(slices.operands_of(group)) + 1 > max_operands:
                break
            closed = len(group)
        if not _in_place(following, group):
            break
    return group[1:closed]


def _next_reader(group: list[ir.Operation]) -> ir.Operation | None:
    """The first op in the block that reads the group and is not of it."""
    members, first = set(group), None
    block = group[0].block
    for op in group:
        for result in op.results:
            for user in ops.users(result):
                outer = ops.ancestor_in(block, user)
                if outer is None or outer in members:
                    continue
                if first is None or outer.is_before_in_block(first):
                    first = outer
    return first


def _continues(op: ir.Operation, group: list[ir.Operation]) -> bool:
    if not ops.is_elementwise(op) or len(op.results) != 1 or ops.reads_index(op):
        return False
    space = sorted(map(str, ops.shape(group[0].results[0])))
    return sorted(map(str, ops.shape(op.results[0]))) == space


def _in_place(op: ir.Operation, group: list[ir.Operation]) -> bool:
    """Whether the op reads every value of the group at the loops where it writes."""
    values = {result for member in group for result in member.results}
    maps = ops.indexing_maps(op)
    return all(m == maps[-1] for v, m in zip(op.operands, maps, strict=True) if v in values)


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


def has_activation(group: list[ir.Operation], names: Collection[str]) -> bool:
    """Whether the epilogue computes one of the activations of a value of the group."""
    values = [op.results[0] for op in group]
    return any(activations.may_hold_one(op, names) for op in group[1:]) and any(
        activations.classify(start(after), start(before), names) is not None
        for i, before in enumerate(values)
        for after in values[i + 1 :]
        if ops.shape(before) == ops.shape(after)
    )


def has_addend(group: list[ir.Operation], accepts: Callable[[Element], bool]) -> bool:
    """Whether the epilogue starts with a sum of the contraction and an accepted tensor."""
    for op in group[1:]:
        added = addends(start(op.results[0]), group[0].results[0])
        if added is None:
            return False
        if any(isinstance(a, Element) and accepts(a) for a in map(source, added)):
            return True
    return False


_SUMS = frozenset({"arith.addf", "arith.addi"})
_CASTS = frozenset({"arith.extf", "arith.truncf", "arith.extsi", "arith.trunci"})


def addends(expr: Expr, value: ir.Value) -> list[Expr] | None:
    """What is added to the value to make the expression, casts left out; None for another form."""
    known: dict[int, list[Expr] | None] = {}

    def walk(expr: Expr) -> list[Expr] | None:
        while isinstance(expr, Element):
            if expr.value == value:
                return []
            step = step_through(expr)
            if step is None:
                return None
            expr = step
        if id(expr) not in known:
            known[id(expr)] = look(expr) if len(known) < PRODUCT_NODES else None
        return known[id(expr)]

    def look(expr: Expr) -> list[Expr] | None:
        if not isinstance(expr, Apply):
            return None
        if expr.op in _CASTS:
            return walk(expr.args[0])
        if expr.op not in _SUMS:
            return None
        for one, other in (expr.args, expr.args[::-1]):
            below = walk(one)
            if below is not None:
                return [*below, other]
        return None

    return walk(expr)


def is_bias(addend: Element) -> bool:
    """Whether the addend has one value per index of one dimension, perhaps split in several."""
    op = ops.defining_op(addend.value)
    if op is not None and op.name == "tensor.expand_shape":
        return len(ops.shape(op.operands[0])) == 1
    return len(addend.index) == 1


def is_residual(addend: Element, rank: int) -> bool:
    """Whether the addend has a value of its own at each of `rank` loops."""
    return {i for i in addend.index if isinstance(i, int)} == set(range(rank))


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """What a contraction's operand is a view of.

    Attributes:
      source: the tensor in memory.
      index: its indices in terms of the contraction's loops: a loop, or one digit of a loop.
      moved: the ops that only move data and need not run when the source is read directly.
    """

    source: ir.Value
    index: tuple[Index, ...]
    moved: tuple[ir.Operation, ...]


def view(contraction: ir.Operation, number: int) -> View | None:
    """Looks through transposes and collapsing reshapes that feed an operand.

    Returns:
      The view through the last transpose found, or None when there is none.
    """
    index_map = ops.indexing_maps(contraction)[number]
    if index_map is None or None in index_map:
        return None
    element = Element(contraction.operands[number], tuple(index_map))
    moved: list[ir.Operation] = []
    best: View | None = None
    while True:
        op = ops.defining_op(element.value)
        step = step_through(element)
        if op is None or not isinstance(step, Element) or op.block != contraction.block:
            return best
        if not (op.name in ops.RESHAPES or ops.is_projection(op)) or ops.in_region(op):
            return best
        moved.append(op)
        if len(step.index) < len(element.index) or not all(map(_simple, step.index)):
            return best
        if ops.is_projection(op):
            best = View(step.value, step.index, tuple(moved))
        element = step


def _simple(index: Index) -> bool:
    return isinstance(index, int) or (isinstance(index, Part) and isinstance(index.index, int))


DATA_TILING_HINT = "iree.opt.data_tiling"
"""Attribute that has IREE pack the operands of a contraction; with one, only those with it."""


def has_hints(module: ir.Module) -> bool:
    """Whether a contraction of the module is marked for IREE's data tiling."""
    return any(
        DATA_TILING_HINT in op.attributes
        for function in ops.functions(module)
        for block in ops.blocks(function)
        for outer in block.operations
        for op in (outer.operation, *_grouped(outer.operation))
    )


def _grouped(op: ir.Operation) -> list[ir.Operation]:
    """The ops of a group; none for an op that is no group."""
    if op.name != ops.REGION:
        return []
    return [o.operation for o in op.regions[0].blocks[0].operations]


def batch_loops(op: ir.Operation) -> frozenset[int]:
    """The loops that index both inputs and the result."""
    maps = [set(m or ()) for m in ops.indexing_maps(op)]
    return frozenset(d for d in set.intersection(*maps) if d is not None)
