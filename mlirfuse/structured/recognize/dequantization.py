"""Recognition of a dequantized operand of a contraction: integers, scales, zero points."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.structured.ir import ops, slices
from mlirfuse.structured.recognize import epilogues

WEIGHT_TYPES = frozenset({"i4", "i8"})
"""Element types of a quantized weight."""

INTEGER_TYPES = WEIGHT_TYPES | {"i16", "i32"}
"""Integer types of a dequantization: the zero point may be subtracted in a wider one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Dequantized:
    """A dequantized operand of a contraction.

    Attributes:
      operand: index of the operand.
      weight: the quantized weight.
      ops: the dequantization, in block order, without the reshape.
      reshape: the collapse of quantization groups after it, or None.
      epilogue: elementwise epilogue of the contraction, in block order.
    """

    operand: int
    weight: ir.Value
    ops: list[ir.Operation]
    reshape: ir.Operation | None
    epilogue: list[ir.Operation]


def dequantized(
    root: ir.Operation, operand: int, max_operands: int
) -> Dequantized | NoMatch | None:
    """Recognizes a dequantized operand of a contraction; None if it is not dequantized.

    Args:
      root: the contraction.
      operand: index of the operand.
      max_operands: operands and results that a dispatch may have.
    """
    value = root.operands[operand]
    reshape = ops.defining_op(value)
    if reshape is not None and reshape.name == "tensor.collapse_shape":
        value = reshape.operands[0]
    else:
        reshape = None
    if ops.element_type(value) in INTEGER_TYPES:
        return None
    chain = _dequantization(value, root.block)
    weights = [v for v in slices.operands_of(chain) if ops.element_type(v) in WEIGHT_TYPES]
    whole = [v for v in weights if ops.shape(v) == ops.shape(value)]
    if not chain or not whole:
        return None
    if len(whole) > 1:
        return NoMatch(Reason.STRUCTURE, "the operand is computed from two quantized tensors")
    wide = [v for v in slices.operands_of(chain) if v not in weights and _is_wide(v, value)]
    if wide:
        return NoMatch(Reason.STRUCTURE, "a scale has as many elements as the weight")
    if reshape is not None:
        kinds, read = ops.iterator_types(root), ops.plain_maps(root)[operand]
        collapsed = [d for d, g in zip(read, ops.reassociation(reshape), strict=True) if len(g) > 1]
        if any(d is None or kinds[d] != "reduction" for d in collapsed):
            return NoMatch(Reason.WRONG_AXIS, "the quantization groups are not along K")
        if any(size is None for size in ops.shape(value)):
            return NoMatch(Reason.DYNAMIC_SHAPE, "the quantization group size is dynamic")
    members = {*chain, root} | ({reshape} if reshape else set())
    for op in members - {root}:
        if any(user not in members for r in op.results for user in ops.users(r)):
            return NoMatch(Reason.EXTRA_USERS, "the dequantized weight has other users")
    epilogue = epilogues.epilogue(root, max_operands)
    return Dequantized(operand, whole[0], chain, reshape, epilogue)


def _is_wide(value: ir.Value, weight: ir.Value) -> bool:
    sizes = (ops.num_elements(v, ops.ASSUMED_DYNAMIC_SIZE) for v in (value, weight))
    return next(sizes) >= next(sizes)


def _dequantization(value: ir.Value, block: ir.Block) -> list[ir.Operation]:
    """The elementwise ops that compute the value from integers, scales and zero points."""
    found: dict[ir.Operation, None] = {}
    work = [value]
    while work:
        op = ops.defining_op(work.pop())
        if op is None or op in found or op.block != block or ops.in_region(op):
            continue
        if ops.is_elementwise(op) and len(op.results) == 1 and not ops.reads_index(op):
            found[op] = None
            work += [v for v in ops.inputs(op) if ops.element_type(v) not in WEIGHT_TYPES]
    return slices.in_order(found)
