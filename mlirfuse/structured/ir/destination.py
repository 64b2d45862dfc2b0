"""Producers that can write their result into a slice of a larger tensor."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.ir import fusable_neighbors, ops, slices


@dataclasses.dataclass(frozen=True, slots=True)
class Writer:
    """The producer of a value with one user.

    Attributes:
      ops: the dispatch region, or the elementwise ops that become one, in block order.
      is_region: whether the producer is a dispatch region already.
    """

    ops: tuple[ir.Operation, ...]
    is_region: bool


def writer(value: ir.Value, user: ir.Operation) -> Writer | NoMatch | None:
    """The region, or the elementwise ops, that can write the value directly into its destination.

    Args:
      value: the value.
      user: the op that inserts it into a larger tensor.

    Returns:
      The writer; a refusal; None when the producer is neither a region nor elementwise.
    """
    op = ops.defining_op(value)
    if op is None or op.block != user.block:
        return None
    is_region = op.name == ops.REGION
    if not is_region and not _is_free(op):
        return None
    if ops.users(value) != [user]:
        return NoMatch(Reason.EXTRA_USERS, "the inserted value has other users")
    if len(op.results) != 1:
        return NoMatch(
            Reason.EXTRA_USERS, "the region that computes the inserted value has other results"
        )
    if is_region and _writes_a_part(op):
        return NoMatch(Reason.STRUCTURE, "the region writes a part of the inserted value")
    return Writer((op,) if is_region else tuple(with_feeders([op])), is_region)


def _writes_a_part(region: ir.Operation) -> bool:
    """Whether the region's result is a tensor of which it writes a part.

    IREE cannot bufferize an insertion of it: the other parts would have to be copied.
    """
    end = ops.defining_op(ops.yielded_value(region.results[0]))
    return end is not None and end.name == "tensor.insert_slice"


def _is_free(op: ir.Operation) -> bool:
    """Whether the op is elementwise arithmetic, in no region, and no epilogue of a contraction."""
    if not ops.is_elementwise(op) or ops.in_region(op) or not fusable_neighbors.has_scalar_body(op):
        return False
    return not fusable_neighbors.is_epilogue_of_compute(op)


def with_feeders(users: list[ir.Operation]) -> list[ir.Operation]:
    """The ops and the elementwise producers that only they use, in block order.

    Epilogues of contractions stay out.
    """
    return slices.in_order([*users, *slices.exclusive_producers(users, _is_free)])
