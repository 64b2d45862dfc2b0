"""Move a transpose of rows from the operand of a contraction to behind its result.

    %t = linalg.generic {transpose} ins(%x)            tensor<BxSxKxT> -> tensor<SxBxKxT>
    %a = tensor.collapse_shape %t [[0, 1], [2]]
    %c = linalg.matmul ins(%a, %w)                     tensor<(S*B)xNxT>
    %e = tensor.expand_shape %c                        tensor<SxBxPxDxT>
    %h = linalg.generic {addf} ins(%e, %bias)
    %y = linalg.generic {transpose} ins(%h)            tensor<PxSxBxDxT>
  becomes
    %a = tensor.collapse_shape %x [[0, 1], [2]]
    %c = linalg.matmul ins(%a, %w)                     tensor<(B*S)xNxT>
    %e = tensor.expand_shape %c                        tensor<BxSxPxDxT>
    %h = linalg.generic {addf} ins(%e, %bias)
    %y = linalg.generic {transpose} ins(%h)            tensor<PxSxBxDxT>

Root: the contraction. Two transposes become one, or none where they undo each other, as around the
projections of `torch.nn.MultiheadAttention`. The rows are a loop that one operand and the result
alone have; between the contraction and the second transpose are elementwise ops that read nothing
else along the rows, and reshapes that split the rows as they were merged. Static sizes, any element
type. Numerics: exact (each element is computed as before).
Source: mlirfuse.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import contractions
from mlirfuse.structured.recognize.permutations import Order, transposed_order


@dataclasses.dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of an operand that a transposing copy and a collapse made.

    Attributes:
      operand: index of the operand.
      source: the tensor before the transpose.
      groups: dimensions of the source that each dimension of the operand merges.
      loop: the loop of the rows.
      order: for each merged dimension its place among them in the source.
      sizes: sizes of the merged dimensions, transposed.
    """

    operand: int
    source: ir.Value
    groups: tuple[tuple[int, ...], ...]
    loop: int
    order: Order
    sizes: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """Where a tensor has the rows.

    Attributes:
      first: the first dimension of rows.
      split: whether the rows are one dimension for each one that was merged.
    """

    first: int
    split: bool

    def dimensions(self, rows: _Rows) -> list[int]:
        """The dimensions of rows."""
        return list(range(self.first, self.first + (len(rows.order) if self.split else 1)))


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """The rows, and the ops up to the second transpose with the place of rows in their results."""

    rows: _Rows
    chain: tuple[tuple[ir.Operation, _Place], ...]
    end: ir.Operation


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a contraction of transposed rows whose result is transposed again."""
    if not ops.is_contraction(root) or ops.in_region(root) or len(root.results) != 1:
        return None
    rows = next((found for o in range(2) if (found := _rows(root, o)) is not None), None)
    if rows is None:
        return None
    written = ops.plain_maps(root)[2]
    place, value = _Place(written.index(rows.loop), split=False), root.results[0]
    chain: list[tuple[ir.Operation, _Place]] = [(root, place)]
    while True:
        users = ops.users(value)
        if len(users) != 1 or users[0].block != root.block or ops.in_region(users[0]):
            return NoMatch(Reason.EXTRA_USERS, "several ops read the transposed rows")
        op = users[0]
        if place.split and transposed_order(op) is not None:
            return Match(root, (*(o for o, _ in chain), op), _Found(rows, tuple(chain), op))
        moved = _moved(op, value, place, rows)
        if moved is None:
            return NoMatch(Reason.STRUCTURE, f"{ops.described(op)} reads rows in their order")
        place, value = moved, op.results[0]
        chain.append((op, place))


def _rows(root: ir.Operation, operand: int) -> _Rows | None:
    """The rows of an operand, if a copy transposed them alone."""
    maps = ops.indexing_maps(root)
    value, index_map = root.operands[operand], maps[operand]
    collapse = ops.defining_op(value)
    if collapse is None or collapse.name != "tensor.collapse_shape" or index_map is None:
        return None
    copy = ops.defining_op(collapse.operands[0])
    if copy is None or copy.block != root.block or ops.in_region(copy):
        return None
    order, groups = transposed_order(copy), ops.reassociation(collapse)
    sizes = ops.shape(copy.results[0])
    if order is None or None in sizes or None in index_map:
        return None
    moved = [g for g in groups if any(order[d] != d for d in g)]
    if len(moved) != 1 or sorted(order[d] for d in moved[0]) != list(moved[0]):
        return None
    loop = index_map[groups.index(moved[0])]
    if loop is None or loop in (maps[1 - operand] or ()) or loop not in (maps[2] or ()):
        return None
    places = tuple(moved[0].index(order[d]) for d in moved[0])
    kept = tuple(size for d in moved[0] if (size := sizes[d]) is not None)
    return _Rows(operand, copy.operands[0], groups, loop, places, kept)


def _moved(op: ir.Operation, value: ir.Value, place: _Place, rows: _Rows) -> _Place | None:
    """The place of the rows in the result of an op; None for one that needs their order."""
    dims = place.dimensions(rows)
    if op.name == "tensor.expand_shape":
        groups = ops.reassociation(op)
        target = [d for source in dims for d in groups[source]]
        if len(target) == len(dims):
            return _Place(target[0], place.split)
        sizes = tuple(ops.shape(op.results[0])[d] for d in target)
        return _Place(target[0], split=True) if not place.split and sizes == rows.sizes else None
    if op.name == "tensor.collapse_shape":
        groups = ops.reassociation(op)
        owners = [next(i for i, g in enumerate(groups) if d in g) for d in dims]
        if all(len(groups[i]) == 1 for i in owners):
            return _Place(owners[0], place.split)
        merged = place.split and list(groups[owners[0]]) == dims
        return _Place(owners[0], split=False) if merged else None
    return place if _is_elementwise_along(op, value, dims) else None


def _is_elementwise_along(op: ir.Operation, value: ir.Value, dims: Sequence[int]) -> bool:
    """Whether an op computes each row alike, from that row of a value and from nothing else."""
    if not ops.is_generic(op) or not ops.is_elementwise(op) or len(op.results) != 1:
        return False
    if ops.reads_index(op) or ops.reads_inits(op) or None in ops.indexing_maps(op):
        return False
    *read, written = ops.plain_maps(op)
    whole = tuple(range(len(ops.iterator_types(op))))
    if written != whole:
        return False
    return all(
        index_map == whole if operand == value else not set(index_map) & set(dims)
        for operand, index_map in zip(ops.inputs(op), read, strict=True)
    )


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the chain on the rows in the order of the source, and the transpose behind it."""
    found: _Found = match.data
    root, rows = match.root, found.rows
    with ir.InsertionPoint(root), root.location:
        collapsed = builders.collapse(rows.source, rows.groups)
        new = root.clone(ir.InsertionPoint(root)).operation
        new.operands[rows.operand] = collapsed
    old, value = root.results[0], new.results[0]
    for op, place in found.chain[1:]:
        with ir.InsertionPoint(op), op.location:
            value = _built(op, old, value, place, rows)
        old = op.results[0]
    end = found.end
    order = _renumbering(found.chain[-1][1], rows, len(ops.iterator_types(end)))
    source, written = ops.plain_maps(end)
    read = tuple(source[d] for d in order)
    with ir.InsertionPoint(end), end.location:
        if read != written:
            value = builders.generic(
                [value],
                ops.inits(end),
                [read, written],
                ops.iterator_types(end),
                builders.body_of(end),
            ).results[0]
    end.results[0].replace_all_uses_with(value)
    for op in (end, *(o for o, _ in reversed(found.chain))):
        op.erase()
    return new


def _renumbering(place: _Place, rows: _Rows, rank: int) -> list[int]:
    """For each dimension of a tensor with rows as in the source the dimension of the old one."""
    dims = place.dimensions(rows)
    order = list(range(rank))
    if place.split:
        for index, d in enumerate(dims):
            order[d] = dims[rows.order.index(index)]
    return order


def _built(
    op: ir.Operation, old: ir.Value, value: ir.Value, place: _Place, rows: _Rows
) -> ir.Value:
    """The result of an op of the chain, with its rows in the order of the source.

    Args:
      op: the op.
      old: the operand that has the rows.
      value: the tensor in its place.
      place: where the result has the rows.
      rows: the rows.
    """
    result = op.results[0]
    shape = ops.shape(result)
    order = _renumbering(place, rows, len(shape))
    sizes = [shape[d] for d in order]
    if op.name in ops.RESHAPES:
        groups = ops.reassociation(op)
        if op.name == "tensor.collapse_shape":
            return builders.collapse(value, groups)
        return builders.expand(value, groups, sizes, builders.dynamic_sizes(value))
    place_of = {loop: dim for dim, loop in enumerate(order)}
    inputs, maps = [], []
    for operand, index_map in zip(ops.inputs(op), ops.plain_maps(op), strict=False):
        inputs.append(value if operand == old else operand)
        loops = order if operand == old else index_map
        maps.append(tuple(None if loop is None else place_of[loop] for loop in loops))
    init = builders.empty(sizes, ops.element_type(result), builders.dynamic_sizes(value))
    return builders.generic(
        inputs,
        [init],
        [*maps, tuple(range(len(order)))],
        ops.iterator_types(op),
        builders.body_of(op),
    ).results[0]


PASS = FusionPass(
    name="row_transpose_rewrite",
    summary="A transpose of rows moves from a contraction's operand to the transpose of its result",
    roots=contractions.ROOTS,
    where=ops.is_contraction,
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    source="mlirfuse",
)
