"""Gathers: ops that read a tensor at computed indices, and the ops fused with them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.ir import fusable_neighbors, ops, slices
from mlirfuse.structured.recognize import epilogues


def is_gather(op: ir.Operation) -> bool:
    """Whether the op is elementwise except that it extracts tensor elements at computed indices."""
    if not ops.is_elementwise(op) or len(op.results) != 1 or ops.reads_inits(op):
        return False
    extracts = "tensor.extract" in ops.scalar_names(op)
    return extracts and fusable_neighbors.has_gathering_body(op)


def is_move(op: ir.Operation) -> bool:
    """Whether a gather only moves elements, from indices that its loops determine."""
    if not is_gather(op) or ops.num_inputs(op):
        return False
    inner = [o.operation for o in ops.body(op).operations]
    yielded = ops.defining_op(inner[-1].operands[0])
    extracts = [o for o in inner if o.name == "tensor.extract"]
    return len(extracts) == 1 and yielded == extracts[0]


def computes_any_element(op: ir.Operation) -> bool:
    """Whether a gather can compute an element of an op's one result: its indices are the loops."""
    if not ops.is_elementwise(op) or len(op.results) != 1 or ops.in_region(op):
        return False
    maps = ops.indexing_maps(op)
    if any(m is None or None in m for m in maps) or ops.reads_inits(op):
        return False
    return set(maps[-1] or ()) == set(range(len(ops.iterator_types(op))))


def times_read(value: ir.Value) -> int | None:
    """How many elements gathers of static sizes read of a tensor; None where it has other users."""
    users = ops.users(value)
    readers = [user.parent.operation for user in users if user.name == "tensor.extract"]
    if len(readers) < len(users):
        return None
    if not all(ops.is_generic(op) and None not in ops.loop_sizes(op) for op in readers):
        return None
    return sum(math.prod(size or 0 for size in ops.loop_sizes(op)) for op in readers)


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """The part of a tensor at one index of a dimension.

    Attributes:
      source: the tensor, of static shape.
      dimension: the dimension.
      loops: for each other dimension the loop of the gather that is its index, in order.
    """

    source: ir.Value
    dimension: int
    loops: tuple[int, ...]


def part_at(gather: ir.Operation, number: ir.Value) -> Part | None:
    """The part that a gather copies at an index: a number from outside of it, of integer type.

    Returns:
      None for a gather that does anything else, or copies less than all of the part.
    """
    if not is_move(gather) or None in ops.indexing_maps(gather):
        return None
    whole = ops.loop_sizes(gather)
    if ops.plain_maps(gather)[-1] != tuple(range(len(whole))):
        return None
    inner = [o.operation for o in ops.body(gather).operations]
    source, *places = next(o for o in inner if o.name == "tensor.extract").operands
    loops: list[int] = []
    at: list[int] = []
    for dim, (place, size) in enumerate(zip(places, ops.shape(source), strict=True)):
        made = ops.defining_op(place)
        if made is not None and made.name == "linalg.index":
            loops.append(int(made.attributes["dim"].value))
            if size is None or whole[loops[-1]] != size:
                return None
        elif made is not None and made.name == "arith.index_cast" and made.operands[0] == number:
            at.append(dim)
    others = [size for loop, size in enumerate(whole) if loop not in loops]
    if len(at) != 1 or len(loops) != len(places) - 1 or not loops or loops != sorted(set(loops)):
        return None
    return Part(source, at[0], tuple(loops)) if all(size == 1 for size in others) else None


def computed_sources(gather: ir.Operation) -> list[ir.Operation]:
    """The elementwise ops that compute tensors for a gather alone, which reads no more of them.

    A kernel that computes them where the gather reads them computes no element more often, and
    writes none of them. Of another gather that only moves elements more may be read: reading the
    tensor that it reads takes no longer.
    """
    found = []
    for value in slices.extracted_tensors(gather):
        op = ops.defining_op(value)
        if op is None or op.block != gather.block or ops.in_region(op) or len(op.results) != 1:
            continue
        readers = {ops.ancestor_in(gather.block, user) for user in ops.users(value)}
        if readers != {gather} or value in list(gather.operands):
            continue
        if None in ops.shape(value) or not ops.is_elementwise(op):
            continue
        if not is_move(op) and (
            _num_read(gather) > ops.num_elements(value) or not fusable_neighbors.has_scalar_body(op)
        ):
            continue
        if not fusable_neighbors.is_epilogue_of_compute(op):
            found.append(op)
    return found


def with_sources(
    group: list[ir.Operation], grown: Callable[[list[ir.Operation]], list[ir.Operation]]
) -> list[ir.Operation]:
    """A group with the `computed_sources` of its gathers, and what only these use, and so on.

    Args:
      group: the ops.
      grown: adds the producers to a group that may be in it.
    """
    while True:
        group = grown(group)
        members = set(group)
        found = [
            source
            for op in group
            if is_gather(op)
            for source in computed_sources(op)
            if source not in members
        ]
        if not found:
            return group
        group = [*group, *found]


def _num_read(gather: ir.Operation) -> int:
    """How many elements a gather reads of one tensor."""
    inner = [o.operation for o in ops.body(gather).operations]
    extracts = [o for o in inner if o.name == "tensor.extract"]
    return ops.num_elements(gather.results[0]) * len(extracts)


def is_rotation(op: ir.Operation) -> bool:
    """Whether the gather swaps the halves of a dimension: IREE's form of `rotate_half` in RoPE.

    It has no inputs, extracts one element of a tensor at its own loops, one of them reversed, and
    negates it in one half.
    """
    if not is_gather(op) or ops.num_inputs(op):
        return False
    inner = [o.operation for o in ops.body(op).operations]
    extracted = [o for o in inner if o.name == "tensor.extract"]
    if len(extracted) != 1 or not any(o.name == "arith.negf" for o in inner):
        return False
    swapped = [_is_swapped(i) for i in list(extracted[0].operands)[1:]]
    kept = [_loop(i) is not None for i in list(extracted[0].operands)[1:]]
    return swapped.count(True) == 1 and all(s or k for s, k in zip(swapped, kept, strict=True))


def _loop(index: ir.Value) -> int | None:
    op = ops.defining_op(index)
    return op.attributes["dim"].value if op is not None and op.name == "linalg.index" else None


def _is_swapped(index: ir.Value) -> bool:
    """Whether the index is one minus a loop index; the loop then has size two."""
    op = ops.defining_op(index)
    if op is None or op.name != "arith.subi":
        return False
    return ops.constant(op.operands[0]) == 1 and _loop(op.operands[1]) is not None


@dataclasses.dataclass(frozen=True, slots=True)
class Gathered:
    """A gather and the ops that are fused with it.

    Attributes:
      gather: the gather.
      before: its exclusive producers, e.g. of the indices, with the collapses that an expanding
        `reshape` undoes.
      reshape: the reshape between the gather and the chain, or None.
      chain: the elementwise epilogue and its exclusive producers, in block order.
    """

    gather: ir.Operation
    before: tuple[ir.Operation, ...]
    reshape: ir.Operation | None
    chain: tuple[ir.Operation, ...]

    @property
    def ops(self) -> list[ir.Operation]:
        """All of it, in block order."""
        reshape = [] if self.reshape is None else [self.reshape]
        return slices.in_order({*self.before, self.gather, *reshape, *self.chain})


def gathered(
    gather: ir.Operation,
    max_operands: int,
    *,
    takes_epilogues: bool = False,
    takes_moved: bool = False,
) -> Gathered | NoMatch | None:
    """The gather with its elementwise epilogue and the exclusive producers of both.

    Args:
      gather: the gather.
      max_operands: operands and results that a dispatch may have.
      takes_epilogues: whether epilogues of contractions may be among the exclusive producers of the
        gather's epilogue.
      takes_moved: whether the gather may read the result of a transpose.

    Returns:
      The ops; a refusal; None when there is nothing to fuse with the gather.
    """
    if not takes_moved and reads_transposed(gather):
        return NoMatch(Reason.LEFT_TO_PRODUCER, "the gather reads a transpose")
    users = ops.users(gather.results[0])
    reshape = _reshape(gather, users)
    chain = epilogues.epilogue(reshape or gather, max_operands)
    if not chain and len(users) > 1 and any(map(ops.is_elementwise, users)):
        return NoMatch(Reason.EXTRA_USERS, "the gather has other users")
    splits = reshape is not None and chain and reshape.name == "tensor.expand_shape"
    members = {gather, *chain, *([] if reshape is None else [reshape])}
    merges = unmerged(gather, reshape) if splits and reshape is not None else []
    merges = [merge for merge in merges if ops.users(merge.results[0]) == [gather]]
    before = feeding([gather, *merges], {*members, *merges}, takes_epilogues=False)
    feeders = feeding(chain, {*members, *before}, takes_epilogues=takes_epilogues)
    if not chain:
        return Gathered(gather, tuple(before), None, ()) if before else None
    whole = slices.in_order({*feeders, *chain})
    if reshape is None or splits:
        return Gathered(gather, (*before, *merges), reshape, tuple(whole))
    values, rank = set(reshape.results), len(ops.shape(reshape.results[0]))
    for tail in (whole, chain):
        if epilogues.reads_in_place(tail, values, rank):
            return Gathered(gather, tuple(before), reshape, tuple(tail))
    return NoMatch(Reason.INDEXING_MAP, "the epilogue permutes the collapsed dimensions")


def reads_transposed(gather: ir.Operation) -> bool:
    """Whether the gather reads a transpose, which IREE fuses elsewhere if the gather is not fused.

    Measured with IREE 3.13.0: a rotation after a projection and the transpose of its heads takes
    one dispatch less if IREE forms the dispatches.
    """
    for inner in ops.body(gather).operations:
        if inner.operation.name == "tensor.extract":
            op = ops.defining_op(ops.strip_views(inner.operation.operands[0], ops.RESHAPES))
            if op is not None and ops.is_projection(op):
                return True
    return False


def _reshape(gather: ir.Operation, users: list[ir.Operation]) -> ir.Operation | None:
    """The reshape that is the gather's only user, if the gather can be computed after it."""
    if len(users) != 1 or users[0].name not in ops.RESHAPES or users[0].block != gather.block:
        return None
    reshape = users[0]
    return reshape if reshape.name == "tensor.collapse_shape" else expansion(gather)


def expansion(gather: ir.Operation) -> ir.Operation | None:
    """The `tensor.expand_shape` that is a gather's only user, if it can be computed after it."""
    users = ops.users(gather.results[0])
    if len(users) != 1 or users[0].name != "tensor.expand_shape" or users[0].block != gather.block:
        return None
    maps = ops.indexing_maps(gather)
    if None in maps or maps[-1] != tuple(range(len(ops.iterator_types(gather)))):
        return None
    split = {d for d, group in enumerate(ops.reassociation(users[0])) if len(group) > 1}
    read = {
        o.operation.attributes["dim"].value
        for o in ops.body(gather).operations
        if o.operation.name == "linalg.index"
    }
    return None if split & read else users[0]


def unmerged(gather: ir.Operation, split: ir.Operation) -> list[ir.Operation]:
    """The collapses that the gather reads and that the expand after it undoes."""
    groups, sizes = ops.reassociation(split), ops.shape(split.results[0])
    found = []
    for value, index_map in zip(ops.inputs(gather), ops.plain_maps(gather), strict=False):
        op = ops.defining_op(value)
        if op is None or op.name != "tensor.collapse_shape":
            continue
        loops = [d for d in index_map if d is not None]
        wide = [tuple(sizes[n] for n in groups[d]) for d in loops]
        source = ops.shape(op.operands[0])
        given = [tuple(source[n] for n in group) for group in ops.reassociation(op)]
        if len(loops) == len(index_map) and wide == given:
            found.append(op)
    return found


def feeding(
    users: list[ir.Operation], members: set[ir.Operation], *, takes_epilogues: bool
) -> list[ir.Operation]:
    """The elementwise producers and gathers that only these ops use, also through one another.

    Args:
      users: ops of one block.
      members: further ops that may use them.
      takes_epilogues: whether epilogues of contractions count.
    """

    def accepts(op: ir.Operation) -> bool:
        if ops.in_region(op) or not ops.is_elementwise(op):
            return False
        if not takes_epilogues and fusable_neighbors.is_epilogue_of_compute(op):
            return False
        return is_gather(op) or fusable_neighbors.has_scalar_body(op)

    return slices.exclusive_producers(users, accepts, members)
