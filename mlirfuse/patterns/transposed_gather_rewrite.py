"""Let gathers of a transposed tensor read its source, in the order in which it is in memory.

    %t = linalg.generic {transpose} ins(%x)            tensor<PxCxT> -> tensor<CxPxT>
    %g = linalg.generic { tensor.extract %t[c, %i] }   tensor<CxNxT>
    %e = linalg.generic {mulf} ins(%g, %w)             tensor<CxNxT>
    %c = tensor.insert_slice %e into ...               parts of a concatenation
    %y = linalg.generic {transpose} ins(%c)            tensor<CxNxT> -> tensor<NxCxT>
  becomes
    %g = linalg.generic { tensor.extract %x[%i, c] }   tensor<NxCxT>
    %e = linalg.generic {mulf} ins(%g, %w)             tensor<NxCxT>
    %y = tensor.insert_slice %e into ...

Root: a gather whose last loop is the index of the last dimension that the tensor had before it was
transposed; an elementwise op that alone reads elementwise ops in another order, whose gathers are
such ones in that order; or a transposing copy that alone reads a concatenation with such parts.
These are images that are resized between two ops with channels last: in the neck of a detector, the
head of a segmentation, a decoder. IREE moves a transpose through one elementwise op alone. Adjacent
lanes read adjacent elements then, and no transpose is written. At least half of a concatenation
consists of such parts; copies transpose the others. Static sizes, any element type. Numerics:
exact.
Source: mlirfuse.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders import destination_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.kernels.data_movement import analysis
from mlirfuse.structured.expr import upstream_math
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize.permutations import Order, transposed_order

_EXTRACT, _EXPAND = "tensor.extract", "tensor.expand_shape"


@dataclasses.dataclass(frozen=True, slots=True)
class _Source:
    """A tensor in the place of a transposed one.

    Attributes:
      value: the tensor that was transposed.
      groups: for each of its dimensions those of the transposed and expanded tensor.
    """

    value: ir.Value
    groups: tuple[tuple[int, ...], ...]

    @property
    def order(self) -> Order:
        """For each dimension of the expanded source that of the transposed and expanded tensor."""
        return tuple(d for group in self.groups for d in group)


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    """A part of a transposed concatenation.

    Attributes:
      value: the part.
      start: its first index along the axis of the concatenation.
      order: for each of its dimensions in the new order that in the old one.
      members: the ops that compute it in the new order, in block order; empty where a copy
        transposes it.
    """

    value: ir.Value
    start: int
    order: Order
    members: tuple[ir.Operation, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Concatenation:
    """A transposed concatenation.

    Attributes:
      parts: its parts.
      axis: the dimension of the concatenation in the root's result.
    """

    parts: tuple[_Part, ...]
    axis: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Chain:
    """The ops in front of an elementwise root.

    Attributes:
      order: for each dimension of the root's result that of theirs.
      members: the ops, in block order; none in front of a gather.
    """

    order: Order
    members: tuple[ir.Operation, ...] = ()


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds gathers of transposed tensors that are, or are read, in the order of their source."""
    if ops.in_region(root) or not ops.is_elementwise(root) or None in ops.shape(root.results[0]):
        return None
    if not upstream_math.computes(root, upstream_math.GATHER):
        return None
    loops = tuple(range(len(ops.iterator_types(root))))
    if not loops or len(root.results) != 1 or ops.reads_inits(root):
        return None
    if None in ops.indexing_maps(root) or ops.plain_maps(root)[-1] != loops:
        return None
    order = transposed_order(root)
    found = None if order is None else _concatenation(root, order)
    return _chain(root, loops) if found is None else found


def _chain(root: ir.Operation, loops: Order) -> Match | None:
    """Finds the gathers of an elementwise op, or those in front of it."""
    if any(_reads_lanes(extract, loops[-1]) for extract in _extracts(root)):
        return Match(root, (root,), _Chain(loops)) if ops.loop_sizes(root)[-1] != 1 else None
    members = _members(root, len(loops))
    reads = zip(ops.inputs(root), ops.plain_maps(root), strict=False)
    orders = {read for value, read in reads if ops.defining_op(value) in members}
    order = tuple(d for d in next(iter(orders), ()) if d is not None)
    if len(orders) != 1 or order == loops or sorted(order) != list(loops):
        return None
    order = tuple(order.index(loop) for loop in loops)
    if not _are_contiguous(members, order):
        return None
    ordered = tuple(slices.in_order(members))
    return Match(root, (*ordered, root), _Chain(order, ordered))


def _concatenation(root: ir.Operation, order: Order) -> Match | NoMatch | None:
    """Finds the parts of a transposed concatenation."""
    value = root.operands[0]
    last = ops.defining_op(value)
    if last is None or last.name != analysis.INSERT or ops.users(value) != [root]:
        return None
    chain = analysis.chain(last)
    joined = analysis.analyze_chain(chain) if chain and last.block == root.block else None
    if joined is None or isinstance(joined, NoMatch):
        return None
    shape = ops.shape(value)
    parts = tuple(
        _part(p.value, p.start, order, [*shape[: joined.axis], p.size, *shape[joined.axis + 1 :]])
        for p in joined.parts
    )
    moved = sum(ops.num_elements(part.value) for part in parts if part.members)
    if not moved:
        return None
    if 2 * moved < ops.num_elements(value):
        return NoMatch(Reason.NOT_PROFITABLE, "most of the concatenation has no transposed gather")
    members = slices.in_order({op for part in parts for op in part.members})
    found = _Concatenation(parts, order.index(joined.axis))
    return Match(root, (*members, *chain, root), found)


def _part(value: ir.Value, start: int, order: Order, wide: Sequence[int | None]) -> _Part:
    """A part with the ops that compute it in the new order, if it can be computed so.

    Args:
      value: the part, which may lack dimensions of one element.
      start: its first index along the axis of the concatenation.
      order: for each dimension of the root's result that of its operand.
      wide: sizes of the part with all dimensions.
    """
    place = {d: n for n, d in enumerate(d for d, size in enumerate(wide) if size != 1)}
    kept = tuple(place[d] for d in order if d in place)
    if len(kept) != len(ops.shape(value)) or len(ops.users(value)) != 1:
        return _Part(value, start, kept, ())
    (insert,) = ops.users(value)
    members = _members(insert, len(kept))
    if not _are_contiguous(members, kept):
        return _Part(value, start, kept, ())
    return _Part(value, start, kept, tuple(slices.in_order(members)))


def _members(user: ir.Operation, rank: int) -> set[ir.Operation]:
    """The ops in front of an op, which no other reads, that have so many loops."""
    return set(slices.exclusive_producers([user], lambda op: _can_move(op, rank), {user}))


def _are_contiguous(members: set[ir.Operation], order: Order) -> bool:
    """Whether ops gather from transposed tensors, and lanes read adjacent elements in an order."""
    lanes, whole = order[-1], tuple(range(len(order)))
    extracts = [extract for op in members for extract in _extracts(op)]
    for op in members:
        for value, read in zip(ops.inputs(op), ops.plain_maps(op), strict=False):
            is_made = ops.defining_op(value) in members
            if (is_made and read != whole) or (not is_made and not _is_contiguous(read, lanes)):
                return False
    return bool(extracts) and all(_reads_lanes(extract, lanes) for extract in extracts)


def _is_contiguous(read: ops.IndexMap, lanes: int) -> bool:
    """Whether adjacent lanes read one element, or adjacent ones."""
    return lanes not in read or read[-1] == lanes


def _can_move(op: ir.Operation, rank: int) -> bool:
    """Whether an op can be computed in another order of its loops."""
    if not ops.is_generic(op) or not ops.is_elementwise(op) or ops.in_region(op):
        return False
    if len(op.results) != 1 or ops.reads_inits(op) or None in ops.indexing_maps(op):
        return False
    # A transpose is no part of the chain: gathers read its source.
    if transposed_order(op) is not None:
        return False
    return len(ops.iterator_types(op)) == rank and ops.plain_maps(op)[-1] == tuple(range(rank))


def _extracts(op: ir.Operation) -> list[ir.Operation]:
    return [o.operation for o in ops.body(op).operations if o.operation.name == _EXTRACT]


def _reads_lanes(extract: ir.Operation, lanes: int) -> bool:
    """Whether a loop is the index of the last dimension of a transposed tensor's source."""
    source = _source(extract.operands[0])
    if source is None:
        return False
    op = ops.defining_op(extract.operands[1 + source.order[-1]])
    if op is None or op.name != "linalg.index" or _has_index_of_each(extract):
        return False
    return int(op.attributes["dim"].value) == lanes


def _has_index_of_each(extract: ir.Operation) -> bool:
    """Whether each element has an index in memory, as those of a sort, which takes its gathers."""
    gather = extract.parent
    for value in list(extract.operands)[1:]:
        op = ops.defining_op(value)
        given = (
            op.operands[0] if op is not None and op.name.startswith("arith.index_cast") else value
        )
        if not isinstance(given.owner, ir.Block):
            continue
        index_map = ops.plain_maps(gather)[ir.BlockArgument(given).arg_number]
        if len({loop for loop in index_map if loop is not None}) > 1:
            return True
    return False


def _source(value: ir.Value) -> _Source | None:
    """The tensor of which a value is a transposed copy, whose dimensions may be split behind it."""
    op = ops.defining_op(value)
    if op is None or None in ops.shape(value):
        return None
    groups: Sequence[Sequence[int]] = [[d] for d in range(len(ops.shape(value)))]
    if op.name == _EXPAND:
        groups, op = ops.reassociation(op), ops.defining_op(op.operands[0])
    order = None if op is None or ops.in_region(op) else transposed_order(op)
    if op is None or order is None:
        return None
    read = [tuple(groups[order.index(d)]) for d in range(len(order))]
    return _Source(op.operands[0], tuple(read))


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the gather; or the ops, and the concatenation, in the order of the copy."""
    root: ir.Operation = match.root
    extracts = [e for op in match.ops if ops.is_elementwise(op) for e in _extracts(op)]
    views = slices.in_order({v for e in extracts for v in _views(e.operands[0])})
    with ir.InsertionPoint(root), root.location:
        if isinstance(match.data, _Chain):
            loops = tuple(range(len(ops.iterator_types(root))))
            value = _moved(root, loops, _all_moved(match.data))
        else:
            value = _joined(root, match.data)
    root.results[0].replace_all_uses_with(value)
    for op in reversed(match.ops):
        op.erase()
    for view in reversed(views):
        if not ops.users(view.results[0]):
            view.erase()
    return value.owner.operation


def _views(value: ir.Value) -> list[ir.Operation]:
    """The transpose of a value, and the split of its dimensions behind it; empty for others."""
    op = ops.defining_op(value)
    if op is None or _source(value) is None:
        return []
    return [op] if op.name != _EXPAND else [op, *_views(op.operands[0])]


def _split(shape: Sequence[int | None]) -> list[list[int]]:
    """Groups of dimensions with one each of several elements."""
    groups: list[list[int]] = []
    for d, size in enumerate(shape):
        if not groups or (size != 1 and any(shape[n] != 1 for n in groups[-1])):
            groups.append([])
        groups[-1].append(d)
    return groups


def _built(part: _Part) -> ir.Value:
    """A part in the new order."""
    if not part.members:
        return builders.transpose(part.value, [part.order.index(d) for d in range(len(part.order))])
    return _all_moved(_Chain(part.order, part.members))[part.value]


def _all_moved(chain: _Chain) -> dict[ir.Value, ir.Value]:
    """The results of ops, and those in the new order."""
    moved: dict[ir.Value, ir.Value] = {}
    for op in chain.members:
        moved[op.results[0]] = _moved(op, chain.order, moved)
    return moved


def _moved(op: ir.Operation, order: Order, moved: dict[ir.Value, ir.Value]) -> ir.Value:
    """The result of an op whose loops have a new order."""
    place, whole = [order.index(loop) for loop in range(len(order))], tuple(range(len(order)))
    maps = [
        whole if value in moved else tuple(None if loop is None else place[loop] for loop in read)
        for value, read in zip(ops.inputs(op), ops.plain_maps(op), strict=False)
    ]
    sizes = [ops.shape(op.results[0])[d] for d in order]
    with op.location:
        new = builders.generic(
            [moved.get(value, value) for value in ops.inputs(op)],
            [builders.empty(sizes, ops.element_type(op.results[0]))],
            [*maps, whole],
            ["parallel"] * len(order),
            builders.body_of(op),
        )
        i64 = ir.IntegerType.get_signless(64)
        for inner in [view.operation for view in ops.body(new).operations]:
            if inner.name == "linalg.index":
                at = place[int(inner.attributes["dim"].value)]
                inner.attributes["dim"] = ir.IntegerAttr.get(i64, at)
            elif inner.name == _EXTRACT and _reads_lanes(inner, whole[-1]):
                _read_source(inner, new)
    return new.results[0]


def _read_source(extract: ir.Operation, gather: ir.Operation) -> None:
    """Lets a gather read the source of a transposed tensor."""
    source = _source(extract.operands[0])
    assert source is not None
    value, indices = source.value, list(extract.operands)[1:]
    if any(len(group) > 1 for group in source.groups):
        shape, count = ops.shape(extract.operands[0]), iter(range(len(indices)))
        groups = [[next(count) for _ in group] for group in source.groups]
        with ir.InsertionPoint(gather):
            value = builders.expand(value, groups, [shape[d] for d in source.order])
    extract.operands[0] = value
    for number, d in enumerate(source.order):
        extract.operands[1 + number] = indices[d]


def _joined(root: ir.Operation, found: _Concatenation) -> ir.Value:
    """The concatenation of the parts in the new order."""
    shape, axis = ops.shape(root.results[0]), found.axis
    whole = builders.empty(shape, ops.element_type(root.results[0]))
    for part in found.parts:
        value, wide = _built(part), list(shape)
        wide[axis] = ops.num_elements(value) * (shape[axis] or 1) // ops.num_elements(whole)
        if ops.shape(value) != tuple(wide):
            value = builders.expand(value, _split(wide), wide)
        offsets = [part.start if d == axis else 0 for d in range(len(shape))]
        whole = destination_builder.insert(value, whole, offsets).results[0]
    return whole


PASS = FusionPass(
    name="transposed_gather_rewrite",
    summary="Gathers of a transposed tensor read its source",
    roots=("linalg.generic",),
    where=ops.is_generic,
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    targets=frozenset({"cpu"}),
    source="mlirfuse",
)
