"""Move reshapes between elementwise ops, and behind moved data, to the ends of their chain.

    %r = linalg.generic {copy} ins(%x) (d0, d2, d3)    tensor<MxNxT> -> tensor<Mx2xNxT>, repeated
    %c = tensor.collapse_shape %r [[0, 1], [2]]        tensor<(M*2)xNxT>
    %y = linalg.generic {logistic} ins(%c)             tensor<(M*2)xNxT>
  becomes
    %z = linalg.generic {logistic} ins(%r)             tensor<Mx2xNxT>
    %y = tensor.collapse_shape %z [[0, 1], [2]]

and likewise

    %y = linalg.generic {logistic} ins(%x)             tensor<MxNxT>
    %e = tensor.expand_shape %y [[0], [1, 2]]          tensor<MxAxBxT>, which a transpose reads
  becomes
    %w = tensor.expand_shape %x [[0], [1, 2]]
    %e = linalg.generic {logistic} ins(%w)             tensor<MxAxBxT>

A repetition, a transpose of split dimensions (`pixel_unshuffle`, heads) and the elementwise ops
next to them are then one iteration space, and one group. Root: an elementwise op of one result in
no group that reads the collapse of what another one computes, or of a concatenation, a padding or
a slice (`torch.stack((x, y), -1).flatten(-2)`), or whose users are equal expansions that another
one reads. Static sizes; bodies without indices. Operands of the op are expanded, too: views where
they are in memory, further roots where elementwise ops compute them. Neighbors of a contraction, a
convolution, a pooling or a reduction keep their place: those fuse them, except that a contraction
or a window computes no op behind moved data. A concatenation that groups write in place is left to
them. Nothing is moved where Triton is missing. Numerics: exact.
Source: MLIR, propagation of reshapes through linalg ops.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.builders import reshape_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.codegen.demand_writer import MOVEMENTS
from mlirfuse.kernels.data_movement.analysis import INSERT, chain, is_written_in_place
from mlirfuse.structured.ir import fusable_neighbors, ops, slices


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds an elementwise op with a reshape between it and another one, or a move."""
    if not triton_compiler.supports(ctx.target) or ops.in_region(root):
        return None
    collapse = _collapsed_operand(root)
    expands = [] if collapse is not None else _equal_expansions(root)
    if collapse is None and not expands:
        return None
    if not _is_plain(root):
        return NoMatch(Reason.STRUCTURE, "the op's loops cannot be split")
    if collapse is not None:
        return Match(root, (root,), _Sink(collapse))
    found = _with_producers(root, expands)
    return Match(root, (*found.group, *found.expands), found)


@dataclasses.dataclass(frozen=True, slots=True)
class _Sink:
    """A collapse to be moved after its user.

    Attributes:
      collapse: the reshape.
    """

    collapse: ir.Operation


@dataclasses.dataclass(frozen=True, slots=True)
class _Hoist:
    """Expansions to be moved before the ops that compute what they expand.

    Attributes:
      expands: the reshapes.
      group: the ops, in block order.
    """

    expands: tuple[ir.Operation, ...]
    group: tuple[ir.Operation, ...]


def _with_producers(root: ir.Operation, expands: list[ir.Operation]) -> _Hoist:
    """The op and the producers in its loops that only it, each other and equal expansions use."""
    group, every = {root}, list(expands)
    work = [root]
    while work:
        for value in ops.inputs(work.pop()):
            op = ops.defining_op(value)
            if op is None or op in group or op.block != root.block or not _is_plain(op):
                continue
            users = ops.users(value)
            own = [user for user in users if user not in group]
            if not all(_is_equal(expands[0], user) for user in own):
                continue
            identity = fusable_neighbors.is_identity
            loops = len(ops.iterator_types(root))
            read = [fusable_neighbors.read_map(user, value) for user in users if user in group]
            if all(identity(index_map, loops) for index_map in read) and _refusal(op) is None:
                group.add(op)
                every += own
                work += group
    return _Hoist(tuple(every), tuple(slices.in_order(group)))


def _is_equal(expand: ir.Operation, other: ir.Operation) -> bool:
    """Whether two ops are expansions of one reassociation to sizes of one shape."""
    if other.name != "tensor.expand_shape" or ops.reassociation(other) != ops.reassociation(expand):
        return False
    return ops.shape(other.results[0]) == ops.shape(expand.results[0])


def _collapsed_operand(op: ir.Operation) -> ir.Operation | None:
    """The collapse of computed or moved data that an elementwise op reads, if there is one."""
    for value in ops.inputs(op):
        reshape = ops.defining_op(value)
        if reshape is None or reshape.name != "tensor.collapse_shape":
            continue
        source = reshape.operands[0]
        if _is_free(ops.defining_op(source)) or _is_moved(source):
            index_map = fusable_neighbors.read_map(op, value)
            if fusable_neighbors.is_identity(index_map, len(ops.iterator_types(op))):
                return reshape
    return None


def _equal_expansions(op: ir.Operation) -> list[ir.Operation]:
    """The users of an op, if they are equal expansions that elementwise ops read."""
    users = [user for result in op.results for user in ops.users(result)]
    if len(op.results) != 1 or not users or users[0].name != "tensor.expand_shape":
        return []
    if not all(_is_equal(users[0], user) for user in users):
        return []
    readers = [reader for user in users for reader in ops.users(user.results[0])]
    return users if readers and all(map(_is_free, readers)) else []


def _is_free(op: ir.Operation | None) -> bool:
    """Whether an op is elementwise arithmetic, or a copy, in no group."""
    if op is None or not ops.is_elementwise(op) or ops.in_region(op):
        return False
    return fusable_neighbors.has_scalar_body(op)


def _is_moved(value: ir.Value) -> bool:
    """Whether a value is the result of a concatenation, a padding or a slice that gets a kernel."""
    op = ops.defining_op(value)
    if op is None or op.name not in MOVEMENTS:
        return False
    group = chain(op) if op.name == INSERT else [op]
    return bool(group) and not is_written_in_place(group)


def _is_plain(op: ir.Operation) -> bool:
    """Whether each loop of an op can be split: it writes its one result in the order of loops."""
    if not _is_free(op) or len(op.results) != 1 or ops.reads_inits(op):
        return False
    maps = ops.indexing_maps(op)
    if None in ops.shape(op.results[0]) or any(m is None or None in m for m in maps):
        return False
    return fusable_neighbors.is_identity(maps[-1], len(ops.iterator_types(op)))


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Leaves the neighbors of ops that fuse them."""
    sinks = isinstance(match.data, _Sink)
    return _refusal(match.root, moved=sinks and _is_moved(match.data.collapse.operands[0]))


def _refusal(op: ir.Operation, *, moved: bool = False) -> NoMatch | None:
    """Why an elementwise op keeps its dimensions.

    Args:
      op: the op.
      moved: whether it reads the result of a move, which a contraction would not compute with it.
    """
    users = [user for result in op.results for user in ops.users(result)]
    if not moved and any(map(fusable_neighbors.is_compute, users)):
        return NoMatch(Reason.LEFT_TO_PRODUCER, "a contraction or a window reads its result")
    if fusable_neighbors.is_epilogue_of_compute(op):
        return NoMatch(Reason.LEFT_TO_PRODUCER, "it is the epilogue of a contraction or a window")
    if fusable_neighbors.is_adjacent_to_reduction(op):
        return NoMatch(Reason.LEFT_TO_PRODUCER, "a reduction next to it is in no group")
    return None


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the ops over the split dimensions."""
    if isinstance(match.data, _Sink):
        return reshape_builder.sink_collapse(match.data.collapse, match.root)
    return reshape_builder.hoist_expansions(match.data.expands, match.data.group)


PASS = FusionPass(
    name="elementwise_reshape_rewrite",
    summary="Reshapes between elementwise ops move to the ends of the chain, for one kernel",
    roots=("linalg.generic",),
    where=ops.is_elementwise,
    match=match,
    legal=legal,
    prepare=passes.needs_provider,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cuda", "rocm"}),
    source="MLIR linalg reshape propagation",
)
