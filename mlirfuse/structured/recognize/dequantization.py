"""Recognition of a contraction's operand that is dequantized: integers, scales, zero points."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize import epilogues

NARROW = frozenset({"i4", "i8"})
"""Element types of a quantized weight."""

INTEGERS = NARROW | {"i16", "i32"}
"""Element types on the way to floating-point numbers: a zero point is taken off in one of them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Dequantized:
    """Which operand of a contraction is dequantized, and how.

    Attributes:
      number: of the contraction's operand.
      weight: the integers.
      steps: the ops that compute it, in block order, without the reshape.
      reshape: what joins the groups behind them, or None.
      epilogue: what follows the contraction elementwise, in block order.
    """

    number: int
    weight: ir.Value
    steps: list[ir.Operation]
    reshape: ir.Operation | None
    epilogue: list[ir.Operation]


def dequantized(root: ir.Operation, number: int, limit: int) -> Dequantized | NoMatch | None:
    """How an operand of a contraction is dequantized; None where it is not.

    Args:
      root: the contraction.
      number: of the operand.
      limit: operands and results of a group.
    """
    value = root.operands[number]
    reshape = ops.defining_op(value)
    if reshape is not None and reshape.name == "tensor.collapse_shape":
        value = reshape.operands[0]
    else:
        reshape = None
    if ops.element_type(value) in INTEGERS:
        return None
    steps = _steps(value, root.block)
    weights = [v for v in slices.operands_of(steps) if ops.element_type(v) in NARROW]
    whole = [v for v in weights if ops.shape(v) == ops.shape(value)]
    if not steps or not whole:
        return None
    if len(whole) > 1:
        return NoMatch(Reason.STRUCTURE, "two tensors of integers make the operand")
    wide = [v for v in slices.operands_of(steps) if v not in weights and _is_wide(v, value)]
    if wide:
        return NoMatch(Reason.STRUCTURE, "a scale has as many elements as the weight")
    if reshape is not None:
        kinds, read = ops.iterator_types(root), ops.plain_maps(root)[number]
        joined = [d for d, g in zip(read, ops.reassociation(reshape), strict=True) if len(g) > 1]
        if any(d is None or kinds[d] != "reduction" for d in joined):
            return NoMatch(Reason.WRONG_AXIS, "the groups are not along the sum")
        if any(size is None for size in ops.shape(value)):
            return NoMatch(Reason.DYNAMIC_SHAPE, "the size of a group is dynamic")
    members = {*steps, root} | ({reshape} if reshape else set())
    for op in members - {root}:
        if any(reader not in members for r in op.results for reader in ops.users(r)):
            return NoMatch(Reason.EXTRA_USERS, "the dequantized weight is read elsewhere")
    return Dequantized(number, whole[0], steps, reshape, epilogues.epilogue(root, limit))


def _is_wide(value: ir.Value, weight: ir.Value) -> bool:
    sizes = (ops.num_elements(v, ops.ASSUMED_DYNAMIC_SIZE) for v in (value, weight))
    return next(sizes) >= next(sizes)


def _steps(value: ir.Value, block: ir.Block) -> list[ir.Operation]:
    """The elementwise ops that compute the value from tensors of integers and smaller ones."""
    found: dict[ir.Operation, None] = {}
    work = [value]
    while work:
        op = ops.defining_op(work.pop())
        if op is None or op in found or op.block != block or ops.in_region(op):
            continue
        if ops.is_elementwise(op) and len(op.results) == 1 and not ops.reads_index(op):
            found[op] = None
            work += [v for v in ops.inputs(op) if ops.element_type(v) not in NARROW]
    return slices.in_order(found)
