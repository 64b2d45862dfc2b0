"""Contractions with several results, concatenated weights or split reductions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders import destination_builder
from mlirfuse.builders.slice_builder import take
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import contraction_splits


def several_results(pairs: Sequence[tuple[ir.Operation, ir.Value]]) -> ir.Operation:
    """One contraction of one left operand with several right ones, a result for each.

    Args:
      pairs: for each result the contraction that it is, or is a slice of, and the right operand.
        The contractions are siblings, and the results have one shape.
    """
    first = pairs[0][0]
    left = first.operands[0]
    maps = [ops.plain_maps(op) for op, _ in pairs]
    inits = [_init(op, right) for op, right in pairs]
    bodies = [builders.body_of(op) for op, _ in pairs]
    count = len(pairs)

    def body(arguments: list[ir.Value]) -> list[ir.Value]:
        factor, rights = arguments[0], arguments[1 : count + 1]
        accumulators = arguments[count + 1 :]
        return [
            build([factor, right, accumulator])[0]
            for build, right, accumulator in zip(bodies, rights, accumulators, strict=True)
        ]

    return builders.generic(
        [left, *(right for _, right in pairs)],
        inits,
        [maps[0][0], *(m[1] for m in maps), *(m[2] for m in maps)],
        ops.iterator_types(first),
        body,
    )


def _init(op: ir.Operation, right: ir.Value) -> ir.Value:
    """The accumulator of the contraction with that right operand."""
    start = ops.constant(op.operands[2])
    assert start is not None
    kind = ops.element_type(op.results[0])
    _, read, out = ops.plain_maps(op)
    sizes = [*ops.shape(op.results[0])[:-1], ops.shape(right)[read.index(out[-1])]]
    wide = builders.empty(sizes, kind, builders.dynamic_sizes(op.results[0]))
    return builders.fill(builders.scalar_constant(start, kind), wide)


def elementwise(op: ir.Operation, known: Mapping[ir.Value, ir.Value]) -> ir.Operation:
    """The elementwise op with other operands, which may have fewer dimensions than the op's.

    Args:
      op: the op; it reads replaced values at its own loops where their ranks differ.
      known: replaced operands with their new values; the one of the highest rank has the result's
        shape.
    """
    read = [known.get(value, value) for value in ops.inputs(op)]
    like = max((known[v] for v in ops.inputs(op) if v in known), key=lambda v: len(ops.shape(v)))
    maps = list(ops.plain_maps(op))
    rank = len(ops.shape(like))
    if rank != len(maps[-1]):
        maps = [tuple(range(rank)) if m else m for m in maps]
    sizes = ops.shape(like)
    inits = [
        builders.empty(sizes, ops.element_type(result), builders.dynamic_sizes(like))
        for result in op.results
    ]
    return builders.generic(read, inits, maps, ["parallel"] * rank, builders.body_of(op))


def parts(split: contraction_splits.Split) -> tuple[list[ir.Operation], list[ir.Value]]:
    """The slices of a split as results of one contraction, and the new ops.

    The slices have the contraction's dimensions: its reshape is left out.
    """
    root = split.contraction
    weight = root.operands[1]
    _, read, out = ops.plain_maps(root)
    n = ops.shape(root.results[0])[-1]
    assert n is not None
    width = n // len(split.slices)
    axis = read.index(out[-1])
    cut = [take(weight, axis, i * width, width) for i in range(len(split.slices))]
    together = several_results([(root, op.results[0]) for op in cut])
    made = [*cut, together]
    values = list(together.results)
    before = root.results[0]
    for op in split.chain:
        others = [v for v in ops.inputs(op) if v != before]
        for i, value in enumerate(values):
            slices = {v: take(v, 0, i * width, width) for v in others}
            replaced = {before: value, **{v: s.results[0] for v, s in slices.items()}}
            new = elementwise(op, replaced)
            made += [*slices.values(), new]
            values[i] = new.results[0]
        before = op.results[0]
    return made, values


def split_reduction(
    contraction: ir.Operation, operand: int, collapse_shape: ir.Operation
) -> ir.Operation:
    """The contraction on the source of an operand's reshape: one reduction loop becomes several.

    Args:
      contraction: a user of the reshape's result.
      operand: index of that operand.
      collapse_shape: the reshape; it merges static dimensions that the contraction reduces.
    """
    maps = ops.plain_maps(contraction)
    split = dict(zip(maps[operand], ops.reassociation(collapse_shape), strict=True))
    sizes = ops.shape(collapse_shape.operands[0])
    kinds = ops.iterator_types(contraction)
    first = list(
        itertools.accumulate((len(split.get(d, (0,))) for d in range(len(kinds))), initial=0)
    )

    def moved(index_map: ops.IndexMap) -> ops.IndexMap:
        return tuple(
            first[d] + i for d in index_map if d is not None for i in range(len(split.get(d, (0,))))
        )

    def expanded(value: ir.Value, index_map: ops.IndexMap) -> ir.Value:
        if all(len(split.get(d, (0,))) == 1 for d in index_map):
            return value
        groups: list[list[int]] = []
        wide: list[int | None] = []
        for d, size in zip(index_map, ops.shape(value), strict=True):
            inner = [sizes[i] for i in split[d]] if len(split.get(d, ())) > 1 else [size]
            groups.append(list(range(len(wide), len(wide) + len(inner))))
            wide += inner
        return builders.expand(value, groups, wide, builders.dynamic_sizes(value))

    inputs = [
        collapse_shape.operands[0] if i == operand else expanded(value, maps[i])
        for i, value in enumerate(ops.inputs(contraction))
    ]
    return builders.generic(
        inputs,
        [contraction.operands[2]],
        [moved(m) for m in maps],
        [kind for d, kind in enumerate(kinds) for _ in split.get(d, (0,))],
        builders.body_of(contraction),
    )


def concatenated(chains: Sequence[Sequence[ir.Operation]]) -> list[ir.Operation]:
    """One contraction with the weights of several concatenated along N, and its epilogue.

    Args:
      chains: sibling contractions with constant second operands of one indexing map; after each its
        elementwise epilogue, which `contractions.are_alike` compares, whose other operands are
        constants of rank 1.

    Returns:
      The new ops, in order, each at the fused location of those that it replaces.
    """
    roots = [chain[0] for chain in chains]
    _, read, out = ops.plain_maps(roots[0])
    weight = _concatenated([op.operands[1] for op in roots], read.index(out[-1]), "joined_weight")
    with ir.Location.fused([op.location for op in roots]):
        made = [several_results([(roots[0], weight)])]
    for before, step in itertools.pairwise(zip(*chains, strict=True)):
        known = {before[0].results[0]: made[-1].results[0]}
        for operand, value in enumerate(ops.inputs(step[0])):
            if value not in known:
                parts = [op.operands[operand] for op in step]
                known[value] = _concatenated(parts, 0, "joined_bias")
        with ir.Location.fused([op.location for op in step]):
            made.append(elementwise(step[0], known))
    return made


def _concatenated(values: Sequence[ir.Value], axis: int, name: str) -> ir.Value:
    """Constants concatenated along an axis when the program is loaded."""
    sizes = [list(ops.shape(value)) for value in values]
    shape = list(sizes[0])
    widths = [size for own in sizes if (size := own[axis]) is not None]
    shape[axis] = sum(widths)

    def build(parts: list[ir.Value]) -> ir.Value:
        whole = builders.empty(shape, ops.element_type(values[0]))
        for part, offset in zip(parts, itertools.accumulate(widths, initial=0), strict=False):
            offsets = [offset if d == axis else 0 for d in range(len(shape))]
            whole = destination_builder.insert(part, whole, offsets).results[0]
        return whole

    return builders.at_load_time(values, build, name)


def restored(reshape: ir.Operation | None, part: ir.Value, value: ir.Value) -> ir.Value:
    """The value of a slice with the dimensions that `parts` left out.

    Args:
      reshape: the reshape that splits M of the whole before it is sliced, or None.
      part: the replaced slice; it may lack unit dimensions.
      value: the slice as `parts` returns it.
    """
    if reshape is not None:
        *m_sizes, _ = ops.shape(reshape.results[0])
        sizes = [*m_sizes, ops.shape(value)[-1]]
        value = builders.expand(value, ops.reassociation(reshape), sizes, reshape.operands[1:])
    return builders.collapse(value, _kept(ops.shape(value), ops.shape(part)))


def _kept(sizes: Sequence[int | None], kept: Sequence[int | None]) -> list[list[int]]:
    """The reassociation that drops the unit dimensions that are missing in `kept`."""
    groups: list[list[int]] = [[] for _ in kept]
    position = -1
    for d, size in enumerate(sizes):
        missing = len(sizes) - d > len(kept) - position - 1
        if not (missing and size == 1):
            position += 1
        groups[max(position, 0)].append(d)
    return groups
