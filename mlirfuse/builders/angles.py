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
import itertools
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

_QUARTER_BITS = 62
"""Binary places of a quarter in units of 2^-64 turns."""

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
    return numbers.integer("andi", far, finite, "i1")


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
    integer = numbers.integer
    bits = numbers.op("arith.bitcast", x, element="i32")
    stored = integer("andi", integer("shrui", bits, 23), 0xFF)
    mantissa = integer("ori", integer("andi", bits, 2**23 - 1), 2**23)
    start = numbers.op("arith.extsi", integer("subi", stored, _BIAS), element="i64")
    # 64 bits of 2^-13 / 2pi, from that one on.
    shift = integer("andi", start, 63, "i64")
    second = numbers.compare(start, "ge", 64)
    words = [numbers.constant(_word(index), "i64") for index in range(3)]
    high, low = (numbers.select(second, words[i + 1], words[i]) for i in range(2))
    bits = window(numbers, high, low, shift)
    return integer("muli", numbers.op("arith.extui", mantissa, element="i64"), bits, "i64")


def window(numbers: Numbers, high: ir.Value, low: ir.Value, shift: ir.Value) -> ir.Value:
    """64 of the bits of two words, i64, from one below 64 on."""
    # In two steps, for a shift by 64 has no result.
    rest = numbers.integer("subi", numbers.constant(63, "i64"), shift, "i64")
    low = numbers.integer("shrui", numbers.integer("shrui", low, 1, "i64"), rest, "i64")
    return numbers.integer("ori", numbers.integer("shli", high, shift, "i64"), low, "i64")


def radians(numbers: Numbers, turns: ir.Value) -> ir.Value:
    """An angle in units of 2^-64 turns, i64, as a floating-point number."""
    angle = numbers.op("arith.sitofp", turns)
    return numbers.mul(angle, numbers.constant(math.tau * 2.0**-64))


def nearest_quarter(numbers: Numbers, turns: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The quarter of a turn next to an angle, i64, and the angle beside it in radians.

    Args:
      numbers: writes the ops.
      turns: the angles in units of 2^-64 turns, i64.
    """
    half = numbers.integer("addi", turns, 1 << _QUARTER_BITS - 1, "i64")
    quarter = numbers.integer("shrsi", half, _QUARTER_BITS, "i64")
    whole = numbers.integer("shli", quarter, _QUARTER_BITS, "i64")
    return quarter, radians(numbers, numbers.integer("subi", turns, whole, "i64"))


def signed(numbers: Numbers, x: ir.Value, magnitude: ir.Value) -> ir.Value:
    """A number, negated where another one is negative."""
    negative = numbers.compare(x, "lt", 0.0)
    return numbers.select(negative, numbers.op("arith.negf", magnitude), magnitude)


def _word(index: int) -> int:
    high, middle, low = inverse_turn(3)
    bits = (high << 128 | middle << 64 | low) >> 13
    return (bits >> 64 * (2 - index)) % 2**64


@functools.cache
def inverse_turn(words: int) -> list[int]:
    """The first words of 64 bits of 1 / 2pi, by Machin's formula."""
    unit = 1 << 64 * (words + 2)

    def arctangent(inverse: int) -> int:
        terms = itertools.count(1, 2)
        powers = itertools.takewhile(bool, (unit // inverse**n for n in terms))
        return sum((-1) ** n * power // (2 * n + 1) for n, power in enumerate(powers))

    turn = 8 * (4 * arctangent(5) - arctangent(239))
    bits = unit * (unit >> 128) // turn
    return [(bits >> 64 * (words - 1 - index)) % 2**64 for index in range(words)]
