"""Contractions: what follows them elementwise, and what their operands are views of."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.structured import ops, slices
from mlirfuse.structured.expressions import Element, Index, Part, step_through

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


def bias(op: ir.Operation, value: ir.Value) -> ir.Value | None:
    """The rank-1 addend, perhaps split, when the op adds one to `value`, else None."""
    names = [o.operation.name for o in ops.body(op).operations]
    if [n for n in names if n not in ("arith.extf", "arith.truncf")] not in (
        ["arith.addf", "linalg.yield"],
        ["arith.addi", "linalg.yield"],
    ):
        return None
    others = [
        (v, m) for v, m in zip(ops.inputs(op), ops.indexing_maps(op), strict=False) if v != value
    ]
    if len(others) != 1:
        return None
    addend, index_map = others[0]
    expand = ops.defining_op(addend)
    if expand is not None and expand.name == "tensor.expand_shape":
        return addend if len(ops.shape(expand.operands[0])) == 1 else None
    return addend if index_map is not None and len(index_map) == 1 else None


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
