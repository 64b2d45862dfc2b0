"""Sums."""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.structured.ir import ops

ADD = "arith.addf"


def is_sum(op: ir.Operation) -> bool:
    """Whether a `linalg.generic` has one result, a sum of f32 that starts from zero."""
    if len(op.results) != 1 or ops.element_type(op.results[0]) != "f32":
        return False
    if ops.constant(ops.inits(op)[0]) != 0:
        return False
    body = ops.body(op)
    total = ops.defining_op(list(body.operations)[-1].operands[0])
    if total is None or total.name != ADD:
        return False
    accumulator = body.arguments[-1]
    uses = list(accumulator.uses)
    return len(uses) == 1 and uses[0].owner.operation == total and accumulator in total.operands
