"""Elementwise operators that IREE 3.13 lowers wrongly for some operands, or not at all."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from mlirfuse.frontends.onnx_repairs.builder import Node
from mlirfuse.frontends.onnx_repairs.values import (
    FLOATS,
    SIGNED,
    UNSIGNED,
    Unsupported,
    Value,
    numpy_type,
)


def bit_shift(node: Node) -> Value:
    """A shift by the width or more is 0, and one of unsigned integers shifts in zeros."""
    value, count = node.operand(0), node.operand(1)
    width = 8 * numpy_type(value.dtype).itemsize
    if value.dtype not in UNSIGNED:
        raise Unsupported("signed")
    # In a wider type no bit is the sign.
    wide = TensorProto.INT64
    if width == 64:
        limited = node.builder.emit("Min", count, count.lifted(width - 1))
        shifted = _shift_64(node, value, limited)
        return (count < width).where(shifted, value.lifted(0))
    left = node.attribute("direction") == "LEFT"
    # 2 ** count, which is beyond the width where the result is 0.
    table = node.builder.constant(1 << np.minimum(np.arange(64, dtype=np.int64), 32))
    index = count.cast(wide)
    index = (index > 63).where(index.lifted(63), index)
    power = table.take(index, 0)
    moved = value.cast(wide)
    moved = moved * power if left else moved / power
    inside = index < width
    return inside.where(moved, moved.lifted(0)).cast(value.dtype)


def _shift_64(node: Node, value: Value, count: Value) -> Value:
    """A shift of 64 bits; IREE's of right shifts copies the sign, which is masked."""
    builder = node.builder
    direction = node.attribute("direction")
    signed, steps = value.cast(TensorProto.INT64), count.cast(TensorProto.INT64)
    if direction == "LEFT":
        powers = (np.uint64(1) << np.arange(64, dtype=np.uint64)).view(np.int64)
        return (signed * builder.constant(powers).take(steps, 0)).cast(value.dtype)
    # Half of the value has no sign; its lowest bit falls out of all shifts by 1 or more.
    half = builder.emit("BitShift", value, value.lifted(1), direction="RIGHT").cast(
        TensorProto.INT64
    )
    half = (half < 0).where(half + np.iinfo(np.int64).min, half)
    powers = np.left_shift(1, np.minimum(np.arange(64) - 1, 62).clip(0), dtype=np.int64)
    moved = half / builder.constant(powers).take(steps, 0)
    return (steps < 1).where(signed, moved).cast(value.dtype)


def bit_cast(node: Node) -> Value:
    """BitCast by the torch dialect's op."""
    return node.builder.bitcast(node.operand(0), node.attribute("to"))


def matmul(node: Node) -> Value:
    """MatMul of a vector and a tensor of more than two dimensions."""
    left, right = node.operand(0), node.operand(1)
    if (left.rank > 1 and right.rank > 1) or max(left.rank, right.rank) < 3:
        raise Unsupported("no vector")
    if left.rank == 1:
        return (left.unsqueeze(0) @ right).squeeze(-2)
    return (left @ right.unsqueeze(1)).squeeze(-1)


def mod(node: Node) -> Value | None:
    """The remainder of float64, for which IREE 3.13 calls a function that no program has."""
    value, divisor = node.operand(0), node.operand(1)
    if value.dtype != TensorProto.DOUBLE:
        return None
    builder, zero = node.builder, value.lifted(0.0)
    quotient = value / divisor
    floor = builder.add("Floor", quotient)
    infinite = builder.add("IsInf", divisor)
    if node.attribute("fmod", 0):
        whole = (quotient < 0.0).where(builder.add("Ceil", quotient), floor)
        beyond = value
    else:
        whole = floor
        crosses = ((value < 0.0) & (divisor > 0.0)) | ((value > 0.0) & (divisor < 0.0))
        beyond = crosses.where(divisor, value)
    # An infinite divisor goes in 0 times, or -1 times.
    beyond = builder.add("IsInf", value).where(zero / zero, beyond)
    return infinite.where(beyond, value - whole * divisor)


def softsign(node: Node) -> Value:
    """Softsign by its definition."""
    value = node.operand(0)
    return value / (abs(value) + 1.0)


def power(node: Node) -> Value:
    """Pow of tensors, for which IREE 3.13 computes NaN where the base is negative."""
    base, exponent = node.operand(0), node.operand(1)
    if base.dtype in SIGNED and exponent.dtype in SIGNED:
        return _integer_power(base, exponent)
    if base.dtype not in FLOATS:
        wide = node.builder.add("Pow", base.cast(TensorProto.DOUBLE), exponent)
        whole = node.builder.add("Floor", exponent).equals(exponent) & (exponent >= 0.0)
        return whole.where(node.builder.add("Round", wide), wide).cast(base.dtype)
    if exponent.dtype != base.dtype:
        return node.builder.add("Pow", base, exponent.cast(base.dtype))
    if exponent.array is not None and exponent.array.size == 1:
        raise Unsupported("a constant exponent")
    return _float_power(node, base, exponent)


def _float_power(node: Node, base: Value, exponent: Value) -> Value:
    """The power of the magnitude, with the sign of an odd exponent."""
    builder = node.builder
    magnitude = builder.emit("Pow", abs(base), exponent)
    half = exponent * 0.5
    whole = builder.add("Floor", exponent).equals(exponent)
    odd = whole & ~builder.add("Floor", half).equals(half)
    # 1 / -0.0 is below zero, too.
    below = (base < 0.0) | (base.equals(0.0) & ((base.lifted(1.0) / base) < 0.0))
    signed = (below & odd).where(-magnitude, magnitude)
    infinite = builder.add("IsInf", base)
    found = ((base < 0.0) & ~whole & ~infinite).where(base.lifted(np.nan), signed)
    return (exponent.equals(0.0) | base.equals(1.0)).where(base.lifted(1.0), found)


def _integer_power(base: Value, exponent: Value) -> Value:
    """The product of the powers of the base by 1, 2, 4, ... that the exponent holds."""
    dtype = base.dtype
    rest = exponent.cast(TensorProto.INT64)
    negative = rest < 0
    odd = ~(rest / 2 * 2).equals(rest)
    # Products of integers are those of their lowest bits.
    factor = base.cast(TensorProto.INT64)
    result = factor.lifted(1)
    for _ in range(_exponent_bits(exponent)):
        half = rest / 2
        result = (half * 2).equals(rest).where(result, result * factor)
        factor, rest = factor * factor, half
    number = base.cast(TensorProto.INT64)
    inverse = number.equals(-1).where(odd.where(number.lifted(-1), number.lifted(1)), 0)
    inverse = number.equals(1).where(number, inverse)
    return negative.where(inverse, result).cast(dtype)


def _exponent_bits(exponent: Value) -> int:
    """Bits of the exponents: those of a constant, else of the element type."""
    if exponent.array is not None:
        return int(exponent.array.max(initial=1)).bit_length()
    return 8 * numpy_type(exponent.dtype).itemsize - 1


def cast_like(node: Node) -> Value | None:
    """CastLike, a Cast to the other operand's type."""
    value, like = node.operand(0), node.operand(1)
    return node.builder.add("Cast", value, to=like.dtype, **node.stated("saturate", "round_mode"))


def identity(node: Node) -> Value:
    """Identity, and Dropout outside of training."""
    return node.operand(0)


def dropout(node: Node) -> list[Value | None]:
    """Dropout that drops nothing: outside of training, or of ratio 0."""
    value, ratio, training = node.operand(0), node.input(1), node.input(2)
    active = training is not None and (training.array is None or bool(training.array))
    if active and (ratio is None or ratio.array is None or float(ratio.array) != 0):
        raise Unsupported("random")
    kept = node.builder.constant(np.array(True))
    mask = kept.expand(value.static) if node.wants(1) else None
    return [value, mask]


def selu(node: Node) -> Value:
    """SELU with all digits of its constants: IREE 3.13 takes six for those that are left out."""
    if node.attribute("alpha") is not None and node.attribute("gamma") is not None:
        raise Unsupported("both constants are given")
    alpha = node.attribute("alpha", _SELU_ALPHA)
    gamma = node.attribute("gamma", _SELU_GAMMA)
    return node.builder.emit("Selu", node.operand(0), alpha=alpha, gamma=gamma)


_SELU_ALPHA = 1.67326319217681884765625
_SELU_GAMMA = 1.05070102214813232421875


def det(node: Node) -> Value:
    """A determinant by elimination with pivots, unrolled."""
    matrix = node.operand(0)
    builder, size = node.builder, matrix.static[-1]
    if size > 32:
        raise Unsupported("a large matrix")
    batch = matrix.static[:-2]
    rest = matrix.reshape([-1, size, size])
    result: Value | None = None
    for step in range(size):
        count = size - step
        magnitude = abs(rest.slice(2, 0, 1)).squeeze(2)
        pivot = builder.add("ArgMax", magnitude, axis=1, keepdims=1)
        chosen = pivot.equals(np.arange(count)[None])
        weights = chosen.cast(matrix.dtype).unsqueeze(2)
        row = (rest * weights).reduce("ReduceSum", [1], keep=True)
        first = rest.slice(1, 0, 1)
        # The pivot's row and the first one change places, which changes the sign.
        moved = pivot.squeeze(1).equals(0)
        sign = moved.where(matrix.lifted(1.0), matrix.lifted(-1.0))
        value = row.slice(2, 0, 1).squeeze(1, 2) * sign
        result = value if result is None else result * value
        if step == size - 1:
            break
        rest = chosen.unsqueeze(2).where(first, rest).slice(1, 1, count)
        lead = row.slice(2, 0, 1)
        safe = lead.equals(0.0).where(lead.lifted(1.0), lead)
        rest = rest - rest.slice(2, 0, 1) / safe * row
        rest = rest.slice(2, 1, count)
    assert result is not None
    return result.reshape(list(batch))


def range_(node: Node) -> Value:
    """Range of a static size as start + i * delta."""
    start, _, delta = (node.operand(i) for i in range(3))
    shape = node.result_shape()
    if shape is None or None in shape or start.dtype not in FLOATS:
        raise Unsupported("a dynamic size")
    steps = node.builder.constant(np.arange(shape[0] or 0)).cast(TensorProto.FLOAT)
    wide = start.cast(TensorProto.FLOAT) + steps * delta.cast(TensorProto.FLOAT)
    return wide.cast(start.dtype)
