"""Contractions that are no matmuls as products and their sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.structured.ir import ops


def product_and_sum(op: ir.Operation, kept: Sequence[int], whole: int) -> ir.Operation:
    """A contraction as a product over all its loops, and the sum of it; the contraction is erased.

    Reshapes that alone read the result, up to one of the shape of the sum, are erased, too.

    Args:
      op: the contraction, which starts from a number; without dynamic sizes where it has others.
      kept: its loops of more than one iteration and those that are reduced, in order.
      whole: index of an operand that has all of them, whose order the product has.
    """
    number = {loop: n for n, loop in enumerate(kept)}
    shape, element = ops.shape(op.results[0]), ops.element_type(op.results[0])
    with ir.InsertionPoint(op), op.location:
        inputs, maps = [], []
        for value, index_map in zip(ops.inputs(op), ops.plain_maps(op), strict=False):
            inputs.append(_without_units(value, _dims(index_map, kept)))
            maps.append(tuple(number[loop] for loop in index_map if loop in number))
        result = tuple(number[loop] for loop in ops.plain_maps(op)[2] if loop in number)
        kinds = [ops.iterator_types(op)[loop] for loop in kept]
        parts = _parts(inputs, maps, len(kinds))
        inputs = [_before_merge(v, m, parts) for v, m in zip(inputs, maps, strict=True)]
        maps, result = [_split(m, parts) for m in maps], _split(result, parts)
        kinds = [kind for kind, part in zip(kinds, parts, strict=True) for _ in part]
        value = inputs[whole]
        empty = builders.empty(ops.shape(value), element, builders.dynamic_sizes(value))
        order, rank = maps[whole], len(kinds)
        products = builders.generic(
            inputs, [empty], [*maps, order], ["parallel"] * rank, _product(op)
        ).results[0]
        sizes = dict(zip(order, ops.shape(value), strict=True))
        init = ops.inits(op)[0]
        wanted = [sizes[loop] for loop in result]
        if wanted != list(shape):
            start = builders.scalar_constant(ops.constant(init) or 0, element)
            init = builders.fill(start, builders.empty(wanted, element))
        add = "arith.addi" if element.startswith("i") else "arith.addf"
        new = builders.generic(
            [products],
            [init],
            [order, result],
            kinds,
            lambda arguments: [builders.scalar(add, arguments, element)],
        )
        total = new.results[0]
        after = _reshapes(op, wanted)
        if after is None:
            after = [op]
            if wanted != list(shape):
                total = _restored(total, op, kept, parts)
    after[-1].results[0].replace_all_uses_with(total)
    for old in reversed(after):
        old.erase()
    return new


def _dims(index_map: ops.IndexMap, kept: Sequence[int]) -> list[int]:
    """The dimensions that kept loops index."""
    return [dim for dim, loop in enumerate(index_map) if loop in kept]


def _without_units(value: ir.Value, kept: Sequence[int]) -> ir.Value:
    """The operand without its other dimensions, which have one element."""
    shape, expand = ops.shape(value), ops.defining_op(value)
    if expand is not None and expand.name == "tensor.expand_shape":
        source: ir.Value = expand.operands[0]
        if list(ops.shape(source)) == [shape[dim] for dim in kept]:
            return source
    return builders.collapse(value, builders.groups_of_kept(kept, len(shape)))


def _product(op: ir.Operation) -> Callable[[list[ir.Value]], list[ir.Value]]:
    """The body of a contraction without its sum."""
    computed = builders.body_of(op)

    def build(arguments: list[ir.Value]) -> list[ir.Value]:
        (total,) = computed(arguments)
        added = total.owner.operation
        factor = next(value for value in added.operands if value != arguments[-1])
        added.erase()
        return [factor]

    return build


def _parts(
    values: Sequence[ir.Value], maps: Sequence[tuple[int, ...]], rank: int
) -> list[tuple[int, ...]]:
    """The new loops of each loop: several of one that all operands merge of the same dimensions."""
    found: list[dict[int, tuple[int | None, ...]]] = []
    for value, index_map in zip(values, maps, strict=True):
        merge = ops.defining_op(value)
        if merge is None or merge.name != "tensor.collapse_shape":
            return [(loop,) for loop in range(rank)]
        inner = ops.shape(merge.operands[0])
        groups = ops.reassociation(merge)
        found.append(
            {
                loop: tuple(inner[d] for d in group)
                for loop, group in zip(index_map, groups, strict=True)
            }
        )
    if found[0] != found[1] or any(None in sizes for sizes in found[0].values()):
        return [(loop,) for loop in range(rank)]
    parts, first = [], 0
    for loop in range(rank):
        parts.append(tuple(range(first, first + len(found[0][loop]))))
        first += len(found[0][loop])
    return parts


def _before_merge(
    value: ir.Value, index_map: tuple[int, ...], parts: Sequence[tuple[int, ...]]
) -> ir.Value:
    """The operand whose dimensions the new loops index."""
    split = any(len(parts[loop]) > 1 for loop in index_map)
    return value.owner.operation.operands[0] if split else value


def _split(index_map: tuple[int, ...], parts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(new for loop in index_map for new in parts[loop])


def _reshapes(op: ir.Operation, wanted: Sequence[int | None]) -> list[ir.Operation] | None:
    """A contraction and the reshapes that alone read it, up to one of this shape; None without."""
    chain = [op]
    while list(ops.shape(chain[-1].results[0])) != wanted:
        users = ops.users(chain[-1].results[0])
        if len(users) != 1 or users[0].name not in ops.RESHAPES:
            return None
        chain.append(users[0])
    return chain


def _restored(
    total: ir.Value, op: ir.Operation, kept: Sequence[int], parts: Sequence[tuple[int, ...]]
) -> ir.Value:
    """The sum in the shape of a contraction's result, with what was split merged again."""
    index_map, shape = ops.plain_maps(op)[2], ops.shape(op.results[0])
    groups: list[list[int]] = []
    first = 0
    for loop in (loop for loop in index_map if loop in kept):
        count = len(parts[kept.index(loop)])
        groups.append([*range(first, first + count)])
        first += count
    merged = builders.collapse(total, groups)
    groups = builders.groups_of_kept(_dims(index_map, kept), len(index_map))
    return builders.expand(merged, groups, shape)
