"""Orders of a region's ops by which registers hold little at a time."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.row_reductions import reduces
from mlirfuse.structured.ir import ops


def late_order(
    group: Sequence[ir.Operation], results: Sequence[ir.Value], *, recompute: bool
) -> list[ir.Operation]:
    """The ops in an order in which each stands just before its first user.

    Args:
      group: ops in block order.
      results: the values that they return.
      recompute: whether elementwise ops stand again before their users after each reduction.
    """
    members, order = set(group), []
    placed: set[ir.Operation] = set()

    def place(op: ir.Operation) -> None:
        if op in placed:
            return
        for value in op.operands:
            producer = ops.defining_op(value)
            if producer in members:
                place(producer)
        order.append(op)
        if recompute and reduces(op):
            placed.intersection_update(filter(reduces, group))
        placed.add(op)

    owners = [value.owner for value in results]
    for op in group:
        if reduces(op) or op in owners:
            place(op)
    return order
