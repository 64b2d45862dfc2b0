"""Who computes a value, and whether it can write it into a part of a larger tensor."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.ir import fusable_neighbors, ops, slices


@dataclasses.dataclass(frozen=True, slots=True)
class Writer:
    """What computes a value that one op alone reads.

    Attributes:
      ops: the group that computes it, or the elementwise ops that become one, in block order.
      formed: whether it is a group already.
    """

    ops: tuple[ir.Operation, ...]
    formed: bool


def writer(value: ir.Value, reader: ir.Operation) -> Writer | NoMatch | None:
    """Finds the group, or the elementwise ops, that can write the value where the reader puts it.

    Returns:
      The writer, why there is none, or None when nothing of a kind that a group is made of
      computes the value.
    """
    op = ops.defining_op(value)
    if op is None or op.block != reader.block:
        return None
    formed = op.name == ops.REGION
    if not formed and not _is_free(op):
        return None
    if ops.users(value) != [reader]:
        return NoMatch(Reason.EXTRA_USERS, "the part is read elsewhere too")
    if len(op.results) != 1:
        return NoMatch(Reason.EXTRA_USERS, "the group that computes the part has further results")
    return Writer((op,) if formed else tuple(with_feeders([op])), formed)


def _is_free(op: ir.Operation) -> bool:
    """Whether the op is elementwise arithmetic and no other op's epilogue."""
    if not ops.is_elementwise(op) or ops.in_region(op) or not fusable_neighbors.has_scalar_body(op):
        return False
    return not fusable_neighbors.is_epilogue_of_compute(op)


def with_feeders(users: list[ir.Operation]) -> list[ir.Operation]:
    """The ops and the elementwise producers that only they use, in block order.

    Epilogues of contractions stay out.
    """
    return slices.in_order([*users, *slices.exclusive_producers(users, _is_free)])
