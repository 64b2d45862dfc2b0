"""Functions of `math` on CPUs, where IREE's expansions of them are slow.

    %y = math.sin %x : vector<16xf32>
  becomes
    %n = round(%x * 2 / pi)
    %r = %x - %n * pi / 2              pi / 2 in three parts, each product rounded once
    %y = a polynomial of %r, by the quadrant %n

of scalars in the bodies of structured ops and of vectors in kernels, in f32; f16 and bf16 are
widened. IREE 3.13 computes `expm1` by an exponential, a logarithm and a division, `log1p` by two
logarithms and a division, and chooses each coefficient of `erf` from four. The polynomials are
minimax approximations of ours (Lawson's iteration in f64, coefficients rounded to f32); errors in
f32 are at most three units in the last place, of `tan` four, of `erf` six. Forms with exponents as
integers are those of W. Cody and W. Waite, Software Manual for the Elementary Functions, 1980.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from iree.compiler import ir

from mlirfuse.builders import angles
from mlirfuse.builders.numbers import HALVES, Numbers, element_of, replace_in_f32
from mlirfuse.structured.ir import constants, ops

_LN_2_HIGH, _LN_2_LOW = 0.693359375, -2.12194440e-4
"""The logarithm of 2 in two parts, of which the first has ten bits."""

_EXP = (
    *(0.5000023245811462, 0.16663148999214172, 0.04185671731829643),
    *(0.007865486666560173, 0.0019142396049574018),
)
"""(exp(x) - 1 - x) / x^2 for x from 0 to the logarithm of 2; error 3.5e-9 of exp(x)."""

_MIN_EXP, _MAX_EXP = -88.0, 89.0
"""Numbers from which on the result is 0, as it is where it has no normal number, and infinite."""

_EXPM1 = (
    *(0.5, 0.1666666567325592, 0.04166635870933533, 0.008333389647305012),
    *(0.0013940823264420033, 0.00019845891802106053),
)
"""(exp(x) - 1 - x) / x^2 for x within half the logarithm of 2; error 2.4e-10."""

_MIN_EXPM1, _MAX_EXPM1 = -17.5, 89.0
"""Numbers from which on the result is -1, and infinite."""

_LOG1P = (
    *(-0.5, 0.3333333730697632, -0.24999645352363586, 0.19999413192272186),
    *(-0.1668442040681839, 0.14309026300907135, -0.1214306429028511),
    *(0.10708384960889816, -0.13042251765727997, 0.12168727815151215),
)
"""(log(1 + x) - x) / x^2 for x within a third; error 6.4e-10."""

_SIN = (-0.1666666716337204, 0.008333329111337662, -0.0001983930415008217, 2.718046516747563e-06)
"""(sin(x) - x) / x^3 by x^2 within an eighth of a turn; error 5.2e-12."""

_COS = (0.0416666679084301, -0.0013888883404433727, 2.479945214872714e-05, -2.720504710396199e-07)
"""(cos(x) - 1 + x^2 / 2) / x^4 by x^2 within an eighth of a turn; error 1.2e-13."""

_ERF_ABOVE = (
    *(1.1283791065216064, 0.19059298932552338, 0.05276917293667793),
    *(0.0037725111469626427, 0.00028484169160947204, 2.046020654233871e-06),
)
_ERF_BELOW = (
    *(1.0, 0.5022413730621338, 0.11418238282203674, 0.014983120374381542),
    *(0.001163846580311656, 3.8047608541091904e-05),
)
"""erf(x) / x as a quotient of polynomials of x^2; error 1.9e-8."""

_MAX_ERF = 3.925
"""The number from which on it is 1."""

_QUARTER_TURN = (1.570796251296997, 7.549789415861596e-08, 5.390302529957765e-15)
"""pi / 2 in parts of 24 bits. All are positive: the sine of -0 is -0."""

_MAX_ANGLE = 2.0**20
"""The largest angle that these parts reduce: products with the number of quarters are rounded to
2^-75 of it."""

_SHIFT = 1.5 * 2**23
"""See `_rounded`."""

_BIAS = 127
"""The exponent of f32 in memory of which the number's is 0."""


def expand(module: ir.Module) -> bool:
    """Expands all of them in a module for a CPU that has FMA; returns whether there are any."""
    kinds = HALVES | {"f32"}
    found = [
        op
        for op in ops.nested_ops(module.operation)
        if op.name in _EXPANSIONS and element_of(op.results[0].type) in kinds
    ]
    for op in found:
        replace_in_f32(op, _EXPANSIONS[op.name])
    return bool(found)


def _rounded(f: Numbers, x: ir.Value, factor: float) -> tuple[ir.Value, ir.Value]:
    """The integer next to a product, below 2^22, as f32 and as the lowest 22 bits of an i32.

    A sum with 1.5 * 2^23 has no bits for a fraction. IREE expands `math.roundeven` into a dozen ops
    on bits.
    """
    shifted = f.fma(x, f.constant(factor), _SHIFT)
    return f.sub(shifted, f.constant(_SHIFT)), f.op("arith.bitcast", shifted, element="i32")


def _exp(f: Numbers, x: ir.Value) -> ir.Value:
    """2^n + 2^n (exp(r) - 1), with x = n log 2 + r and r from 0 to log 2.

    So n is at most 127 where the result is finite; 2^-127 becomes 0 and 2^128 infinity.
    """
    bounded = f.clamp(x, _MIN_EXP, _MAX_EXP)
    shift = f.constant(_SHIFT + _BIAS)
    shifted = f.add(f.fma(bounded, f.constant(1 / math.log(2)), -0.5), shift)
    exponent = f.sub(shifted, shift)
    rest = f.fma(exponent, f.constant(-_LN_2_HIGH), bounded)
    rest = f.fma(exponent, f.constant(-_LN_2_LOW), rest)
    less = f.fma(f.mul(rest, rest), f.polynomial(rest, _EXP), rest)
    bits = f.op("arith.bitcast", shifted, element="i32")
    scale = f.op("arith.bitcast", f.op("arith.shli", bits, f.constant(23, "i32"), element="i32"))
    return f.fma(scale, less, scale)


def _expm1(f: Numbers, x: ir.Value) -> ir.Value:
    """exp(x) - 1 = 2^n (exp(r) - 1) + 2^n - 1, with x = n log 2 + r."""
    bounded = f.clamp(x, _MIN_EXPM1, _MAX_EXPM1)
    exponent, bits = _rounded(f, bounded, 1 / math.log(2))
    rest = f.fma(exponent, f.constant(-_LN_2_HIGH), bounded)
    rest = f.fma(exponent, f.constant(-_LN_2_LOW), rest)
    less = f.fma(f.mul(rest, rest), f.polynomial(rest, _EXPM1), rest)
    # Half of it: 2^128 is infinite.
    bits = f.op("arith.addi", bits, f.constant(126, "i32"), element="i32")
    half = f.op("arith.bitcast", f.op("arith.shli", bits, f.constant(23, "i32"), element="i32"))
    sum_ = f.fma(half, less, f.sub(half, f.constant(0.5)))
    return f.op("math.copysign", f.add(sum_, sum_), x)


def _log1p(f: Numbers, x: ir.Value) -> ir.Value:
    """log(1 + x) = n log 2 + log(1 + m), with 1 + x = 2^n (1 + m) and m from -1/3 to 1/3."""
    integer = f.integer
    one, two_thirds = f.constant(1.0), f.constant(0x3F2AAAAB, "i32")
    total = f.op("arith.bitcast", f.add(x, one), element="i32")
    exponent = integer("andi", integer("subi", total, two_thirds), -(1 << 23))
    # 2^-n (1 + x) - 1 without the rounding of 1 + x: 2^-n x, and 2^-n - 1.
    scaled = integer("subi", f.op("arith.bitcast", x, element="i32"), exponent)
    # Four times 2^-n, which is no denormal number where n is 128.
    inverse = f.op("arith.bitcast", integer("subi", f.constant(0x40800000, "i32"), exponent))
    rest = f.add(f.fma(inverse, f.constant(0.25), -1.0), f.op("arith.bitcast", scaled))
    count = f.mul(f.op("arith.sitofp", exponent), f.constant(2.0**-23))
    found = f.fma(f.mul(rest, rest), f.polynomial(rest, _LOG1P), rest)
    found = f.fma(count, f.constant(math.log(2)), found)
    # Infinity stays, -1 becomes minus infinity, and less has no logarithm.
    found = f.select(f.compare(x, "lt", math.inf), found, x)
    found = f.select(f.compare(x, "gt", -1.0), found, f.constant(-math.inf))
    return f.select(f.compare(x, "ge", -1.0), found, f.constant(math.nan))


def _times_reciprocal(f: Numbers, x: ir.Value) -> ir.Value:
    """An argument that is a quotient by a constant, as GELU's, as a product instead.

    It is rounded once more, which a smooth function does not magnify.
    """
    op = ops.defining_op(x)
    divisor = _constant(op.operands[1]) if op is not None and op.name == "arith.divf" else None
    return f.mul(op.operands[0], f.constant(1.0 / divisor)) if op is not None and divisor else x


def _constant(value: ir.Value) -> float | int | None:
    """A number that is the same in all elements, or the square root of one; else None."""
    op = ops.defining_op(value)
    if op is None or op.name not in ("arith.extf", "math.sqrt"):
        return constants.constant(value)
    held = _constant(op.operands[0])
    if held is None or op.name == "arith.extf":
        return held
    return math.sqrt(held) if held > 0 else None


def _erf(f: Numbers, x: ir.Value) -> ir.Value:
    x = _times_reciprocal(f, x)
    bounded = f.clamp(x, -_MAX_ERF, _MAX_ERF)
    square = f.mul(bounded, bounded)
    above = f.mul(bounded, f.polynomial(square, _ERF_ABOVE))
    return f.clamp(f.op("arith.divf", above, f.polynomial(square, _ERF_BELOW)), -1.0, 1.0)


def _quarters(f: Numbers, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """An angle within an eighth of a turn, in radians, and the number of quarters beside it."""
    count, bits = _rounded(f, x, 2 / math.pi)
    rest = x
    for part in _QUARTER_TURN:
        rest = f.fma(count, f.constant(-part), rest)
    usual = [rest, bits]

    def rare() -> list[ir.Value]:
        quarter, within = angles.nearest_quarter(f, angles.turns_of_large(f, x))
        number = f.op("arith.trunci", quarter, element="i32")
        opposite = f.integer("subi", f.constant(0, "i32"), number)
        negative = f.compare(x, "lt", 0.0)
        return [angles.signed(f, x, within), f.select(negative, opposite, number)]

    found = f.where_any(angles.is_far(f, x, _MAX_ANGLE), rare, usual)
    return found[0], found[1]


def _sin_and_cos(f: Numbers, rest: ir.Value) -> tuple[ir.Value, ir.Value]:
    square = f.mul(rest, rest)
    sine = f.fma(f.mul(square, rest), f.polynomial(square, _SIN), rest)
    cosine = f.fma(square, f.constant(-0.5), 1.0)
    cosine = f.fma(f.mul(square, square), f.polynomial(square, _COS), cosine)
    return sine, cosine


def _is_odd(f: Numbers, number: ir.Value) -> ir.Value:
    return f.compare(f.op("arith.andi", number, f.constant(1, "i32"), element="i32"), "ne", 0)


def _wave(f: Numbers, x: ir.Value, ahead: int) -> ir.Value:
    """The sine of an angle, some quarters ahead."""
    rest, number = _quarters(f, x)
    if ahead:
        number = f.op("arith.addi", number, f.constant(ahead, "i32"), element="i32")
    sine, cosine = _sin_and_cos(f, rest)
    found = f.op("arith.bitcast", f.select(_is_odd(f, number), cosine, sine), element="i32")
    half = f.op("arith.andi", number, f.constant(2, "i32"), element="i32")
    sign = f.op("arith.shli", half, f.constant(30, "i32"), element="i32")
    return f.op("arith.bitcast", f.op("arith.xori", found, sign, element="i32"))


def _sin(f: Numbers, x: ir.Value) -> ir.Value:
    return _wave(f, x, 0)


def _cos(f: Numbers, x: ir.Value) -> ir.Value:
    return _wave(f, x, 1)


def _tan(f: Numbers, x: ir.Value) -> ir.Value:
    rest, number = _quarters(f, x)
    sine, cosine = _sin_and_cos(f, rest)
    odd = _is_odd(f, number)
    above = f.select(odd, f.op("arith.negf", cosine), sine)
    return f.op("arith.divf", above, f.select(odd, sine, cosine))


_EXPANSIONS: dict[str, Callable[[Numbers, ir.Value], ir.Value]] = {
    "math.cos": _cos,
    "math.erf": _erf,
    "math.exp": _exp,
    "math.expm1": _expm1,
    "math.log1p": _log1p,
    "math.sin": _sin,
    "math.tan": _tan,
}
