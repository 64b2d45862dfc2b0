"""Elementwise ops over the dimensions that an adjacent reshape splits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders import destination_builder
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize.gathers import Gathered


def over_one_space(found: Gathered) -> list[ir.Operation]:
    """The ops without the reshape between them, in block order."""
    reshape, before = found.reshape, list(found.before)
    if reshape is None:
        return slices.in_order([*before, found.gather, *found.chain])
    if reshape.name == "tensor.expand_shape":
        kept = [op for op in before if op.name not in ops.RESHAPES]
        return slices.in_order([*kept, widen(reshape, found.gather), *found.chain])
    return [*before, found.gather, *unmerge(reshape, found.chain)]


def form_unmerged_region(group: list[ir.Operation]) -> ir.Operation:
    """A region of an op and its epilogue; a `tensor.collapse_shape` of its result moves behind it.

    Args:
      group: the op, perhaps the reshape, and elementwise ops, in block order.
    """
    root, *rest = group
    if rest and rest[0].name == "tensor.collapse_shape":
        rest = unmerge(rest[0], rest[1:])
    return builders.form_region([root, *rest])


def unmerge(merged: ir.Operation, tail: Sequence[ir.Operation]) -> list[ir.Operation]:
    """Moves a collapsing reshape after the elementwise ops that use it.

    Args:
      merged: a `tensor.collapse_shape`; erased.
      tail: elementwise ops of one result, in block order, with identity maps for their results and
        for values computed from the reshape, that do not read their inits; erased.

    Returns:
      The ops on the wider space.
    """
    groups = ops.reassociation(merged)
    sizes = ops.shape(merged.operands[0])
    wide = {merged.results[0]: merged.operands[0]}
    made = []
    for op in tail:
        made.append(_widened(op, groups, sizes, wide))
        wide[op.results[0]] = made[-1].results[0]
    last = tail[-1]
    with ir.InsertionPoint(last), last.location:
        builders.replace_collapsed(last.results[0], wide[last.results[0]], groups)
    for op in (*reversed(tail), merged):
        op.erase()
    return made


def widen(expand: ir.Operation, op: ir.Operation) -> ir.Operation:
    """Moves an expanding reshape before its producer, which is computed on the split dimensions.

    Args:
      expand: a `tensor.expand_shape`; erased.
      op: its producer: elementwise, as for `unmerge`; may read the index of a loop that is not
        split. Erased when it has no other user, with the reshapes that only it used.

    Returns:
      The op on the wider space.
    """
    wide = _widened(op, ops.reassociation(expand), ops.shape(expand.results[0]), {})
    expand.results[0].replace_all_uses_with(wide.results[0])
    expand.erase()
    if not ops.users(op.results[0]):
        inputs = ops.inputs(op)
        op.erase()
        for source in map(ops.defining_op, inputs):
            if source is not None and source.name in ops.RESHAPES and is_unused(source):
                source.erase()
    return wide


def sink_collapse(collapse: ir.Operation, op: ir.Operation) -> ir.Operation:
    """Moves a collapsing reshape after one of the elementwise ops that use it.

    Args:
      collapse: a `tensor.collapse_shape`; left where it has other users.
      op: the user: elementwise, as for `unmerge`, over the dimensions of the reshape; erased.

    Returns:
      The op on the wider space.
    """
    groups, source = ops.reassociation(collapse), collapse.operands[0]
    wide = _widened(op, groups, ops.shape(source), {collapse.results[0]: source})
    with ir.InsertionPoint(op), op.location:
        builders.replace_collapsed(op.results[0], wide.results[0], groups)
    op.erase()
    return wide


def hoist_expansions(
    expands: Sequence[ir.Operation], group: Sequence[ir.Operation]
) -> ir.Operation:
    """Moves equal expanding reshapes before the ops that compute what they expand.

    Args:
      expands: `tensor.expand_shape` ops of one reassociation; erased.
      group: elementwise ops, as for `unmerge`, in block order, whose results only they and these
        reshapes use; erased.

    Returns:
      The last op, on the wider space.
    """
    groups, sizes = ops.reassociation(expands[0]), ops.shape(expands[0].results[0])
    wide: dict[ir.Value, ir.Value] = {}
    for op in group:
        made = _widened(op, groups, sizes, wide)
        wide[op.results[0]] = made.results[0]
    for expand in expands:
        expand.results[0].replace_all_uses_with(wide[expand.operands[0]])
    for op in (*expands, *reversed(group)):
        op.erase()
    return made


def insert_split(
    part: ir.Value, whole: ir.Value, boxes: Sequence[Sequence[tuple[int, int]]]
) -> ir.Value:
    """`tensor.insert_slice` of a static part into a tensor with its dimensions split.

    Args:
      part: the part, which may lack dimensions of one element.
      whole: the tensor, with several dimensions in place of each.
      boxes: for each dimension of the part the start and size along those in its place.
    """
    sizes = [math.prod(size for _, size in dims) for dims in boxes]
    kept = [boxes[dim] for dim in ops.kept_dimensions(sizes, ops.shape(part))]
    if any(len(dims) > 1 for dims in kept):
        count = itertools.count()
        groups = [[next(count) for _ in dims] for dims in kept]
        part = builders.expand(part, groups, [size for dims in kept for _, size in dims])
    starts, box = zip(*itertools.chain(*boxes), strict=True)
    return destination_builder.insert(part, whole, starts, box=box).results[0]


def is_unused(op: ir.Operation) -> bool:
    """Whether the op's results have no users."""
    return not any(ops.users(result) for result in op.results)


def _widened(
    op: ir.Operation,
    groups: Sequence[Sequence[int]],
    sizes: Sequence[int | None],
    wide: dict[ir.Value, ir.Value],
) -> ir.Operation:
    """The elementwise op with each loop split into a group of loops.

    Args:
      op: an op with identity maps for its results that does not read its inits.
      groups: for each loop the loops that replace it.
      sizes: sizes of the new loops.
      wide: values that have the new loops' dimensions already, by the values they replace.
    """
    maps = ops.plain_maps(op)
    split = [tuple(n for d in m for n in ((None,) if d is None else groups[d])) for m in maps]
    with ir.InsertionPoint(op), op.location:
        inputs = [
            wide[value] if value in wide else expanded(value, index_map, groups, sizes)
            for value, index_map in zip(ops.inputs(op), maps, strict=False)
        ]
        result = op.results[0]
        init = builders.empty(sizes, ops.element_type(result), builders.dynamic_sizes(result))
        kinds = ["parallel"] * len(sizes)
        new = builders.generic(inputs, [init], split, kinds, builders.body_of(op))
    builders.split_loop_indices(new, groups, sizes)
    return new


def expanded(
    value: ir.Value,
    index_map: ops.IndexMap,
    groups: Sequence[Sequence[int]],
    sizes: Sequence[int | None],
) -> ir.Value:
    """The operand with the dimensions of split loops split; the map is that of its user."""
    split = [[None] if d is None else list(groups[d]) for d in index_map]
    if all(len(loops) == 1 for loops in split):
        return value
    count = iter(range(sum(map(len, split))))
    split_groups = [[next(count) for _ in loops] for loops in split]
    own = ops.shape(value)
    shape = [
        own[d] if len(loops) == 1 or n is None else sizes[n]
        for d, loops in enumerate(split)
        for n in loops
    ]
    merge = ops.defining_op(value)
    if merge is not None and merge.name == "tensor.collapse_shape":
        source = merge.operands[0]
        if list(ops.shape(source)) == shape and _grouping(merge) == split_groups:
            return source
    return builders.expand(value, split_groups, shape, builders.dynamic_sizes(value))


def _grouping(reshape: ir.Operation) -> list[list[int]]:
    return [list(group) for group in ops.reassociation(reshape)]
