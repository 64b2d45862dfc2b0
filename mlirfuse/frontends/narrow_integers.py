"""Converts floating-point numbers to integers of 8 and 16 bits by way of 32 bits.

  %i = arith.fptosi %x : f32 to i8
becomes
  %w = arith.fptosi %x : f32 to i32
  %i = arith.trunci %w : i32 to i8
where %x can be outside the range of i8. PyTorch and ONNX keep the low bits of such numbers
(`torch.tensor(210.0).to(torch.uint8)` is 210); of the direct conversion the code generators make
a saturating one on some machines, and 127 of that 210. Clamped numbers keep the direct one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mlirfuse import builders
from mlirfuse.frontends.nan_propagation import extreme
from mlirfuse.structured.ir import ops
from mlirfuse.structured.ir.constants import attribute_number

if TYPE_CHECKING:
    from iree.compiler import ir

_CONVERSIONS = ("arith.fptosi", "arith.fptoui")

_WIDTHS = (8, 16)

_FORWARDING = frozenset(
    {"arith.extf", "arith.truncf"}
    | {f"math.{name}" for name in ("ceil", "floor", "round", "roundeven", "trunc")}
)
"""Ops that leave a number between the same whole bounds."""

_LARGER = frozenset({"arith.maximumf", "arith.maxnumf"})

_SMALLER = frozenset({"arith.minimumf", "arith.minnumf"})

_Bounds = tuple[float, float]

_UNBOUNDED: _Bounds = (-math.inf, math.inf)


def widen_conversions(module: ir.Module) -> bool:
    """Rewrites such conversions; returns whether there are any."""
    found = [op for op in ops.nested_ops(module.operation) if op.name in _CONVERSIONS]
    return any([_rewrite(op) for op in found])


def _rewrite(conversion: ir.Operation) -> bool:
    from iree.compiler import ir

    result = conversion.results[0]
    if not isinstance(result.type, ir.IntegerType) or result.type.width not in _WIDTHS:
        return False
    width, signed = result.type.width, conversion.name == "arith.fptosi"
    least = -(2 ** (width - 1)) if signed else 0
    low, high = _bounds(conversion.operands[0])
    if least <= low and high < least + 2**width:
        return False
    with conversion.location, ir.InsertionPoint(conversion):
        wide = builders.scalar("arith.fptosi", [conversion.operands[0]], "i32")
        narrow = builders.scalar("arith.trunci", [wide], str(result.type))
    result.replace_all_uses_with(narrow)
    conversion.erase()
    return True


def _bounds(value: ir.Value) -> _Bounds:
    """The least and the largest number that a value, or an element of it, can be; NaN apart."""
    from iree.compiler import ir

    owner = value.owner
    if isinstance(owner, ir.Block):
        generic = owner.owner
        number = ir.BlockArgument(value).arg_number
        if generic.name != "linalg.generic" or number >= len(ops.inputs(generic)):
            return _UNBOUNDED
        return _bounds(ops.inputs(generic)[number])
    if owner.name == "linalg.generic":
        results = list(owner.regions[0].blocks[0].operations)[-1].operands
        return _bounds(results[ir.OpResult(value).result_number])
    if owner.name == "arith.constant":
        constant = attribute_number(owner.attributes["value"])
        return _UNBOUNDED if constant is None else (constant, constant)
    if owner.name in _FORWARDING:
        return _bounds(owner.operands[0])
    name = extreme(owner) if owner.name == "arith.select" else owner.name
    chosen = max if name in _LARGER else min if name in _SMALLER else None
    if chosen is None:
        return _UNBOUNDED
    (low, high), (other_low, other_high) = (_bounds(value) for value in list(owner.operands)[-2:])
    return chosen(low, other_low), chosen(high, other_high)
