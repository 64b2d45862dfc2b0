"""Maximum and minimum that propagate NaN, as PyTorch and ONNX define them.

    %0 = arith.cmpf ult, %x, %low : f32
    %1 = arith.select %0, %low, %x : f32             // NaN becomes %low
  becomes
    %1 = arith.maximumf %x, %low : f32               // NaN stays NaN

IREE 3.13 lowers `aten.maximum`, `aten.minimum` and `aten.clamp` to the first form. A comparison and
a selection that the model itself has are two `linalg.generic` at this point, and are not changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlirfuse.structured.ir import ops

if TYPE_CHECKING:
    from iree.compiler import ir

_GREATER = frozenset({2, 3, 9, 10})
"""`ogt`, `oge`, `ugt` and `uge` as predicates of `arith.cmpf`."""

_LESS = frozenset({4, 5, 11, 12})
"""`olt`, `ole`, `ult` and `ule`."""

_UNORDERED = frozenset({9, 10, 11, 12})
"""Predicates that hold where an operand is NaN."""


def propagate_nan(module: ir.Module) -> bool:
    """Rewrites selections of the larger or smaller operand; returns whether there are any."""
    found = [op for op in ops.nested_ops(module.operation) if op.name == "arith.select"]
    return any([_rewrite(op) for op in found])


def extreme(select: ir.Operation) -> str:
    """The op of which a selection has the result, but for NaN: the larger or smaller operand.

    Returns:
      `arith.maximumf` or `arith.minimumf`; empty for other selections.
    """
    from iree.compiler import ir

    condition = select.operands[0].owner
    if isinstance(condition, ir.Block) or condition.name != "arith.cmpf":
        return ""
    compared, chosen = list(condition.operands), list(select.operands)[1:]
    predicate = ir.IntegerAttr(condition.attributes["predicate"]).value
    if predicate not in _GREATER | _LESS or chosen not in (compared, compared[::-1]):
        return ""
    largest = (predicate in _GREATER) == (chosen == compared)
    return "arith.maximumf" if largest else "arith.minimumf"


def _rewrite(select: ir.Operation) -> bool:
    from iree.compiler import ir

    name = extreme(select)
    if not name:
        return False
    condition = select.operands[0].owner
    compared, chosen = list(condition.operands), list(select.operands)[1:]
    predicate = ir.IntegerAttr(condition.attributes["predicate"]).value
    if (predicate in _UNORDERED) == (chosen == compared) and _is_number(compared[1]):
        return False  # ReLU: the first operand alone can be NaN, and it is chosen then
    with select.location, ir.InsertionPoint(select):
        new = ir.Operation.create(name, [select.results[0].type], compared)
    select.results[0].replace_all_uses_with(new.result)
    select.erase()
    if not list(condition.results[0].uses):
        condition.erase()
    return True


def _is_number(value: ir.Value) -> bool:
    """Whether a value is a constant other than NaN."""
    from iree.compiler import ir

    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return False
    constant = owner.attributes["value"]
    if not isinstance(constant, ir.FloatAttr):
        return False
    return bool(constant.value == constant.value)
