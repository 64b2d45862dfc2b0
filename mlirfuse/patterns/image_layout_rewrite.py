"""Keep the layout of a convolution's result in the ops that read it, up to sums and contractions.

    %h = linalg.generic {addf} ins(%c, %b)             %c: tensor<HxWxC> -> tensor<CxHxW>
    %y = linalg.generic {mulf} ins(%h, %s)             tensor<CxHxW>
    %d = linalg.generic {mulf, addf} ins(%y, %w)       reads (k, m, n)
  becomes
    %h = linalg.generic {addf} ins(%c, %b)             tensor<HxWxC>
    %y = linalg.generic {mulf} ins(%h, %s)             tensor<HxWxC>
    %d = linalg.generic {mulf, addf} ins(%y, %w)       reads (m, n, k)

Root: an elementwise op that reads a convolution, of which there is a kernel, in another order of
its dimensions than that of its result; or such a convolution whose channels are not the last
dimension of its result, and whose accumulators start from a number. All elementwise ops that depend
on it are computed in the convolution's order, channels last; reductions and contractions read that
order by their indexing maps. IREE sinks a transpose into the ops before it: the kernel of the
convolution would store one element at a time. Nothing is changed where the order ends at any other
op, such as a reshape or a return, or meets a tensor of another order. Static sizes, any element
type. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders.convolution_builder import with_result_order
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.kernels.vector import convolution
from mlirfuse.kernels.vector.roles import classify_convolution
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize import convolutions
from mlirfuse.structured.recognize.convolution_loops import ConvolutionLoops

Order = tuple[int, ...]
"""The dimensions of a tensor in the order in which a convolution has them."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """Ops that depend on a convolution.

    Attributes:
      order: dimension of the convolution's new result -> dimension of the root's result.
      members: the root and the elementwise ops, in block order.
      ends: reductions, contractions, and elementwise ops in the convolution's order, that read
        them.
    """

    order: Order
    members: tuple[ir.Operation, ...]
    ends: tuple[ir.Operation, ...]


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds the elementwise ops that depend on a convolution in another order."""
    if ctx.target.cpu is None or ops.in_region(root):
        return None
    order = _order(root) if _is_member(root) else _stored_order(root)
    if order is None or order == tuple(range(len(order))):
        return None
    members, ends = {root}, set[ir.Operation]()
    work = [root]
    while work:
        value = work.pop().results[0]
        for user in ops.users(value):
            if user in members:
                continue
            if not ops.is_generic(user) or user.block != root.block or ops.in_region(user):
                return NoMatch(Reason.STRUCTURE, f"{ops.described(user)} reads its order")
            if None in ops.indexing_maps(user) or value in ops.inits(user):
                return NoMatch(Reason.INDEXING_MAP, f"{ops.described(user)} reads its order")
            if not ops.is_elementwise(user) or _restores(user, value, order):
                ends.add(user)
                continue
            if not _is_member(user) or not _keeps(user, value):
                return NoMatch(Reason.STRUCTURE, f"{ops.described(user)} has another order")
            members.add(user)
            work.append(user)
    made = {op.results[0] for op in members}
    for op in members - {root}:
        for value in ops.inputs(op):
            if value not in made and len(ops.shape(value)) == len(order):
                return NoMatch(Reason.STRUCTURE, "an operand of all dimensions in another order")
    ordered = tuple(slices.in_order(members))
    erased = tuple(slices.in_order(members | ends))
    return Match(root, erased, _Found(order, ordered, tuple(slices.in_order(ends))))


def _is_member(op: ir.Operation) -> bool:
    """Whether an op can be computed in another order of its loops."""
    if not ops.is_generic(op) or not ops.is_elementwise(op) or ops.in_region(op):
        return False
    if len(op.results) != 1 or ops.reads_inits(op) or ops.reads_index(op):
        return False
    maps = ops.indexing_maps(op)
    return None not in maps and maps[-1] == tuple(range(len(ops.iterator_types(op))))


def _order(root: ir.Operation) -> Order | None:
    """The order in which an op reads a convolution; None where it reads none, or several orders."""
    rank = len(ops.iterator_types(root))
    found: set[Order] = set()
    for value, index_map in zip(ops.inputs(root), ops.plain_maps(root), strict=False):
        order = tuple(loop for loop in index_map if loop is not None)
        if sorted(order) != list(range(rank)):
            continue
        op = ops.defining_op(value)
        # A broadcast is computed where it is read.
        if op is None or not ops.is_generic(op):
            return None
        if ops.is_projection(op) and len(ops.shape(op.operands[0])) < rank:
            continue
        if not convolutions.is_convolution(op) or not convolution.takes(op):
            return None
        found.add(order)
    return found.pop() if len(found) == 1 else None


def _stored_order(root: ir.Operation) -> Order | None:
    """The order of a convolution's result with the pixels of its image first, the channels last.

    None for any other op, and where the channels are last.
    """
    if not ops.is_generic(root) or not convolutions.is_convolution(root):
        return None
    start, loops = ops.defining_op(ops.inits(root)[0]), classify_convolution(root)
    out = ops.indexing_maps(root)[2]
    if start is None or start.name != "linalg.fill" or out is None:
        return None
    if not isinstance(loops, ConvolutionLoops) or not convolution.takes(root):
        return None
    place = {loop: dim for dim, terms in enumerate(loops.image_dims) for loop, _ in terms}
    last = [*loops.group_loops, *([] if loops.n_loop is None else [loops.n_loop])]
    wanted = [*sorted(loops.m_loops, key=lambda loop: place[loop]), *last]
    if out[-1] == wanted[-1] or set(wanted) != set(out):
        return None
    return tuple(out.index(loop) for loop in wanted)


def _keeps(op: ir.Operation, value: ir.Value) -> bool:
    """Whether an elementwise op reads a value at its own loops."""
    whole = tuple(range(len(ops.iterator_types(op))))
    pairs = zip(ops.inputs(op), ops.plain_maps(op), strict=False)
    return all(index_map == whole for operand, index_map in pairs if operand == value)


def _restores(op: ir.Operation, value: ir.Value, order: Order) -> bool:
    """Whether an elementwise op reads a value in the convolution's order."""
    whole = tuple(range(len(ops.iterator_types(op))))
    pairs = zip(ops.inputs(op), ops.plain_maps(op), strict=False)
    read = [index_map for operand, index_map in pairs if operand == value]
    return all(tuple(index_map[d] for d in order) == whole for index_map in read)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the ops in the convolution's order."""
    found: _Found = match.data
    moved: dict[ir.Value, ir.Value] = {}
    for op in found.members:
        if ops.is_elementwise(op):
            moved[op.results[0]] = _built(op, found.order, moved)
        else:
            moved[op.results[0]] = with_result_order(op, found.order).results[0]
    for op in found.ends:
        with ir.InsertionPoint(op), op.location:
            new = _reading(op, found.order, moved)
        for old, made in zip(op.results, new.results, strict=True):
            old.replace_all_uses_with(made)
        op.erase()
    first: ir.Operation = moved[match.root.results[0]].owner.operation
    for op in reversed(found.members):
        op.erase()
    return first


def _built(op: ir.Operation, order: Order, moved: dict[ir.Value, ir.Value]) -> ir.Value:
    """The result of an elementwise op whose loops are those of the convolution."""
    place = [order.index(loop) for loop in range(len(order))]
    maps = []
    for value, index_map in zip(ops.inputs(op), ops.plain_maps(op), strict=False):
        loops = [index_map[d] for d in order] if value in moved else index_map
        maps.append(tuple(None if loop is None else place[loop] for loop in loops))
    result = op.results[0]
    sizes = [ops.shape(result)[d] for d in order]
    with ir.InsertionPoint(op), op.location:
        inputs = [moved.get(value, value) for value in ops.inputs(op)]
        init = builders.empty(sizes, ops.element_type(result))
        new = builders.generic(
            inputs,
            [init],
            [*maps, tuple(range(len(order)))],
            ["parallel"] * len(order),
            builders.body_of(op),
        )
    return new.results[0]


def _reading(op: ir.Operation, order: Order, moved: dict[ir.Value, ir.Value]) -> ir.Operation:
    """A reduction or a contraction that reads tensors in the convolution's order."""
    maps: Sequence[ops.IndexMap] = [
        tuple(index_map[d] for d in order) if value in moved else index_map
        for value, index_map in zip(op.operands, ops.plain_maps(op), strict=True)
    ]
    return builders.generic(
        [moved.get(value, value) for value in ops.inputs(op)],
        ops.inits(op),
        maps,
        ops.iterator_types(op),
        builders.body_of(op),
    )


PASS = FusionPass(
    name="image_layout_rewrite",
    summary="Ops behind a convolution keep its layout, instead of a transposed epilogue",
    roots=("linalg.generic",),
    where=ops.is_generic,
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cpu"}),
    source="mlirfuse",
)
