"""One op that computes both halves of a tensor."""

from __future__ import annotations

import itertools

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.half_concat import Halves, Leaf, reads_of


def merged(found: Halves) -> ir.Operation:
    """One generic with a loop over the two halves, which selects between them.

    The ops of the halves are erased; users of the whole read a reshape of the generic's result.
    """
    root, part = found.inserts[1], found.parts[0]
    kind, k = ops.element_type(part), found.axis
    last = found.narrowing[-1] if found.narrowing else root
    result = ops.element_type(last.results[0])
    sizes = list(ops.shape(part))
    sizes.insert(k, 2)
    loops = tuple(range(len(sizes)))
    tree = set(found.tree)

    def body(arguments: list[ir.Value]) -> list[ir.Value]:
        known = dict(zip(found.leaves, arguments, strict=False))
        values = [_scalar((p, _start(p)), tree, known) for p in found.parts]
        zero = builders.scalar_constant(0, "index")
        is_first = builders.scalar("arith.cmpi", [builders.loop_index(k), zero], "i1", "0 : i64")
        chosen = builders.scalar("arith.select", [is_first, *values], kind)
        return [chosen if result == kind else builders.scalar("arith.truncf", [chosen], result)]

    locations = [op.location for op in found.ops]
    with ir.InsertionPoint(root), ir.Location.fused(locations, context=root.context):
        new = builders.generic(
            [value for value, _ in found.leaves],
            [builders.empty(sizes, result, builders.dynamic_sizes(part))],
            [*(_shifted(index, k) for _, index in found.leaves), loops],
            ["parallel"] * len(sizes),
            body,
        )
        whole = _whole(new.results[0], root, found)
    for reshape in found.narrowing[:-1]:
        whole = _reshaped(whole, reshape)
    last.results[0].replace_all_uses_with(whole)
    for op in reversed(found.ops):
        op.erase()
    return new


def _reshaped(value: ir.Value, reshape: ir.Operation) -> ir.Value:
    """A tensor of other elements in the shape that a reshape gives to its operand."""
    with ir.InsertionPoint(reshape), reshape.location:
        kind = builders.tensor_type(ops.shape(reshape.results[0]), ops.element_type(value))
        operands = [value, *list(reshape.operands)[1:]]
        attributes = dict(reshape.attributes.items())
        new = ir.Operation.create(reshape.name, [kind], operands, attributes=attributes)
    found: ir.Value = new.results[0]
    return found


def _start(value: ir.Value) -> tuple[int, ...]:
    return tuple(range(len(ops.shape(value))))


def _shifted(index: ops.IndexMap, k: int) -> ops.IndexMap:
    return tuple(d if d is None or d < k else d + 1 for d in index)


def _scalar(leaf: Leaf, tree: set[ir.Operation], known: dict[Leaf, ir.Value]) -> ir.Value:
    """The value of one element, built at the current insertion point; each is built once."""
    if leaf not in known:
        op = ops.defining_op(leaf[0])
        inner = reads_of(leaf, tree)
        assert op is not None
        assert inner
        arguments = [_scalar(one, tree, known) for one in inner]
        # The last argument stands for the init, which the bodies do not read.
        known[leaf] = builders.body_of(op)([*arguments, arguments[0]])[0]
    return known[leaf]


def _whole(value: ir.Value, root: ir.Operation, found: Halves) -> ir.Value:
    """The result in the shape of the tensor that the parts were inserted in."""
    sizes = ops.shape(root.results[0])
    rank, k = len(ops.shape(value)), found.axis
    if len(sizes) == len(ops.shape(found.parts[0])):
        return builders.collapse(value, builders.split_axis(rank - 1, k))
    if len(sizes) == rank:
        return value
    kept = [d for d, size in enumerate(sizes) if size != 1]
    edges = [0, *kept[1:], len(sizes)]
    groups = [list(range(a, b)) for a, b in itertools.pairwise(edges)]
    return builders.expand(value, groups, sizes, builders.dynamic_sizes(value))
