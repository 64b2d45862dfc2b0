"""Contractions of the same first operand, which one dispatch can compute."""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.structured.ir import ops, slices


def has_plain_n(contraction: ir.Operation) -> bool:
    """Whether the result's last loop is one N loop of the second operand, with a constant init."""
    if None in ops.indexing_maps(contraction):
        return False
    left, right, out = ops.plain_maps(contraction)
    is_filled = ops.constant(contraction.operands[2]) is not None
    return bool(out) and out[-1] not in left and right.count(out[-1]) == 1 and is_filled


def are_siblings(one: ir.Operation, other: ir.Operation) -> bool:
    """Whether two contractions share the first operand and all loops but N."""
    if not (has_plain_n(one) and has_plain_n(other)):
        return False
    (left, _, out), (other_left, _, other_out) = ops.plain_maps(one), ops.plain_maps(other)
    return (
        one.operands[0] == other.operands[0]
        and (left, out) == (other_left, other_out)
        and ops.iterator_types(one) == ops.iterator_types(other)
        and ops.element_type(one.operands[1]) == ops.element_type(other.operands[1])
        and ops.element_type(one.results[0]) == ops.element_type(other.results[0])
    )


UNWRITABLE_DETAIL = "a dynamic contraction without an epilogue, as one of several results"
"""IREE 3.13.0 gives several contractions without epilogues one accumulator, which its GPU code
generation fails to bufferize where the shape is dynamic."""


def siblings(contraction: ir.Operation) -> list[ir.Operation]:
    """The contraction and its siblings in the block (see `are_siblings`), in block order."""
    block = contraction.block
    users = (op for op in ops.users(contraction.operands[0]) if op.block == block)
    return slices.in_order(
        op for op in users if ops.is_contraction(op) and are_siblings(contraction, op)
    )
