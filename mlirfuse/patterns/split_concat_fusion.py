"""Turn the concatenation of all slices of a split, along another axis, into one transpose.

    %a = tensor.extract_slice %x[0, 0] [P, W] [1, 1]   tensor<(2*P)xWxT> to tensor<PxWxT>
    %b = tensor.extract_slice %x[P, 0] [P, W] [1, 1]
    %i = tensor.insert_slice %a into %empty[0, 0]      tensor<Px(2*W)xT>
    %y = tensor.insert_slice %b into %i[0, W]
  becomes
    %e = tensor.expand_shape %x [[0, 1], [2]]          tensor<2xPxWxT>
    %t = linalg.generic {copy} ins(%e)                 tensor<Px2xWxT>
    %y = tensor.collapse_shape %t [[0], [1, 2]]        tensor<Px(2*W)xT>

Root: the last insertion. Two slices or more of one size, all of the tensor's, in order; split on
one axis, concatenated on another. Static sizes; any element type. Numerics: exact (nothing is
computed). IREE copies each slice in a dispatch of its own.
Source: MindSpore split_concat_fusion.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import ops, slices


@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
    """A split tensor.

    Attributes:
      source: the tensor.
      count: number of slices.
      split: axis of the split.
      concat: axis of the concatenation.
    """

    source: ir.Value
    count: int
    split: int
    concat: int


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the slices of a split that are inserted one after another."""
    if any(user.name == "tensor.insert_slice" for user in ops.users(root.results[0])):
        return None
    inserts = _chain(root)
    cuts = [ops.defining_op(op.operands[0]) for op in inserts]
    found = [cut for cut in cuts if cut is not None and cut.name == "tensor.extract_slice"]
    if len(inserts) < 2 or len(found) < len(inserts):
        return None
    if len({cut.operands[0] for cut in found}) > 1:
        return None
    plan = _plan(found, inserts)
    if not isinstance(plan, _Plan):
        return plan
    alone = [cut for cut in found if len(ops.users(cut.results[0])) == 1]
    return Match(root, tuple(slices.in_order([*alone, *inserts])), plan)


def _chain(root: ir.Operation) -> list[ir.Operation]:
    """The insertions that end in the root, the first one first."""
    chain = [root]
    while True:
        op = ops.defining_op(chain[0].operands[1])
        if op is None or op.name != "tensor.insert_slice" or op.block != root.block:
            return chain
        if len(ops.users(op.results[0])) > 1:
            return chain
        chain.insert(0, op)


def _plan(cuts: list[ir.Operation], inserts: list[ir.Operation]) -> _Plan | NoMatch | None:
    whole, source = ops.shape(inserts[-1].results[0]), cuts[0].operands[0]
    part, count = ops.shape(cuts[0].results[0]), len(cuts)
    taken = [ops.static_slice(cut) for cut in cuts]
    placed = [ops.static_insert(op) for op in inserts]
    if None in (*taken, *placed, *part, *whole, *ops.shape(source)):
        return NoMatch(Reason.DYNAMIC_SHAPE, "a slice's offset or size is not static")
    if not len(part) == len(whole) == len(ops.shape(source)) or any(
        cut.results[0].type != cuts[0].results[0].type for cut in cuts
    ):
        return NoMatch(Reason.SHAPE_MISMATCH, "the slices have different shapes")
    starts = [[offset for offset, _ in boxes] for boxes in taken if boxes is not None]
    ends = [list(offsets) for offsets, _ in (box for box in placed if box is not None)]
    split, concat = _axis(part, ops.shape(source), count), _axis(part, whole, count)
    if split is None or concat is None or split == concat:
        return NoMatch(Reason.STRUCTURE, "the slices are not all of one tensor along one axis")
    if starts != _offsets(part, split, count) or ends != _offsets(part, concat, count):
        return NoMatch(Reason.STRUCTURE, "the slices are not in order")
    return _Plan(source, count, split, concat)


def _axis(part: tuple[int | None, ...], whole: tuple[int | None, ...], count: int) -> int | None:
    """The one dimension along which `count` slices cover the whole."""
    longer = [d for d, (a, b) in enumerate(zip(part, whole, strict=True)) if a != b]
    if len(longer) != 1 or (part[longer[0]] or 0) * count != whole[longer[0]]:
        return None
    return longer[0]


def _offsets(part: tuple[int | None, ...], axis: int, count: int) -> list[list[int]]:
    """The offsets of the slices in order along the axis."""
    size = part[axis] or 0
    return [[n * size if d == axis else 0 for d in range(len(part))] for n in range(count)]


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Each slice is a contiguous box."""
    if all(ops.has_unit_strides(op) for op in match.ops):
        return None
    return NoMatch(Reason.STRUCTURE, "a slice is written with non-unit strides")


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Expands the split axis, transposes its outer part before the other axis, and merges them."""
    plan: _Plan = match.data
    root, rank = match.root, len(ops.shape(plan.source))
    sizes = list(ops.shape(plan.source))
    size = sizes[plan.split]
    assert size is not None
    sizes[plan.split : plan.split + 1] = [plan.count, size // plan.count]
    # Dimension d of the source is at `moved_to[d]`; the slice index stands before the split axis.
    moved_to = [d if d < plan.split else d + 1 for d in range(rank)]
    order = [
        n
        for d in range(rank)
        for n in ([plan.split, moved_to[d]] if d == plan.concat else [moved_to[d]])
    ]
    locations = [op.location for op in match.ops]
    with ir.InsertionPoint(root), ir.Location.fused(locations, context=root.context):
        wide = builders.expand(plan.source, builders.split_axis(rank, plan.split), sizes)
        moved = builders.transpose(wide, [order.index(n) for n in range(rank + 1)])
        merged = builders.collapse(moved, builders.split_axis(rank, plan.concat))
    root.results[0].replace_all_uses_with(merged)
    for op in reversed(match.ops):
        op.erase()
    made: ir.Operation = moved.owner.operation
    return made


PASS = FusionPass(
    name="split_concat_fusion",
    summary="Concatenation of all slices of a split becomes a transpose",
    roots=("tensor.insert_slice",),
    match=match,
    legal=legal,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    source="MindSpore split_concat_fusion",
)
