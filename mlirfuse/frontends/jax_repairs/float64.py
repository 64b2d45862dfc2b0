"""Functions of float64 as JAX programs, for IREE 3.13 calls the C library's in their place.

A program has no C library: "failed to link executable". Each reduces its argument to where a few
terms of Taylor's series have the precision of float64.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from mlirfuse.frontends.jax_repairs.definitions import define

if TYPE_CHECKING:
    from iree.compiler import ir

Array = Any

_QUARTER_TURN = (
    1.570796251296997,
    7.549789415861596e-08,
    5.390302529957765e-15,
    3.2820035428735005e-22,
)
"""pi / 2 in parts of 24 bits, and the rest."""


def repair(op: ir.Operation) -> None:
    """Replaces an op on float64 by its program."""
    from iree.compiler import ir

    if str(ir.RankedTensorType(op.operands[0].type).element_type) == "f64":
        define(op, _FUNCTIONS[op.name])


def _series(x: Array, coefficients: list[float]) -> Array:
    """The polynomial with these coefficients, of the constant first."""
    result = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient
    return result


_SINE = [(-1) ** n / math.factorial(2 * n + 1) for n in range(10)]
_COSINE = [(-1) ** n / math.factorial(2 * n) for n in range(10)]
_ARCTANGENT = [(-1) ** n / (2 * n + 1) for n in range(12)]


_FAR = 2.0**29
"""The number from which on products with the parts of pi / 2 are not exact."""

_WORDS = 19
"""Words of 64 bits of 1 / 2pi that the largest number needs."""


@functools.cache
def _inverse_turn() -> list[int]:
    """The first words of 1 / 2pi, by Machin's formula."""
    unit = 1 << 64 * (_WORDS + 2)

    def arctangent(inverse: int) -> int:
        terms = itertools.count(1, 2)
        powers = itertools.takewhile(bool, (unit // inverse**n for n in terms))
        return sum((-1) ** n * power // (2 * n + 1) for n, power in enumerate(powers))

    turn = 8 * (4 * arctangent(5) - arctangent(239))
    bits = unit * (unit >> 128) // turn
    return [(bits >> 64 * (_WORDS - 1 - index)) % 2**64 for index in range(_WORDS)]


def _fraction_of_turn(x: Array) -> Array:
    """Turns of a large angle without the integer next to them (Payne and Hanek, 1983)."""
    import jax.numpy as jnp
    from jax import lax

    bits = lax.bitcast_convert_type(x, jnp.uint64)
    exponent = ((bits >> 52) & 0x7FF).astype(jnp.int32)
    mantissa = (bits & (2**52 - 1)) | 2**52
    # x is the mantissa times 2 to the power of (exponent - 1075); the words are shifted by 64.
    start = exponent - (1075 - 64)
    shift = (start & 63).astype(jnp.uint64)
    table = jnp.asarray(np.array([0, *_inverse_turn()], np.uint64))
    words = [table[jnp.minimum((start >> 6) + index, _WORDS)] for index in range(3)]
    high, low = ((words[i] << shift) | ((words[i + 1] >> 1) >> (63 - shift)) for i in range(2))
    # The high half of the product of the mantissa and the low word.
    half, mask = jnp.uint64(32), jnp.uint64(2**32 - 1)
    a, b, c, d = mantissa >> half, mantissa & mask, low >> half, low & mask
    middle = b * c + ((b * d) >> half)
    carried = a * c + (middle >> half) + ((a * d + (middle & mask)) >> half)
    turns = lax.bitcast_convert_type(mantissa * high + carried, jnp.int64)
    return jnp.copysign(1.0, x) * turns.astype(jnp.float64) * 2.0**-64


def _sine_and_cosine(x: Array) -> tuple[Array, Array]:
    import jax.numpy as jnp
    from jax import lax

    far = lax.abs(x) >= _FAR
    turns = lax.round(x * (2 / math.pi), lax.RoundingMethod.TO_NEAREST_EVEN)
    angle = x
    for part in _QUARTER_TURN:
        angle = angle - turns * part
    fraction = _fraction_of_turn(jnp.where(far, x, _FAR))
    nearest = lax.round(4 * fraction, lax.RoundingMethod.TO_NEAREST_EVEN)
    turns = jnp.where(far, nearest, turns)
    angle = jnp.where(far, (fraction - nearest / 4) * math.tau, angle)
    angle = jnp.where(jnp.isinf(x), jnp.nan, angle)
    quadrant = turns - 4 * jnp.floor(turns * 0.25)
    square = angle * angle
    sine, cosine = angle * _series(square, _SINE), _series(square, _COSINE)
    odd = (quadrant == 1) | (quadrant == 3)
    first, second = jnp.where(odd, cosine, sine), jnp.where(odd, sine, cosine)
    return (
        jnp.where(quadrant >= 2, -first, first),
        jnp.where((quadrant == 1) | (quadrant == 2), -second, second),
    )


def _sine(x: Array) -> Array:
    return _sine_and_cosine(x)[0]


def _cosine(x: Array) -> Array:
    return _sine_and_cosine(x)[1]


def _tangent(x: Array) -> Array:
    sine, cosine = _sine_and_cosine(x)
    return sine / cosine


def _arctangent(x: Array) -> Array:
    """Of a number from 0 to 1; tan(a / 2) = tan(a) / (1 + sqrt(1 + tan(a)^2))."""
    import jax.numpy as jnp

    for _ in range(2):
        x = x / (1 + jnp.sqrt(1 + x * x))
    return 4 * x * _series(x * x, _ARCTANGENT)


def _arctangent2(y: Array, x: Array) -> Array:
    import jax.numpy as jnp
    from jax import lax

    a, b = lax.abs(y), lax.abs(x)
    steep = a > b
    small, large = jnp.where(steep, b, a), jnp.where(steep, a, b)
    equal = small == large  # infinities too, and zeros
    ratio = jnp.where(equal, 1.0, small / jnp.where(equal, 1.0, large))
    angle = _arctangent(jnp.where((small == 0), 0.0, ratio))
    angle = jnp.where(steep, math.pi / 2 - angle, angle)
    angle = jnp.where(jnp.signbit(x), math.pi - angle, angle)
    angle = jnp.where(jnp.isnan(x) | jnp.isnan(y), jnp.nan, angle)
    return jnp.copysign(angle, y)


def _hyperbolic_tangent(x: Array) -> Array:
    import jax.numpy as jnp
    from jax import lax

    power = lax.expm1(-2 * jnp.minimum(lax.abs(x), 30.0))
    return jnp.where(x == 0, x, jnp.copysign(-power / (power + 2), x))


def _cube_root(x: Array) -> Array:
    import jax.numpy as jnp
    from jax import lax

    plain = (x == 0) | jnp.isinf(x)
    a = jnp.where(plain, 1.0, lax.abs(x))
    root = lax.exp(lax.log(a) / 3)
    for _ in range(2):
        root = root - (root - a / (root * root)) / 3
    return jnp.where(plain, x, jnp.copysign(root, x))


_STEPS = 2098 // 25 + 1
"""Number of steps for the largest quotient."""


def _remainder(x: Array, y: Array) -> Array:
    """C's `fmod`: each step takes 26 bits of the quotient off, by exact products."""
    import jax.numpy as jnp
    from jax import lax

    a, b = lax.abs(x), lax.abs(y)
    usual = jnp.isfinite(a) & ~jnp.isnan(b) & (b != 0)
    a, b = jnp.where(usual, a, 0.0), jnp.where(usual, b, 1.0)

    def parts(value: Array) -> tuple[Array, Array]:
        high = lax.bitcast_convert_type(
            lax.bitcast_convert_type(value, jnp.int64) & ~jnp.int64(2**27 - 1), jnp.float64
        )
        return high, value - high

    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        rest, count = state
        whole = rest >= b
        divisor = jnp.where(whole, b, 1.0)
        # A little less than the quotient, in 26 bits.
        quotient = jnp.minimum(rest / divisor, 1e300) * (1 - 2.0**-52)
        quotient = jnp.floor(jnp.maximum(parts(quotient)[0], 1.0))
        high, low = parts(divisor)
        new = jnp.where(whole, (rest - quotient * high) - quotient * low, rest)
        return new, count + 1

    def unfinished(state: tuple[Array, Array]) -> Array:
        return jnp.any(state[0] >= b) & (state[1] < _STEPS)

    a, _ = lax.while_loop(unfinished, step, (a, jnp.int32(0)))
    return jnp.where(usual, jnp.copysign(a, x), jnp.nan)


_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "stablehlo.atan2": _arctangent2,
    "stablehlo.cbrt": _cube_root,
    "stablehlo.cosine": _cosine,
    "stablehlo.remainder": _remainder,
    "stablehlo.sine": _sine,
    "stablehlo.tan": _tangent,
    "stablehlo.tanh": _hyperbolic_tangent,
}

NAMES = tuple(_FUNCTIONS)
"""The ops that are replaced."""
