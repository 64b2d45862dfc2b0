"""Copies that transpose or repeat a tensor, and orders of dimensions."""

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


def broadcast(value: ir.Value) -> ir.Operation | None:
    """The op that broadcasts a tensor of fewer dimensions to a value; None for any other value."""
    op = ops.defining_op(value)
    if op is None or not ops.is_projection(op) or None in ops.indexing_maps(op):
        return None
    return op if len(ops.shape(op.operands[0])) < len(ops.shape(value)) else None


def read_at_source(copy: ir.Operation, index_map: ops.IndexMap) -> ops.IndexMap:
    """The map by which the source of a copy is read, for that by which the copy is."""
    source, written = ops.plain_maps(copy)
    return tuple(None if loop is None else index_map[written.index(loop)] for loop in source)
