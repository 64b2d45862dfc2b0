"""Concatenations of two tensors of one shape, computed elementwise from the same tensors."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.ir import fusable_neighbors, ops, slices

Leaf = tuple[ir.Value, ops.IndexMap]
"""A tensor, and the loops of the part at which it is read."""


@dataclasses.dataclass(frozen=True, slots=True)
class Halves:
    """Two parts that make up a tensor.

    Attributes:
      inserts: the `tensor.insert_slice` of each part.
      parts: the inserted values.
      tree: the elementwise ops that compute the parts alone, in block order.
      axis: position of the loop over the two parts among the loops of a part.
      leaves: the tensors that the ops read, with the loops at which they do.
      narrowing: the reshapes behind the tensor and the rounding that alone reads their result;
        empty where it is not rounded.
    """

    inserts: tuple[ir.Operation, ir.Operation]
    parts: tuple[ir.Value, ir.Value]
    tree: tuple[ir.Operation, ...]
    axis: int
    leaves: tuple[Leaf, ...]
    narrowing: tuple[ir.Operation, ...] = ()

    @property
    def ops(self) -> list[ir.Operation]:
        """All of it, in block order."""
        return slices.in_order([*self.tree, *self.inserts, *self.narrowing])


def halves(second: ir.Operation) -> Halves | NoMatch | None:
    """Finds the two parts of a concat, both elementwise, whose second one the op inserts."""
    first = ops.defining_op(second.operands[1])
    if first is None or first.name != "tensor.insert_slice" or first.block != second.block:
        return None
    if ops.users(first.results[0]) != [second] or not (
        ops.has_unit_strides(first) and ops.has_unit_strides(second)
    ):
        return None
    base = ops.defining_op(first.operands[1])
    axis = _axis(first, second)
    if base is None or base.name != "tensor.empty" or axis is None:
        return None
    parts = (first.operands[0], second.operands[0])
    tree = set(slices.exclusive_producers([first, second], _is_free))
    if not all(ops.defining_op(part) in tree for part in parts):
        return None
    read = [_leaves(part, tree) for part in parts]
    if None in read:
        return NoMatch(Reason.INDEXING_MAP, "an op of a part does not write at its own loops")
    one, other = ([leaf for leaf in leaves or ()] for leaves in read)
    if {value for value, _ in one} != {value for value, _ in other}:
        return NoMatch(Reason.STRUCTURE, "the two parts are computed from different tensors")
    leaves = tuple(dict.fromkeys([*one, *other]))
    tree_ops = tuple(slices.in_order(tree))
    return Halves((first, second), parts, tree_ops, axis, leaves, _narrowing(second))


def _narrowing(last: ir.Operation) -> tuple[ir.Operation, ...]:
    """The reshapes that alone read an op's result, and the rounding that reads the last of them."""
    found: list[ir.Operation] = []
    users = ops.users(last.results[0])
    while len(users) == 1 and users[0].block == last.block:
        found.append(users[0])
        if users[0].name not in ops.RESHAPES:
            break
        users = ops.users(users[0].results[0])
    if not found or not ops.is_generic(found[-1]) or not fusable_neighbors.has_one_order(found[-1]):
        return ()
    rounds = ops.scalar_names(found[-1]) == ("arith.truncf", "linalg.yield")
    return tuple(found) if rounds and ops.num_inputs(found[-1]) == 1 else ()


def _axis(first: ir.Operation, second: ir.Operation) -> int | None:
    """Position of the loop over the parts among the loops of a part; None if it is no concat.

    Either the parts are the halves of a dimension, or the two slices of a dimension of size two
    that their own type lacks.
    """
    boxes = [ops.static_insert(op) for op in (first, second)]
    if None in boxes or first.operands[0].type != second.operands[0].type:
        return None
    (offsets, sizes), (later, _) = (box for box in boxes if box is not None)
    whole, part = ops.shape(second.results[0]), ops.shape(first.operands[0])
    differs = [d for d, (a, b) in enumerate(zip(offsets, later, strict=True)) if a != b]
    if any(offsets) or len(differs) != 1:
        return None
    (axis,) = differs
    size = sizes[axis]
    if size is None or later[axis] != size or whole[axis] != 2 * size:
        return None
    if any(sizes[d] != whole[d] for d in range(len(whole)) if d != axis):
        return None
    if len(part) == len(whole):
        return axis
    kept = [d for d, s in enumerate(sizes) if s != 1]
    return sum(d < axis for d in kept) if size == 1 and len(kept) == len(part) else None


def _is_free(op: ir.Operation) -> bool:
    """Whether the op is elementwise arithmetic on inputs, and in no group yet."""
    if not ops.is_elementwise(op) or ops.in_region(op) or ops.reads_inits(op):
        return False
    return fusable_neighbors.has_scalar_body(op) and ops.num_inputs(op) > 0


def _leaves(part: ir.Value, tree: set[ir.Operation]) -> list[Leaf] | None:
    """The leaves of a part; None when an op does not write at its own loops."""
    found: dict[Leaf, None] = {}
    seen: set[Leaf] = set()
    work: list[Leaf] = [(part, tuple(range(len(ops.shape(part)))))]
    while work:
        leaf = work.pop()
        if leaf in seen:
            continue
        seen.add(leaf)
        inner = reads_of(leaf, tree)
        if inner is None:
            return None
        work += reversed(inner)
        if ops.defining_op(leaf[0]) not in tree:
            found.setdefault(leaf)
    return list(found)


def reads_of(leaf: Leaf, tree: set[ir.Operation]) -> list[Leaf] | None:
    """The operands of the op of the tree that computes a leaf; empty for any other producer."""
    value, index = leaf
    op = ops.defining_op(value)
    if op is None or op not in tree:
        return []
    maps = ops.indexing_maps(op)
    if None in maps:
        return None
    *read, out = ops.plain_maps(op)
    if sorted(out, key=lambda d: -1 if d is None else d) != list(range(len(out))):
        return None
    loops = dict(zip(out, index, strict=True))
    return [
        (v, tuple(None if d is None else loops[d] for d in m))
        for v, m in zip(ops.inputs(op), read, strict=True)
    ]
