"""Single scalar ops as expressions of a Triton kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.structured.ir import ops

FLOAT = {
    "arith.addf": "{0} + {1}",
    "arith.subf": "{0} - {1}",
    "arith.mulf": "{0} * {1}",
    "arith.divf": "{0} / {1}",
    "arith.negf": "-{0}",
    "arith.maximumf": "tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "arith.minimumf": "tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "arith.maxnumf": "tl.maximum({0}, {1})",
    "arith.minnumf": "tl.minimum({0}, {1})",
    "math.absf": "tl.abs({0})",
    "math.ceil": "tl.ceil({0})",
    "math.cos": "tl.cos({0})",
    "math.erf": "tl.erf({0})",
    "math.exp": "tl.exp({0})",
    "math.exp2": "tl.exp2({0})",
    "math.floor": "tl.floor({0})",
    "math.fma": "{0} * {1} + {2}",
    "math.log": "tl.log({0})",
    "math.log2": "tl.log2({0})",
    "math.roundeven": "library.round_even({0})",
    "math.rsqrt": "tl.rsqrt({0})",
    "math.sin": "tl.sin({0})",
    "math.sqrt": "tl.sqrt({0})",
    "math.tanh": "library.tanh({0})",
}

SHORT = {
    "math.exp": "tl.exp2({0} * 1.4426950408889634)",
    "math.erf": "library.short_erf({0})",
    "math.tanh": "library.short_tanh({0})",
}
"""Cheaper forms in f32, wrong by 1e-5 of the result, at most."""

ABOVE = {"math.tanh": "2.0 / (tl.exp2({0} * -2.8853900817779268) + 1.0)"}
"""The same of their sum with one, which needs no care near zero: wrong by 1e-6 of the sum."""

_SHORT_ROUND = "library.short_round({0})"

_LESS, _GREATER, _UNORDERED = {4, 5, 11, 12}, {2, 3, 9, 10}, {9, 10, 11, 12}
"""Predicates of `arith.cmpf`."""

_INTEGER = {
    "arith.addi": "{0} + {1}",
    "arith.subi": "{0} - {1}",
    "arith.muli": "{0} * {1}",
    "arith.andi": "{0} & {1}",
    "arith.ori": "{0} | {1}",
    "arith.xori": "{0} ^ {1}",
    "arith.maxsi": "tl.maximum({0}, {1})",
    "arith.minsi": "tl.minimum({0}, {1})",
    "arith.select": "tl.where({0}, {1}, {2})",
}

_CASTS = frozenset(
    {"arith.extf", "arith.truncf", "arith.extsi", "arith.trunci", "arith.index_cast"}
    | {"arith.sitofp", "arith.fptosi"}
)

_NATIVE = frozenset({"arith.addf", "arith.subf", "arith.mulf"})
"""Ops of f16 that are computed in f16; all others are computed in f32 and rounded."""

# Numbers are those of `arith.cmpf` and `arith.cmpi`. A comparison of Triton is ordered, and `!=` is
# not.
_COMPARE_FLOAT = {
    1: "{0} == {1}",
    2: "{0} > {1}",
    3: "{0} >= {1}",
    4: "{0} < {1}",
    5: "{0} <= {1}",
    6: "({0} < {1}) | ({0} > {1})",
    7: "({0} == {0}) & ({1} == {1})",
    8: "({0} == {1}) | ({0} != {0}) | ({1} != {1})",
    9: "({0} > {1}) | ({0} != {0}) | ({1} != {1})",
    10: "({0} >= {1}) | ({0} != {0}) | ({1} != {1})",
    11: "({0} < {1}) | ({0} != {0}) | ({1} != {1})",
    12: "({0} <= {1}) | ({0} != {0}) | ({1} != {1})",
    13: "{0} != {1}",
    14: "({0} != {0}) | ({1} != {1})",
}

_COMPARE_SIGNED = {
    0: "{0} == {1}",
    1: "{0} != {1}",
    2: "{0} < {1}",
    3: "{0} <= {1}",
    4: "{0} > {1}",
    5: "{0} >= {1}",
}


_SMALLEST, _LARGEST = 2.0**-100, 2.0**100
"""Between them a number and its inverse are normal in f32."""


def scalar_expression(
    op: ir.Operation, operands: list[str], types: Mapping[str, str], short: bool
) -> str:
    """One op as an expression."""
    if len(op.results) != 1:
        raise Unsupported(op.name)
    kind = str(op.results[0].type)
    if kind not in types or any(str(v.type) not in types for v in op.operands):
        raise Unsupported(f"{op.name} of type {kind}")
    source = str(op.operands[0].type) if len(op.operands) else kind
    if "i4" in (kind, source) and op.name not in ("arith.extsi", "arith.sitofp"):
        raise Unsupported(f"{op.name} of an i4")
    if op.name in _CASTS:
        if source == "i1" and op.name in ("arith.extsi", "arith.sitofp"):
            raise Unsupported(f"{op.name} of an i1")
        return f"{operands[0]}.to({types[kind]})"
    if op.name in ("arith.extui", "arith.uitofp") and source == "i1":
        return f"{operands[0]}.to({types[kind]})"
    if op.name == "arith.cmpf":
        form = _COMPARE_FLOAT.get(op.attributes["predicate"].value)
    elif op.name == "arith.cmpi":
        form = _COMPARE_SIGNED.get(op.attributes["predicate"].value)
    else:
        form = bound_expression(op) or FLOAT.get(op.name) or _INTEGER.get(op.name)
    if form is None:
        raise Unsupported(op.name)
    if short and types[kind] == "tl.float32":
        form = SHORT.get(op.name, form)
    narrow = types[kind] != "tl.float32" and (
        kind == "bf16" or (kind == "f16" and op.name not in _NATIVE)
    )
    if op.name == "math.roundeven" and narrow:
        form = _SHORT_ROUND
    if op.name in FLOAT and narrow:
        text = form.format(*(f"{name}.to(tl.float32)" for name in operands))
        return f"({text}).to({types[kind]})"
    return form.format(*operands)


def plus_one_operand(op: ir.Operation) -> ir.Operation | None:
    """The op of `ABOVE` to which an op adds one; None for other ops."""
    if op.name != "arith.addf":
        return None
    first, second = op.operands
    for value, other in ((first, second), (second, first)):
        inner = ops.defining_op(value)
        if inner is not None and inner.name in ABOVE and ops.constant(other) == 1.0:
            return inner
    return None


def constant_divisor(op: ir.Operation) -> float | None:
    """The constant, or root of one, by which an op divides; None where there is none.

    Multiplying with the inverse differs in the last bit of f32.
    """
    if op.name != "arith.divf":
        return None
    found = ops.constant(op.operands[1])
    root = ops.defining_op(op.operands[1])
    if root is not None and root.name == "math.sqrt":
        found = ops.constant(root.operands[0])
        found = math.sqrt(found) if isinstance(found, float) and found > 0.0 else None
    return found if isinstance(found, float) and _SMALLEST <= abs(found) <= _LARGEST else None


def is_folded(op: ir.Operation) -> bool:
    """Whether an op is computed only as a part of its users."""
    users = [use.owner.operation for use in op.results[0].uses]
    if op.name in ABOVE:
        found = [plus_one_operand(user) for user in users]
        return bool(found) and all(inner is not None and inner == op for inner in found)
    if op.name == "math.sqrt":
        return bool(users) and all(
            constant_divisor(user) is not None and user.operands[0] != op.results[0]
            for user in users
        )
    return False


def bound_expression(op: ir.Operation) -> str | None:
    """A select that bounds a number by a constant, as one minimum or maximum."""
    if op.name != "arith.select":
        return None
    condition, first, second = op.operands
    compare = ops.defining_op(condition)
    numbers = [ops.constant(first), ops.constant(second)]
    known = [number for number in numbers if isinstance(number, float)]
    if compare is None or compare.name != "arith.cmpf" or len(known) != 1:
        return None
    # Zeros may differ in their sign.
    if known[0] == 0.0 or math.isnan(known[0]):
        return None
    predicate = compare.attributes["predicate"].value
    sides = list(compare.operands)
    if sides not in ([first, second], [second, first]) or predicate not in _LESS | _GREATER:
        return None
    smaller = (predicate in _LESS) == (sides[0] == first)
    function = "tl.minimum" if smaller else "tl.maximum"
    # A NaN selects the first value where the comparison is unordered, else the second.
    taken = numbers[0] if predicate in _UNORDERED else numbers[1]
    kept = "" if taken is not None else ", propagate_nan=tl.PropagateNan.ALL"
    return f"{function}({{1}}, {{2}}{kept}).to({{1}}.dtype)"
