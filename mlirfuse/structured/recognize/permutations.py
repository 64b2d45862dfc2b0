"""Transposing copies, and orders of dimensions."""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.structured.ir import ops

Order = tuple[int, ...]
"""For each dimension of a result the dimension of the operand."""


def transposed_order(op: ir.Operation) -> Order | None:
    """The order in which a copy has the dimensions of its operand.

    Returns:
      None for any other op, for a broadcast, and for a copy in the same order.
    """
    if not ops.is_generic(op) or not ops.is_projection(op) or None in ops.indexing_maps(op):
        return None
    source, result = ops.plain_maps(op)
    if None in source or sorted(map(str, source)) != sorted(map(str, result)):
        return None
    order = tuple(source.index(loop) for loop in result)
    return None if order == tuple(range(len(order))) else order
