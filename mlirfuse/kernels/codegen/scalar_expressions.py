"""Single scalar ops as expressions of a Triton kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from iree.compiler import ir

from mlirfuse.builders.half_arithmetic import needs_rounding
from mlirfuse.builders.numbers import HALVES
from mlirfuse.kernels.codegen.element_types import TYPES, Unsupported
from mlirfuse.kernels.codegen.scalar_casts import CASTS, cast_expression, unsigned
from mlirfuse.kernels.codegen.scalar_forms import (
    ABOVE,
    BITS,
    BOOLEAN,
    CLASSES,
    COMPARE_FLOAT,
    COMPARE_INTEGER,
    DOUBLE,
    FIRST_UNSIGNED,
    FLOAT,
    INTEGER,
    OF_LARGE_TILES,
    POWERS,
    QUOTIENT,
    SHORT,
    SHORT_OF_HALVES,
    SHORT_OF_TILES,
    SHORT_ROUND,
    UNSIGNED,
)
from mlirfuse.structured.ir import ops

_LESS, _GREATER, _UNORDERED = {4, 5, 11, 12}, {2, 3, 9, 10}, {9, 10, 11, 12}
"""Predicates of `arith.cmpf`."""

_LOGICAL = frozenset({"arith.andi", "arith.ori", "arith.xori", "arith.select"})
"""Ops of integers that are the same for i1."""

_NATIVE = frozenset({"arith.addf", "arith.subf", "arith.mulf"})
"""Ops of f16 that are computed in f16; all others are computed in f32 and rounded."""


_POSITIVE = frozenset({"math.absf", "math.exp", "math.exp2", "math.sqrt"})
"""Ops without results below zero."""

_SMALLEST, _LARGEST = 2.0**-100, 2.0**100
"""Between them a number and its inverse are normal in f32."""


def scalar_expression(
    op: ir.Operation,
    operands: list[str],
    types: Mapping[str, str],
    short: bool,
    *,
    gluon: bool = False,
    large: bool = False,
) -> str:
    """One op as an expression.

    Args:
      op: the op.
      operands: names of its operands.
      types: element types in Triton's spelling; f16 may be computed in f32.
      short: whether the op is computed in f32, and its result or the kernel's are rounded to 16
        bits or less; one of f16 or bf16 that is not computed in f32 is rounded in any case.
      gluon: whether the kernel is Gluon's.
      large: whether a thread has many elements of a tile.

    Raises:
      Unsupported: the op has no form.
    """
    if len(op.results) != 1:
        raise Unsupported(op.name)
    kind = str(op.results[0].type)
    if kind not in types or any(str(v.type) not in types for v in op.operands):
        raise Unsupported(f"{op.name} of type {kind}")
    source = str(op.operands[0].type) if len(op.operands) else kind
    if "i4" in (kind, source) and op.name not in ("arith.extsi", "arith.sitofp"):
        raise Unsupported(f"{op.name} of an i4")
    if op.name in CASTS:
        return cast_expression(op.name, operands[0], source, kind, types)
    if op.name == "arith.cmpi":
        return _comparison(op.attributes["predicate"].value, operands, source, types)
    if op.name == "arith.cmpf":
        if source in HALVES and types[source] != TYPES[source] and needs_rounding(op):
            casts = f".to({TYPES[source]}).to({types[source]})"
            operands = [f"{name}{casts}" for name in operands]
        return COMPARE_FLOAT[op.attributes["predicate"].value].format(*operands)
    if op.name in UNSIGNED and kind != "i1":
        wide = [unsigned(name, kind, types) for name in operands]
        return f"({UNSIGNED[op.name].format(*wide)}).to({types[kind]}, bitcast=True)"
    if op.name in BITS and kind != "i1":
        return f"{BITS[op.name].format(unsigned(operands[0], kind, types))}.to({types[kind]})"
    if kind == "i1" and op.name in BOOLEAN:
        return BOOLEAN[op.name].format(*operands)
    form = bound_expression(op) or _constant_power(op)
    form = form or FLOAT.get(op.name) or CLASSES.get(op.name)
    if form is None and (kind != "i1" or op.name in _LOGICAL):
        form = INTEGER.get(op.name)
    if form is None:
        raise Unsupported(f"{op.name} of type {kind}")
    if kind == "f64":
        form = DOUBLE.get(op.name, form)
    narrow = types[kind] != "tl.float32" and (
        kind == "bf16" or (kind == "f16" and op.name not in _NATIVE)
    )
    if narrow or short:
        form = SHORT.get(op.name, form)
        if kind == "f16" and not gluon:
            form = SHORT_OF_HALVES.get(op.name, form)
        elif large and not gluon:
            form = SHORT_OF_TILES.get(op.name, form)
    elif large and kind == "f32" and not gluon:
        form = OF_LARGE_TILES.get(op.name, form)
    if op.name == "math.exp" and kind == "f32" and _loses_subnormal(op):
        form = SHORT[op.name]
    if op.name == "math.roundeven" and narrow:
        form = SHORT_ROUND
    # Numbers of f16 are normal in f32, and so are their inverses.
    if op.name == "arith.divf" and kind != "f64":
        form = QUOTIENT if kind == "f16" or _least(op.operands[1]) >= _SMALLEST else form
    if op.name in FLOAT and narrow:
        text = form.format(*(f"{name}.to(tl.float32)" for name in operands))
        return f"({text}).to({types[kind]})"
    return form.format(*operands)


def _comparison(
    predicate: int, operands: Sequence[str], source: str, types: Mapping[str, str]
) -> str:
    """A comparison of integers; true is above false for unsigned predicates, else below it."""
    signed = predicate < FIRST_UNSIGNED
    form = COMPARE_INTEGER[predicate if signed else predicate - FIRST_UNSIGNED + 2]
    if form in (COMPARE_INTEGER[0], COMPARE_INTEGER[1]):
        return form.format(*operands)
    if source == "i1":
        numbers = [f"{name}.to(tl.int32)" for name in operands]
        return form.format(*(numbers[::-1] if signed else numbers))
    return form.format(*(operands if signed else (unsigned(o, source, types) for o in operands)))


def plus_one_operand(op: ir.Operation, *, short: bool) -> ir.Operation | None:
    """The op of `ABOVE` to which an op adds one; None for other ops.

    Args:
      op: the op.
      short: whether it is computed in f32 for fewer bits; one of f32 is computed in f32 anyway.
    """
    if op.name != "arith.addf" or not (short or str(op.results[0].type) == "f32"):
        return None
    first, second = op.operands
    for value, other in ((first, second), (second, first)):
        inner = ops.defining_op(value)
        if inner is not None and inner.name in ABOVE and ops.constant(other) == 1.0:
            return inner
    return None


def _loses_subnormal(op: ir.Operation) -> bool:
    """Whether users of a number of f32 add constants to it, beside which a subnormal one is zero.

    So the exponential of a sigmoid needs no scaling, which takes three of five instructions: Triton
    computes `exp2` without subnormal results, and `exp` with them.
    """
    users = [use.owner.operation for use in op.results[0].uses]
    return bool(users) and all(
        user.name == "arith.addf"
        and any(abs(ops.constant(v) or 0.0) >= _SMALLEST for v in user.operands)
        for user in users
    )


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


def _least(value: ir.Value) -> float:
    """A number that a float is not below unless it is NaN, by its op and theirs; -inf for none.

    So the divisor of a sigmoid, 1 + exp(-x), is at least one.
    """
    number, op = ops.constant(value), ops.defining_op(value)
    if isinstance(number, float):
        return number
    if op is None:
        return -math.inf
    if op.name in _POSITIVE or (op.name == "arith.mulf" and op.operands[0] == op.operands[1]):
        return 0.0
    if op.name in ("arith.extf", "arith.truncf"):
        return _least(op.operands[0])
    if op.name in ("arith.addf", "arith.mulf"):
        first, second = (_least(operand) for operand in op.operands)
        if op.name == "arith.addf":
            return first + second
        return first * second if min(first, second) >= 0.0 else -math.inf
    if op.name in ("arith.maximumf", "arith.maxnumf"):
        return max(_least(operand) for operand in op.operands)
    return -math.inf


def is_folded(op: ir.Operation, *, short: bool) -> bool:
    """Whether an op is computed only as a part of its users; arguments as `plus_one_operand`."""
    if op.name in ABOVE:
        users = [use.owner.operation for use in op.results[0].uses]
        found = [plus_one_operand(user, short=short) for user in users]
        return bool(found) and all(inner is not None and inner == op for inner in found)
    if op.name == "math.sqrt" and short:
        users = [use.owner.operation for use in op.results[0].uses]
        return bool(users) and all(
            constant_divisor(user) is not None and user.operands[0] != op.results[0]
            for user in users
        )
    return False


def _constant_power(op: ir.Operation) -> str | None:
    """The form of a power whose exponent is a constant that needs no logarithm."""
    exponent = ops.constant(op.operands[1]) if op.name == "math.powf" else None
    return POWERS.get(exponent) if isinstance(exponent, float) else None


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
