"""Users of the indices that sort rows: the same indices as i64, and gathers of the elements."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.orders import Order

_CASTS = frozenset({"arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast"})
_INDEX_BITS = 32

_SLT, _SGE = 2, 5
"""Predicates of `arith.cmpi`."""


@dataclasses.dataclass(frozen=True, slots=True)
class SortResult:
    """A tensor of the first elements of sorted rows.

    Attributes:
      value: the tensor.
      payload: the tensor whose elements it has; None for their indices.
      axes: for each dimension of the sorted tensor that of `value`.
    """

    value: ir.Value
    payload: ir.Value | None
    axes: tuple[int, ...]


def exclusive(found: Order) -> set[ir.Operation]:
    """The ops of indices that only the root and each other use, with the root."""
    left = {*found.group}
    while True:
        others = {
            op
            for op in left
            if op != found.root and any(user not in left for user in ops.users(op.results[0]))
        }
        if not others:
            return left
        left -= others


def with_users(
    root: SortResult, found: Order, *, takes_gathers: bool
) -> tuple[list[ir.Operation], list[SortResult]]:
    """The ops that copy the indices or gather with them, and all results.

    Args:
      root: the indices.
      found: their computation.
      takes_gathers: whether gathers are wanted.
    """
    group: list[ir.Operation] = []
    results = [root]
    work = [root]
    while work:
        indices = work.pop()
        for user in dict.fromkeys(ops.users(indices.value)):
            if user.block != found.root.block or user in group or not _reads_alone(user, indices):
                continue
            made = _copied(user, indices)
            if made is not None:
                work.append(made)
            elif takes_gathers:
                made = _gathered(user, indices, found)
            if made is not None:
                group.append(user)
                results.append(made)
    return group, results


def _reads_alone(user: ir.Operation, indices: SortResult) -> bool:
    """Whether an elementwise op reads these indices, no other tensor, and no inits."""
    return (
        ops.is_elementwise(user)
        and len(user.results) == 1
        and ops.inputs(user) == [indices.value]
        and not ops.reads_inits(user)
        and None not in ops.indexing_maps(user)
        and None not in ops.plain_maps(user)[0]
        and None not in ops.shape(user.results[0])
    )


def _axes(user: ir.Operation, indices: SortResult) -> tuple[int, ...] | None:
    """The dimensions of a user's result that are those of the sorted tensor."""
    read, written = ops.plain_maps(user)
    if sorted(n for n in read if n is not None) != sorted(n for n in written if n is not None):
        return None
    return tuple(written.index(read[axis]) for axis in indices.axes)


def _copied(user: ir.Operation, indices: SortResult) -> SortResult | None:
    """The indices in another type or layout."""
    *body, end = [view.operation for view in ops.body(user).operations]
    value = ops.body(user).arguments[0]
    for op in body:
        if op.name not in _CASTS or op.operands[0] != value or not _is_wide(op.results[0]):
            return None
        value = op.results[0]
    axes = _axes(user, indices)
    if end.operands[0] != value or axes is None:
        return None
    return SortResult(user.results[0], None, axes)


def _is_wide(value: ir.Value) -> bool:
    """Whether an integer holds every index."""
    kind = str(value.type)
    return kind == "index" or int(kind.lstrip("i")) >= _INDEX_BITS


def _gathered(user: ir.Operation, indices: SortResult, found: Order) -> SortResult | None:
    """The elements of a tensor of the sorted one's sizes, at these indices."""
    block = ops.body(user)
    index: dict[ir.Value, int] = {}
    places = {block.arguments[0]}
    extracted: ir.Operation | None = None
    columns = ops.shape(found.source)[found.dimension]
    safe: set[ir.Value] = set()
    *body, end = [view.operation for view in block.operations]
    for op in body:
        if op.name == "linalg.index":
            index[op.results[0]] = int(op.attributes["dim"].value)
        elif op.name == "arith.index_cast" and op.operands[0] in places:
            places.add(op.results[0])
        elif op.name == "arith.cmpi" and op.operands[0] in places:
            limit, kind = ops.constant(op.operands[1]), int(op.attributes["predicate"].value)
            if limit is None or (kind, limit) not in ((_SLT, columns), (_SGE, 0)):
                return None
            safe.add(op.results[0])
        elif op.name == "tensor.extract" and extracted is None:
            extracted = op
        elif op.name != "cf.assert" or op.operands[0] not in safe:
            return None
    axes = _axes(user, indices)
    if extracted is None or axes is None or list(end.operands) != list(extracted.results):
        return None
    payload, *at = extracted.operands
    if ops.shape(payload) != ops.shape(found.source):
        return None
    written = ops.plain_maps(user)[1]
    for axis, value in enumerate(at):
        if axis == found.dimension:
            if value not in places:
                return None
        elif index.get(value, -1) != written[axes[axis]]:
            return None
    return SortResult(user.results[0], payload, axes)
