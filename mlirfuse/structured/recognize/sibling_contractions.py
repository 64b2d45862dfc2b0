"""Contractions that share their first operand and can become one."""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.structured.ir import ops, slices


def takes_columns(contraction: ir.Operation) -> bool:
    """Whether the second operand alone has the last dimension, and the sums start constant."""
    if None in ops.indexing_maps(contraction):
        return False
    left, right, out = ops.plain_maps(contraction)
    starts = ops.constant(contraction.operands[2]) is not None
    return bool(out) and out[-1] not in left and right.count(out[-1]) == 1 and starts


def are_siblings(one: ir.Operation, other: ir.Operation) -> bool:
    """Whether two contractions have the first operand and all loops but the columns in common."""
    if not (takes_columns(one) and takes_columns(other)):
        return False
    (left, _, out), (other_left, _, other_out) = ops.plain_maps(one), ops.plain_maps(other)
    return (
        one.operands[0] == other.operands[0]
        and (left, out) == (other_left, other_out)
        and ops.iterator_types(one) == ops.iterator_types(other)
        and ops.element_type(one.operands[1]) == ops.element_type(other.operands[1])
        and ops.element_type(one.results[0]) == ops.element_type(other.results[0])
    )


UNWRITABLE = "a product of dynamic shape is a result itself, which IREE cannot write beside others"
"""IREE 3.13.0 gives several products one accumulator when nothing follows them: the code generation
for GPUs fails to bufferize it where the shape is dynamic."""


def siblings(contraction: ir.Operation) -> list[ir.Operation]:
    """The contractions of the block that `are_siblings` of this one and itself, in block order."""
    block = contraction.block
    readers = (op for op in ops.users(contraction.operands[0]) if op.block == block)
    return slices.in_order(
        op for op in readers if ops.is_contraction(op) and are_siblings(contraction, op)
    )
