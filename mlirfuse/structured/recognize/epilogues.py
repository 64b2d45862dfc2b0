"""Elementwise epilogues: chains of users that are fused with the op before them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from iree.compiler import ir

from mlirfuse.structured.expr import activations
from mlirfuse.structured.expr.expressions import start
from mlirfuse.structured.ir import analysis_cache, fusable_neighbors, ops, slices


def epilogue(
    contraction: ir.Operation, max_operands: int, *, permutes: bool = False
) -> list[ir.Operation]:
    """The elementwise users of the contraction that can be fused with it, in block order.

    Each has the contraction's iteration space and reads it at its own loops; the last one may
    permute them. Only the last value has outside users. The result is the longest such chain whose
    dispatch has no more than `max_operands` operands and results.

    Args:
      contraction: any op with one result.
      max_operands: operands and results that a dispatch may have.
      permutes: whether each op may permute the loops: a kernel names them, whereas IREE tiles all
        ops of a dispatch alike.
    """
    return list(_epilogue((contraction, max_operands, permutes)))


@analysis_cache.until_change
def _epilogue(question: tuple[ir.Operation, int, bool]) -> list[ir.Operation]:
    contraction, max_operands, permutes = question
    group = [contraction]
    fusable = 1
    while True:
        values = [result for op in group for result in op.results]
        user = slices.first_user(values, set(group), contraction.block)
        if user is None or not _continues(user, group):
            break
        group.append(user)
        if slices.results_of(group) == [user.results[0]]:
            if len(slices.operands_of(group)) + 1 > max_operands:
                break
            if not fusable_neighbors.is_widened_by_users(user):
                fusable = len(group)
        if not permutes and not _reads_in_place(user, group):
            break
    return group[1:fusable]


def with_epilogue(contraction: ir.Operation, max_operands: int) -> list[ir.Operation]:
    """The contraction with its epilogue, behind a collapse of dimensions if there is one.

    The elementwise ops that compute other operands of the epilogue are part of it.
    """
    found = epilogue(contraction, max_operands)
    if found:
        return with_producers([contraction, *found], max_operands)
    return [contraction, *collapsed_epilogue(contraction, max_operands)]


def with_producers(group: list[ir.Operation], max_operands: int) -> list[ir.Operation]:
    """The group and the elementwise ops that compute operands of its epilogue, in block order.

    They have no other users. They have as many elements as the group's result, so that nothing is
    computed twice, or read nothing: the gate of a product, or its mask and the indices which that
    compares. Without them if they have too many operands.

    Args:
      group: a contraction, a convolution or a pooling, with its elementwise epilogue.
      max_operands: operands and results that a dispatch may have.
    """

    def accepts(op: ir.Operation) -> bool:
        once = fusable_neighbors.is_computed_once(op, group[-1])
        return once and fusable_neighbors.is_free_elementwise(op)

    users = [op for op in group if ops.is_elementwise(op)]
    found = slices.exclusive_producers(users, accepts, group)
    wider = slices.in_order([*group, *found])
    return wider if found and slices.check(wider, max_operands) is None else group


def collapsed_epilogue(contraction: ir.Operation, max_operands: int) -> list[ir.Operation]:
    """A collapse of dimensions after the contraction, and the elementwise ops after it.

    Each op reads those before at the loops where it writes; only the last one has users elsewhere.
    None reads the index of a loop, unless unit dimensions alone are collapsed. Empty without an
    elementwise op.
    """
    users = ops.users(contraction.results[0])
    if len(users) != 1 or users[0].name != "tensor.collapse_shape":
        return []
    if users[0].block != contraction.block:
        return []
    sizes = ops.shape(users[0].results[0])
    if not sizes:
        return []  # a tensor of rank 0 cannot be expanded again
    wide = [n for n in ops.shape(contraction.results[0]) if n != 1]
    keeps_loops = wide == [n for n in sizes if n != 1]
    group, fusable = [contraction, users[0]], 0
    while True:
        values = [op.results[0] for op in group[1:]]
        user = slices.first_user(values, set(group), contraction.block)
        if user is None or not _updates(user, values):
            break
        if ops.reads_index(user) and not keeps_loops:
            break
        group.append(user)
        if len(slices.operands_of(group)) + 1 > max_operands:
            break
        if slices.results_of(group) == [user.results[0]]:
            fusable = len(group)
    return group[1:fusable]


def _updates(op: ir.Operation, values: Sequence[ir.Value]) -> bool:
    """Whether an elementwise op reads values of one shape at its own loops, and not its init."""
    if not ops.is_elementwise(op) or len(op.results) != 1:
        return False
    maps, rank = ops.indexing_maps(op), len(ops.shape(values[0]))
    return (
        None not in maps
        and ops.shape(op.results[0]) == ops.shape(values[0])
        and maps[-1] == tuple(range(rank))
        and all(m == maps[-1] for v, m in zip(op.operands, maps, strict=True) if v in values)
        and not ops.reads_inits(op)
    )


def _continues(op: ir.Operation, group: list[ir.Operation]) -> bool:
    if not ops.is_elementwise(op) or len(op.results) != 1 or ops.reads_index(op):
        return False
    if slices.gather_of_member([*group, op]) is not None:
        return False
    space = sorted(map(str, ops.shape(group[0].results[0])))
    return sorted(map(str, ops.shape(op.results[0]))) == space


def _reads_in_place(op: ir.Operation, group: list[ir.Operation]) -> bool:
    """Whether the op reads every value of the group at the loops where it writes its result."""
    values = {result for member in group for result in member.results}
    maps = ops.indexing_maps(op)
    return all(m == maps[-1] for v, m in zip(op.operands, maps, strict=True) if v in values)


def has_activation(group: list[ir.Operation], names: Collection[str]) -> bool:
    """Whether the epilogue applies one of the activations to a value of the group."""
    values = [op.results[0] for op in group]
    return any(activations.may_hold_one(op, names) for op in group[1:]) and any(
        activations.classify(start(after), start(before), names) is not None
        for i, before in enumerate(values)
        for after in values[i + 1 :]
        if ops.shape(before) == ops.shape(after)
    )


def silu_of(part: ir.Operation, max_operands: int) -> list[ir.Operation]:
    """The ops that compute SiLU of the part, if it has no other users; else none."""
    chain = epilogue(part, max_operands)
    for end in range(1, len(chain) + 1):
        gate = chain[:end]
        value = gate[-1].results[0]
        if slices.results_of([part, *gate]) != [value]:
            continue
        if reads_in_place(gate, {part.results[0]}, 0) and _is_silu(value, part.results[0]):
            return gate
    return []


def _is_silu(value: ir.Value, of: ir.Value) -> bool:
    return activations.classify(start(value), start(of), ("silu",)) is not None


def reads_in_place(
    group: list[ir.Operation], values: Collection[ir.Value], max_other_rank: int
) -> bool:
    """Whether the ops read the values, and each other, at the loops where they write.

    Args:
      group: elementwise ops, in block order.
      values: the values.
      max_other_rank: largest rank of their other operands.
    """
    known = set(values)
    for op in group:
        *read, written = ops.indexing_maps(op)
        whole = tuple(range(len(ops.iterator_types(op))))
        for value, index_map in zip(ops.inputs(op), read, strict=True):
            if index_map is None or (value in known and index_map != whole):
                return False
            if value not in known and len(index_map) > max_other_rank:
                return False
        if written != whole:
            return False
        known.update(op.results)
    return True


def users_in_place(roots: Sequence[ir.Operation], max_operands: int) -> list[ir.Operation]:
    """The elementwise users of the contractions that read them, and each other, in place.

    Args:
      roots: contractions of one shape, in block order.
      max_operands: operands and results that the dispatch of all may have.

    Returns:
      The users in block order.
    """
    group = list(roots)
    rank = len(ops.shape(roots[0].results[0]))
    work = [op.results[0] for op in roots]
    while work:
        for op in ops.users(work.pop(0)):
            if op in group or op.block != roots[0].block or not _continues(op, group):
                continue
            values = {value for member in group for value in member.results}
            wider = slices.in_order([*group, op])
            bound = len(slices.operands_of(wider)) + len(slices.results_of(wider))
            if (
                reads_in_place([op], values, rank)
                and bound <= max_operands
                and not slices.cycle(wider)
            ):
                group = wider
                work.append(op.results[0])
    return [op for op in group if op not in roots]
