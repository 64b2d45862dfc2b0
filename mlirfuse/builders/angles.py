"""Reduce the arguments of sines, cosines and tangents to half a turn, for the CPU and CUDA.

    %y = math.sin %x : f32
  becomes
    %r = %x - round(%x / 2pi) * 2pi          // 2pi in four parts, up to 50000
    %y = math.sin %r : f32

IREE 3.13 approximates them by polynomials but for ROCm, with half of pi as one f32: the error is
2e-5 at 1000, 0.03 at a million, and results are infinite from 2^31 on. Above 50000 the fraction of
a turn is a product of integers: the 24 bits of the number's mantissa, and the 64 bits of 1 / 2pi
that its exponent does not make whole turns (Payne and Hanek, 1983). Without branches, so that the
loop is vectorized. A million sines take 2.5 ms instead of 1.6 on two cores of an AMD EPYC (Zen 5).
"""

from __future__ import annotations

import functools
import math

from iree.compiler import ir

from mlirfuse.builders.numbers import HALVES, Numbers, replace_in_f32
from mlirfuse.structured.ir import ops

_FUNCTIONS = frozenset({"math.cos", "math.sin", "math.tan"})

_KINDS = HALVES | {"f32"}

_TURN = (6.28125, 0.001934051513671875, 1.255422830581665e-06, 2.430840251310684e-10)
"""2 pi in parts of nine bits, so that products with the number of turns are exact."""

_LIMIT = 50000.0
"""Largest number that is reduced by these parts: 2^13 turns."""

_INVERSE_TURN = 0x28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E410
"""1 / 2pi in units of 2^-192."""

_BIAS = 137
"""A number with this exponent, as f32 stores it, is its mantissa, an integer, times 2^-13."""


def has_angles(module: ir.Module) -> bool:
    """Whether there is a sine, cosine or tangent to reduce the argument of."""
    return any(map(is_angle_function, ops.nested_ops(module.operation)))


def reduce_angles(module: ir.Module) -> bool:
    """Reduces the arguments of all of them; returns whether there is any."""
    return reduce_ops(angle_functions(module))


def angle_functions(module: ir.Module) -> list[ir.Operation]:
    """The sines, cosines and tangents of a module to reduce the arguments of."""
    return [op for op in ops.nested_ops(module.operation) if is_angle_function(op)]


def reduce_ops(functions: list[ir.Operation]) -> bool:
    """Reduces the arguments of these; returns whether there are any."""
    for op in functions:
        replace_in_f32(op, functools.partial(_of_reduced, op.name))
    return bool(functions)


def _of_reduced(name: str, numbers: Numbers, x: ir.Value) -> ir.Value:
    return numbers.op(name, _reduced(numbers, x))


def is_angle_function(op: ir.Operation) -> bool:
    """Whether an op is a sine, cosine or tangent of f16, bf16 or f32."""
    return op.name in _FUNCTIONS and str(op.results[0].type) in _KINDS


def is_far(numbers: Numbers, x: ir.Value, limit: float) -> ir.Value:
    """Whether an angle is beyond a limit, and finite."""
    magnitude = numbers.op("math.absf", x)
    far = numbers.compare(magnitude, "gt", limit)
    finite = numbers.compare(magnitude, "lt", math.inf)
    return numbers.op("arith.andi", far, finite, element="i1")


def _reduced(numbers: Numbers, x: ir.Value) -> ir.Value:
    far = is_far(numbers, x, _LIMIT)

    def rare() -> list[ir.Value]:
        return [signed(numbers, x, radians(numbers, turns_of_large(numbers, x)))]

    return numbers.where_any(far, rare, [_of_small(numbers, x)])[0]


def _of_small(numbers: Numbers, x: ir.Value) -> ir.Value:
    turns = numbers.op("math.roundeven", numbers.mul(x, numbers.constant(1 / math.tau)))
    for part in _TURN:
        x = numbers.sub(x, numbers.mul(turns, numbers.constant(part)))
    return x


def turns_of_large(numbers: Numbers, x: ir.Value) -> ir.Value:
    """The magnitude of an angle in units of 2^-64 turns, of which whole turns overflow.

    Args:
      numbers: writes the ops.
      x: the angles, f32 of 2^13 at least.

    Returns:
      i64.
    """

    def integer(name: str, one: ir.Value, other: int | ir.Value, element: str = "i32") -> ir.Value:
        held = other if isinstance(other, ir.Value) else numbers.constant(other, element)
        return numbers.op(f"arith.{name}", one, held, element=element)

    bits = numbers.op("arith.bitcast", x, element="i32")
    stored = integer("andi", integer("shrui", bits, 23), 0xFF)
    mantissa = integer("ori", integer("andi", bits, 2**23 - 1), 2**23)
    start = numbers.op("arith.extsi", integer("subi", stored, _BIAS), element="i64")
    # 64 bits of 2^-13 / 2pi, from that one on.
    shift = integer("andi", start, 63, "i64")
    second = numbers.compare(start, "ge", 64)
    words = [numbers.constant(_word(index), "i64") for index in range(3)]
    high, low = (numbers.select(second, words[i + 1], words[i]) for i in range(2))
    # In two steps, for a shift by 64 has no result.
    low = integer("shrui", low, 1, "i64")
    rest = numbers.op("arith.subi", numbers.constant(63, "i64"), shift, element="i64")
    window = integer(
        "ori", integer("shli", high, shift, "i64"), integer("shrui", low, rest, "i64"), "i64"
    )
    return integer("muli", numbers.op("arith.extui", mantissa, element="i64"), window, "i64")


def radians(numbers: Numbers, turns: ir.Value) -> ir.Value:
    """An angle in units of 2^-64 turns, i64, as f32."""
    angle = numbers.op("arith.sitofp", turns)
    return numbers.mul(angle, numbers.constant(math.tau * 2.0**-64))


def signed(numbers: Numbers, x: ir.Value, magnitude: ir.Value) -> ir.Value:
    """A magnitude with the sign of another f32."""
    negative = numbers.compare(x, "lt", 0.0)
    return numbers.select(negative, numbers.op("arith.negf", magnitude), magnitude)


def _word(index: int) -> int:
    unsigned = (_INVERSE_TURN >> 13 >> 64 * (2 - index)) % 2**64
    return unsigned - 2**64 if unsigned >= 2**63 else unsigned
