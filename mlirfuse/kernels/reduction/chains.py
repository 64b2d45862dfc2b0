"""Reductions of rows that other reductions of the same rows have changed."""

from __future__ import annotations

from collections.abc import Iterator

from iree.compiler import ir

from mlirfuse.kernels.codegen.row_reductions import reduces
from mlirfuse.kernels.reduction.grouping import is_root, takes
from mlirfuse.structured.ir import fusable_neighbors, ops, slices

_SOFTMAX = "linalg.softmax"

NORM_REDUCTIONS = 2
"""Reductions of a norm, one after the other: its mean, and the squares around it."""


def reduced_again(value: ir.Value, dims: frozenset[int]) -> bool:
    """Whether elementwise ops over the value's loops feed a reduction over these of its dimensions.

    Args:
      value: a tensor.
      dims: numbers of dimensions.
    """
    seen: dict[ir.Operation, None] = {}
    work = [value]
    while work and len(seen) < fusable_neighbors.MAX_GROUP_OPS:
        current = work.pop()
        for user in ops.users(current):
            if user in seen or not _reads_in_order(user, current):
                continue
            seen[user] = None
            if not reduces(user):
                work += user.results
            elif is_root(user) and _reduced_dims(user) == dims:
                return True
    return False


def is_last(root: ir.Operation) -> bool:
    """Whether a reduction ends a chain: it reads rows that another reduction of theirs has changed.

    A sum of squares around the mean is such a one where the variance is a result, and is none in a
    layer norm, whose last op reads it for each element of the row.
    """
    return not _is_broadcast(root) and _waits(root)


def is_behind_norm(root: ir.Operation) -> bool:
    """Whether a reduction reads the rows of a norm: two others, one after the other, precede it.

    A norm or a softmax has at most two itself. One that an op outside of a kernel reads, on whose
    result the reduction depends, does not count: the norm at the other end of a residual.
    """
    ends = [root]
    for _ in range(NORM_REDUCTIONS):
        ends = [*dict.fromkeys(op for end in ends for op in _joined_before(end, root))]
    return bool(ends)


def _joined_before(end: ir.Operation, root: ir.Operation) -> Iterator[ir.Operation]:
    """Reductions over the loops of a root from which one reads, as one kernel may hold both."""
    reached = list(_reached(end))
    between = slices.in_order(op for op in reached if takes(op, end.block))
    for op in reached:
        if is_root(op) and _has_loops(op, root):
            path = {op}
            for other in between:
                if any(ops.defining_op(value) in path for value in other.operands):
                    path.add(other)
            if slices.cycle(slices.in_order([*path, end])) is None:
                yield op


def is_softmax_behind_norm(softmax: ir.Operation) -> bool:
    """Whether a softmax reads rows that a reduction along them has changed."""
    dims = frozenset({ops.softmax_axis(softmax)})
    sizes = ops.shape(softmax.results[0])
    return any(
        is_root(op) and ops.loop_sizes(op) == sizes and _reduced_dims(op) == dims
        for op in _before(softmax)
    )


def normalized_dims(root: ir.Operation) -> frozenset[int] | None:
    """Some of a reduction's dimensions, along which a norm or a softmax precedes it."""
    for op in _before(root):
        if op.name == _SOFTMAX and ops.shape(op.results[0]) == ops.loop_sizes(root):
            dims = frozenset({ops.softmax_axis(op)})
        elif is_root(op) and ops.loop_sizes(op) == ops.loop_sizes(root):
            dims = _reduced_dims(op)
        else:
            continue
        if dims < _reduced_dims(root):
            return dims
    return None


def _has_loops(op: ir.Operation, other: ir.Operation) -> bool:
    return ops.loop_sizes(op) == ops.loop_sizes(other) and _reduced_dims(op) == _reduced_dims(other)


def _waits(root: ir.Operation) -> bool:
    """Whether a reduction reads another one, behind elementwise ops."""
    return any(map(is_root, _before(root)))


def _before(root: ir.Operation) -> Iterator[ir.Operation]:
    """The ops behind elementwise ops from which a reduction reads."""
    return (op for op in _reached(root) if not _is_passed(op))


def _reached(root: ir.Operation) -> Iterator[ir.Operation]:
    """The ops from which a reduction reads, through elementwise ones, and these."""
    seen, work = {root}, [root]
    while work and len(seen) < fusable_neighbors.MAX_GROUP_OPS:
        for value in work.pop().operands:
            op = ops.defining_op(value)
            if op is None or op in seen or op.block != root.block:
                continue
            seen.add(op)
            if _is_passed(op):
                work.append(op)
            yield op


def _is_passed(op: ir.Operation) -> bool:
    return takes(op, op.block) and not reduces(op)


def _is_broadcast(root: ir.Operation) -> bool:
    """Whether an op with more loops than the result has dimensions reads what follows from it."""
    rank = len(ops.shape(root.results[0]))
    seen: set[ir.Operation] = set()
    work = list(root.results)
    while work and len(seen) < fusable_neighbors.MAX_GROUP_OPS:
        for user in ops.users(work.pop()):
            if user in seen or not ops.is_generic(user):
                continue
            if ops.is_elementwise(user) and len(ops.iterator_types(user)) > rank:
                return True
            seen.add(user)
            work += user.results if ops.is_elementwise(user) else []
    return False


def _reads_in_order(user: ir.Operation, value: ir.Value) -> bool:
    """Whether an op over the value's dimensions reads it in their order."""
    if not takes(user, user.block):
        return False
    read = fusable_neighbors.read_map(user, value)
    return fusable_neighbors.is_identity(read, len(ops.iterator_types(user)))


def _reduced_dims(op: ir.Operation) -> frozenset[int]:
    kinds = ops.iterator_types(op)
    return frozenset(n for n, kind in enumerate(kinds) if kind == "reduction")
