"""Builds convolutions again with other filters."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.structured import convolutions, ops
from mlirfuse.structured.convolutions import Scaled, Step


def fold(found: Scaled) -> ir.Operation:
    """Scales the filter when the program is loaded, adds the channels' shifts as one bias.

    Args:
      found: sums that start at zero, all in one element type; its ops are erased.

    Returns:
      The op that adds the bias.
    """
    root, last = found.root, found.steps[-1].op
    vectors = [step.vector for step in found.steps]
    scales = [step for step in found.steps if step.scales]
    with ir.InsertionPoint(root), root.location:
        weight = root.operands[found.filter]
        source = convolutions.constant_root(weight)
        assert source is not None
        scaled = builders.at_load_time(
            [source, *(step.vector for step in scales)],
            lambda parts: _scaled(reshaped(weight, parts[0]), parts[1:], scales, found),
            "scaled_filter",
        )
        new = root.clone(ir.InsertionPoint.current).operation
        new.operands[found.filter] = scaled
    result = new.results[0]
    if found.merged is not None:
        with ir.InsertionPoint(found.merged), found.merged.location:
            merged = found.merged.clone(ir.InsertionPoint.current).operation
            merged.operands[0] = result
            result = merged.results[0]
    places = [op.location for op in (step.op for step in found.steps)]
    with ir.InsertionPoint(last), ir.Location.fused(places, context=last.context):
        bias = builders.at_load_time(
            vectors, lambda parts: _shift(parts, found.steps), "shifted_bias"
        )
        rank = len(ops.shape(result))
        whole = tuple(range(rank))
        added = builders.generic(
            [result, bias],
            [last.operands[2]],
            [whole, (found.axis,), whole],
            ["parallel"] * rank,
            lambda a: [builders.scalar("arith.addf", a[:2], ops.element_type(result))],
        )
    last.results[0].replace_all_uses_with(added.results[0])
    for op in reversed([root, *([found.merged] if found.merged else []), *_ops(found.steps)]):
        op.erase()
    return added


def _ops(steps: Sequence[Step]) -> list[ir.Operation]:
    return [step.op for step in steps]


def unmerge(merged: ir.Operation, tail: Sequence[ir.Operation]) -> list[ir.Operation]:
    """Computes behind a reshape on the dimensions that it merges; it comes last instead.

    Args:
      merged: a `tensor.collapse_shape`.
      tail: elementwise ops of one result, in block order, that write at their loops, read what is
        computed from the reshape there too, and read nothing of what they write over. Erased, as
        is the reshape.

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


def widen_start(expand: ir.Operation, broadcast: ir.Operation) -> ir.Operation:
    """The broadcast with the dimensions that the `tensor.expand_shape` behind it splits.

    The reshape's readers read it instead; what is read by nobody any more is erased.
    """
    wide = _widened(broadcast, ops.reassociation(expand), ops.shape(expand.results[0]), {})
    expand.results[0].replace_all_uses_with(wide.results[0])
    expand.erase()
    if not ops.users(broadcast.results[0]):
        broadcast.erase()
    return wide


def _widened(
    op: ir.Operation,
    groups: Sequence[Sequence[int]],
    sizes: Sequence[int | None],
    wide: dict[ir.Value, ir.Value],
) -> ir.Operation:
    """An elementwise op that writes at its loops, with each loop split into a group of loops.

    Args:
      op: reads nothing of what it writes over.
      groups: for each loop the loops that take its place.
      sizes: of those.
      wide: values that are there with all the loops already.
    """
    maps = ops.plain_maps(op)
    split = [tuple(n for d in m for n in ((None,) if d is None else groups[d])) for m in maps]
    with ir.InsertionPoint(op), op.location:
        inputs = [
            wide[value] if value in wide else _expanded(value, index_map, groups, sizes)
            for value, index_map in zip(ops.inputs(op), maps, strict=False)
        ]
        result = op.results[0]
        init = builders.empty(sizes, ops.element_type(result), builders.dynamic_sizes(result))
        kinds = ["parallel"] * len(sizes)
        return builders.generic(inputs, [init], split, kinds, builders.body_of(op))


def _expanded(
    value: ir.Value,
    index_map: ops.IndexMap,
    groups: Sequence[Sequence[int]],
    sizes: Sequence[int | None],
) -> ir.Value:
    """What is read through the map, with the dimensions of split loops split."""
    split = [[None] if d is None else list(groups[d]) for d in index_map]
    if all(len(loops) == 1 for loops in split):
        return value
    count = iter(range(sum(map(len, split))))
    places = [[next(count) for _ in loops] for loops in split]
    own = ops.shape(value)
    shape = [
        own[d] if len(loops) == 1 or n is None else sizes[n]
        for d, loops in enumerate(split)
        for n in loops
    ]
    return builders.expand(value, places, shape, builders.dynamic_sizes(value))


def reshaped(value: ir.Value, source: ir.Value) -> ir.Value:
    """The reshapes between a constant and the value, applied to a copy of the constant."""
    op = ops.defining_op(value)
    if op is None or op.name not in ops.RESHAPES:
        return source
    below = reshaped(op.operands[0], source)
    copy = op.clone(ir.InsertionPoint.current).operation
    copy.operands[0] = below
    return copy.results[0]


def _scaled(
    weight: ir.Value, vectors: Sequence[ir.Value], steps: Sequence[Step], found: Scaled
) -> ir.Value:
    """The filter with each channel scaled as the steps scale it."""
    kind = ops.element_type(weight)
    sizes = ops.shape(weight)
    own = ops.indexing_maps(found.root)[found.filter]
    assert own is not None
    places = tuple(own.index(loop) for loop in found.channels)
    whole = tuple(range(len(sizes)))
    split = [sizes[d] for d in places]
    for vector, step in zip(vectors, steps, strict=True):
        grouped = len(places) > 1
        wide = builders.expand(vector, [range(len(places))], split) if grouped else vector
        weight = _elementwise(step.name, [weight, wide], [whole, places], whole, kind)
    return weight


def _shift(vectors: Sequence[ir.Value], steps: Sequence[Step]) -> ir.Value:
    """What the steps make of a channel that is zero."""
    kind, (size,) = ops.element_type(vectors[0]), ops.shape(vectors[0])
    zero = builders.scalar_constant(0, kind)
    value = builders.fill(zero, builders.empty([size], kind))
    for vector, step in zip(vectors, steps, strict=True):
        value = _elementwise(step.name, [value, vector], [(0,), (0,)], (0,), kind)
    return value


def _elementwise(
    name: str,
    inputs: list[ir.Value],
    maps: list[tuple[int, ...]],
    whole: tuple[int, ...],
    kind: str,
) -> ir.Value:
    return builders.generic(
        inputs,
        [builders.empty(ops.shape(inputs[0]), kind)],
        [*maps, whole],
        ["parallel"] * len(whole),
        lambda arguments: [builders.scalar(name, arguments[:2], kind)],
    ).results[0]
