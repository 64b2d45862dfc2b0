"""Functions of f64 for CPUs, where IREE calls those of the C library.

    %y = math.tanh %x : f64
  becomes
    %e = exp(-2 |%x|) - 1
    %y = copysign(-%e / (%e + 2), %x)

A program has no C library: IREE 3.13 refuses `acos`, `asin`, `atan`, `atan2`, `cbrt`, `cos`, `erf`,
`erfc`, `log10`, `log2`, `sin`, `tan`, `tanh` and `arith.remf` ("failed to link executable"). It
expands the rest; `acosh` and `asinh` of large numbers are infinite then, and `atanh`, `expm1`,
`log1p` and `sinh` lose up to a quarter of the digits. Its `exp`, `log`, `sqrt` and `roundeven` are
right to a unit in the last place, and all others are made of them here.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from iree.compiler import ir

from mlirfuse.builders.float64_angles import sine_and_cosine
from mlirfuse.builders.numbers import Numbers, element_of
from mlirfuse.structured.ir import ops

_ARCTANGENT = tuple((-1) ** n / (2 * n + 1) for n in range(12))
_EXPM1 = tuple(1 / math.factorial(n + 1) for n in range(14))
"""(exp(x) - 1) / x within half the logarithm of 2."""

_LN_2_HIGH, _LN_2_LOW = 0.6931471803691238, 1.9082149292705877e-10
"""The logarithm of 2, whose first part has 32 bits."""

_LOG10_2_HIGH, _LOG10_2_LOW = 0.30102999566361177, 3.694239077158931e-13
"""The decimal logarithm of 2, likewise."""

_ERF = (
    *(1.1283791670955126, -0.3761263890318375, 0.11283791670954879, -0.026866170645076792),
    *(0.0052239776248180145, -0.000854832698083379, 0.0001205533111164271),
    *(-1.4925595266831182e-05, 1.6461000484121368e-06, -1.6350312701054695e-07),
    *(1.4659775274047436e-08, -1.1372848856791674e-09, 5.957176147748911e-11),
)
"""erf(x) / x by x^2 up to 1, from Chebyshev's polynomials; error 2e-17."""

_ERFC_CENTER = 3.0

_ERFC = (
    *(1.2530080582697296, -0.13562110612458117, -0.04756229435345087, 0.1296451587027606),
    *(-0.11927366341530699, 0.06830802734397848, -0.023770514918645888, 0.002529391816066239),
    *(
        0.0018886903591561553,
        -0.0007798322721083991,
        -0.00010515979981501177,
        0.00012509935235563107,
    ),
    *(
        4.949484992570595e-06,
        -2.0100567931289227e-05,
        -7.315105164159062e-07,
        3.472414602875686e-06,
    ),
    *(
        3.5683839153992204e-07,
        -6.166496077604353e-07,
        -1.4160064940265987e-07,
        1.0187000600072885e-07,
    ),
    *(
        4.180784698845582e-08,
        -1.3326364813003834e-08,
        -8.500397929772615e-09,
        9.885798831139365e-10,
    ),
    *(8.864219016427092e-10,),
)
"""(1 + 2x) exp(x^2) erfc(x) by (x - 3) / (x + 3) (M. Shepherd and J. Laframboise, Mathematics of
Computation 36, 1981), from Chebyshev's polynomials; error 5e-17."""

_SHIFT = 1.5 * 2**52
"""A sum with it has no bits for a fraction; its lowest bits are those of the integer."""

_LEAST_NORMAL = 2.0**-1022


def expand(module: ir.Module, *, fuses: bool) -> bool:
    """Expands all of them; returns whether there are any.

    Args:
      module: a module for a CPU.
      fuses: whether the CPU has FMA.
    """
    return expand_ops(found(module), fuses=fuses)


def found(module: ir.Module) -> list[ir.Operation]:
    """The functions of f64 that are expanded."""
    return [
        op
        for op in ops.nested_ops(module.operation)
        if op.name in _EXPANSIONS and element_of(op.results[0].type) == "f64"
    ]


def expand_ops(functions: list[ir.Operation], *, fuses: bool) -> bool:
    """Expands these; returns whether there are any."""
    for op in functions:
        result = op.results[0]
        with op.location, ir.InsertionPoint(op):
            numbers = Numbers(result.type, "f64", fuses=fuses)
            result.replace_all_uses_with(_EXPANSIONS[op.name](numbers, *op.operands))
        op.erase()
    return bool(functions)


def _both(f: Numbers, one: ir.Value, other: ir.Value) -> ir.Value:
    return f.integer("andi", one, other, "i1")


def _magnitude(f: Numbers, x: ir.Value) -> ir.Value:
    return f.op("math.absf", x)


def _signed(f: Numbers, magnitude: ir.Value, sign: ir.Value) -> ir.Value:
    return f.op("math.copysign", magnitude, sign)


def _sqrt(f: Numbers, x: ir.Value) -> ir.Value:
    return f.op("math.sqrt", x)


def _div(f: Numbers, x: ir.Value, y: ir.Value) -> ir.Value:
    return f.op("arith.divf", x, y)


def _power_of_2(f: Numbers, shifted: ir.Value) -> ir.Value:
    """2^n of the integer of a sum `n + _SHIFT`, n from -1022 to 1023."""
    bits = f.integer("addi", f.op("arith.bitcast", shifted, element="i64"), 1023, "i64")
    return f.op("arith.bitcast", f.integer("shli", bits, 52, "i64"))


def _exponential(f: Numbers, rest: ir.Value, shifted: ir.Value) -> ir.Value:
    """exp(rest) - 1, times 2^n, plus 2^n - 1, of the n of `_power_of_2`; the n is halved."""
    less = f.mul(rest, f.polynomial(rest, _EXPM1))
    half = _power_of_2(f, f.sub(shifted, f.constant(1.0)))  # 2^1024 is infinite
    total = f.add(f.mul(half, less), f.sub(half, f.constant(0.5)))
    return f.add(total, total)


def _expm1(f: Numbers, x: ir.Value) -> ir.Value:
    """2^n (exp(r) - 1) + 2^n - 1, with x = n log 2 + r."""
    bounded = f.clamp(x, -40.0, 710.0)
    shifted = f.add(f.mul(bounded, f.constant(1 / math.log(2))), f.constant(_SHIFT))
    count = f.sub(shifted, f.constant(_SHIFT))
    rest = f.sub(bounded, f.mul(count, f.constant(_LN_2_HIGH)))
    rest = f.sub(rest, f.mul(count, f.constant(_LN_2_LOW)))
    return _signed(f, _exponential(f, rest, shifted), x)


def _exp2(f: Numbers, x: ir.Value) -> ir.Value:
    """2^n exp(r log 2), with x = n + r; 2^n in two factors, for results may be denormal."""
    bounded = f.clamp(x, -1100.0, 1100.0)
    half = f.add(f.mul(bounded, f.constant(0.5)), f.constant(_SHIFT))
    first = f.sub(half, f.constant(_SHIFT))
    other = f.add(f.sub(bounded, first), f.constant(_SHIFT))
    second = f.sub(other, f.constant(_SHIFT))
    rest = f.mul(f.sub(f.sub(bounded, first), second), f.constant(math.log(2)))
    power = f.add(f.mul(rest, f.polynomial(rest, _EXPM1)), f.constant(1.0))
    return f.mul(f.mul(power, _power_of_2(f, half)), _power_of_2(f, other))


def _log1p(f: Numbers, x: ir.Value) -> ir.Value:
    """log(u) x / (u - 1) with u = 1 + x, whose rounding errors cancel (W. Kahan)."""
    one = f.constant(1.0)
    total = f.add(x, one)
    below = f.sub(total, one)
    unchanged = f.integer("ori", f.compare(total, "eq", 1.0), f.compare(x, "eq", math.inf), "i1")
    divisor = f.select(unchanged, one, below)
    quotient = _div(f, f.mul(f.op("math.log", total), x), divisor)
    # The product may be infinite where the quotient is not.
    large = f.compare(x, "gt", 2.0**60)
    return f.select(unchanged, x, f.select(large, f.op("math.log", x), quotient))


def _split(f: Numbers, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The n and m of x = 2^n m: m is from 1 to 2 where n >= 0, and from 1/2 to 1 below.

    The terms of a logarithm have the same sign then. Zeros, infinities and NaN are no numbers of
    the result.
    """
    small = f.compare(x, "lt", _LEAST_NORMAL)
    scaled = f.select(small, f.mul(x, f.constant(2.0**54)), x)
    bits = f.op("arith.bitcast", scaled, element="i64")
    stored = f.integer("shrsi", bits, 52, "i64")
    bias = f.select(small, f.constant(1023 + 54, "i64"), f.constant(1023, "i64"))
    count = f.integer("subi", stored, bias, "i64")
    negative = f.integer("shrui", count, 63, "i64")
    fraction = f.integer("andi", bits, 2**52 - 1, "i64")
    exponent = f.integer("subi", f.constant(1023, "i64"), negative, "i64")
    mantissa = f.integer("ori", fraction, f.integer("shli", exponent, 52, "i64"), "i64")
    number = f.op("arith.sitofp", f.integer("addi", count, negative, "i64"))
    return number, f.op("arith.bitcast", mantissa)


def _logarithm(f: Numbers, x: ir.Value, high: float, low: float, base: float) -> ir.Value:
    """A logarithm of x, exact for powers of 2, by that of 2 in two parts."""
    number, mantissa = _split(f, x)
    rest = f.mul(f.op("math.log", mantissa), f.constant(1 / math.log(base)))
    found = f.add(f.mul(number, f.constant(high)), f.add(f.mul(number, f.constant(low)), rest))
    usual = _both(f, f.compare(x, "gt", 0.0), f.compare(x, "lt", math.inf))
    return f.select(usual, found, f.op("math.log", x))


def _log2(f: Numbers, x: ir.Value) -> ir.Value:
    return _logarithm(f, x, 1.0, 0.0, 2)


def _log10(f: Numbers, x: ir.Value) -> ir.Value:
    return _logarithm(f, x, _LOG10_2_HIGH, _LOG10_2_LOW, 10)


def _sin(f: Numbers, x: ir.Value) -> ir.Value:
    return f.select(f.compare(x, "eq", 0.0), x, sine_and_cosine(f, x)[0])


def _cos(f: Numbers, x: ir.Value) -> ir.Value:
    return sine_and_cosine(f, x)[1]


def _tan(f: Numbers, x: ir.Value) -> ir.Value:
    sine, cosine = sine_and_cosine(f, x)
    return f.select(f.compare(x, "eq", 0.0), x, _div(f, sine, cosine))


def _atan_of_ratio(f: Numbers, x: ir.Value) -> ir.Value:
    """Of a number from 0 to 1; tan(a / 2) = tan(a) / (1 + sqrt(1 + tan(a)^2))."""
    one = f.constant(1.0)
    for _ in range(2):
        x = _div(f, x, f.add(_sqrt(f, f.add(f.mul(x, x), one)), one))
    series = f.polynomial(f.mul(x, x), _ARCTANGENT)
    return f.mul(f.mul(x, f.constant(4.0)), series)


def _atan2(f: Numbers, y: ir.Value, x: ir.Value) -> ir.Value:
    a, b = _magnitude(f, y), _magnitude(f, x)
    steep = f.compare(a, "gt", b)
    small, large = f.select(steep, b, a), f.select(steep, a, b)
    one = f.constant(1.0)
    equal = f.compare(small, "eq", large)  # infinities too, and zeros
    ratio = f.select(equal, one, _div(f, small, f.select(equal, one, large)))
    ratio = f.select(f.compare(small, "eq", 0.0), f.constant(0.0), ratio)
    angle = _atan_of_ratio(f, ratio)
    angle = f.select(steep, f.sub(f.constant(math.pi / 2), angle), angle)
    bits = f.op("arith.bitcast", x, element="i64")
    angle = f.select(
        f.compare(bits, "lt", f.constant(0, "i64")), f.sub(f.constant(math.pi), angle), angle
    )
    # NaN of either, whose comparisons are false.
    defined = _both(f, f.compare(a, "ge", 0.0), f.compare(b, "ge", 0.0))
    return f.select(defined, _signed(f, angle, y), f.constant(math.nan))


def _atan(f: Numbers, x: ir.Value) -> ir.Value:
    return _atan2(f, x, f.constant(1.0))


def _leg(f: Numbers, x: ir.Value) -> ir.Value:
    """sqrt(1 - x^2); NaN beyond 1."""
    one = f.constant(1.0)
    return _sqrt(f, f.mul(f.sub(one, x), f.add(one, x)))


def _asin(f: Numbers, x: ir.Value) -> ir.Value:
    return _atan2(f, x, _leg(f, x))


def _acos(f: Numbers, x: ir.Value) -> ir.Value:
    return _atan2(f, _leg(f, x), x)


def _tanh(f: Numbers, x: ir.Value) -> ir.Value:
    bounded = f.clamp(_magnitude(f, x), 0.0, 30.0)
    power = _expm1(f, f.mul(bounded, f.constant(-2.0)))
    above = f.op("arith.negf", power)
    return _signed(f, _div(f, above, f.add(power, f.constant(2.0))), x)


def _sinh(f: Numbers, x: ir.Value) -> ir.Value:
    """(p + p / (p + 1)) / 2 with p = exp|x| - 1; exp(|x| / 2)^2 / 2 of a large x."""
    magnitude = _magnitude(f, x)
    power = _expm1(f, f.clamp(magnitude, 0.0, 50.0))
    small = f.add(power, _div(f, power, f.add(power, f.constant(1.0))))
    half = f.op("math.exp", f.mul(magnitude, f.constant(0.5)))
    large = f.mul(f.mul(half, f.constant(0.5)), half)
    found = f.select(f.compare(magnitude, "gt", 40.0), large, f.mul(small, f.constant(0.5)))
    return _signed(f, found, x)


def _of_large(f: Numbers, x: ir.Value, usual: ir.Value) -> ir.Value:
    """log(2x) where x^2 + 1 is x^2, as inverse hyperbolic functions are there."""
    large = f.add(f.op("math.log", x), f.constant(math.log(2)))
    return f.select(f.compare(x, "gt", 2.0**28), large, usual)


def _asinh(f: Numbers, x: ir.Value) -> ir.Value:
    """log(1 + a + a^2 / (1 + sqrt(a^2 + 1))), a = |x|."""
    one, magnitude = f.constant(1.0), _magnitude(f, x)
    bounded = f.clamp(magnitude, 0.0, 2.0**28)
    square = f.mul(bounded, bounded)
    rest = _div(f, square, f.add(_sqrt(f, f.add(square, one)), one))
    return _signed(f, _of_large(f, magnitude, _log1p(f, f.add(bounded, rest))), x)


def _acosh(f: Numbers, x: ir.Value) -> ir.Value:
    """log(1 + t + sqrt(2t + t^2)), t = x - 1."""
    less = f.sub(x, f.constant(1.0))
    root = _sqrt(f, f.add(f.add(less, less), f.mul(less, less)))
    found = _of_large(f, x, _log1p(f, f.add(less, root)))
    return f.select(f.compare(x, "ge", 1.0), found, f.constant(math.nan))


def _atanh(f: Numbers, x: ir.Value) -> ir.Value:
    """log(1 + 2a / (1 - a)) / 2, a = |x|."""
    magnitude = _magnitude(f, x)
    ratio = _div(f, f.add(magnitude, magnitude), f.sub(f.constant(1.0), magnitude))
    return _signed(f, f.mul(_log1p(f, ratio), f.constant(0.5)), x)


def _cbrt(f: Numbers, x: ir.Value) -> ir.Value:
    """exp(log|x| / 3), and two steps of Newton's method; x is scaled where it is denormal."""
    magnitude = _magnitude(f, x)
    small = f.compare(magnitude, "lt", _LEAST_NORMAL)
    a = f.select(small, f.mul(magnitude, f.constant(2.0**54)), magnitude)
    usual = _both(f, f.compare(a, "gt", 0.0), f.compare(a, "lt", math.inf))
    a = f.select(usual, a, f.constant(1.0))
    third = f.constant(1 / 3)
    root = f.op("math.exp", f.mul(f.op("math.log", a), third))
    for _ in range(2):
        error = f.sub(root, _div(f, a, f.mul(root, root)))
        root = f.sub(root, f.mul(error, third))
    root = f.select(small, f.mul(root, f.constant(2.0**-18)), root)
    return f.select(usual, _signed(f, root, x), x)


def _erfc_of_magnitude(f: Numbers, x: ir.Value) -> ir.Value:
    """exp(-x^2) times a rational function; x^2 = h^2 + (x - h)(x + h), and h^2 is exact."""
    bounded = f.clamp(x, 0.0, 28.0)
    center, one = f.constant(_ERFC_CENTER), f.constant(1.0)
    place = _div(f, f.sub(bounded, center), f.add(bounded, center))
    factor = _div(f, f.polynomial(place, _ERFC), f.add(f.add(bounded, bounded), one))
    high = _first_bits(f, bounded)
    rest = f.mul(f.sub(high, bounded), f.add(high, bounded))
    square = f.op("arith.negf", f.mul(high, high))
    return f.mul(f.mul(f.op("math.exp", square), f.op("math.exp", rest)), factor)


def _erf(f: Numbers, x: ir.Value) -> ir.Value:
    magnitude = _magnitude(f, x)
    bounded = f.clamp(x, -1.0, 1.0)
    small = f.mul(bounded, f.polynomial(f.mul(bounded, bounded), _ERF))
    large = _signed(f, f.sub(f.constant(1.0), _erfc_of_magnitude(f, magnitude)), x)
    return f.select(f.compare(magnitude, "gt", 1.0), large, small)


def _erfc(f: Numbers, x: ir.Value) -> ir.Value:
    found = _erfc_of_magnitude(f, _magnitude(f, x))
    return f.select(f.compare(x, "lt", 0.0), f.sub(f.constant(2.0), found), found)


def _remainder(f: Numbers, x: ir.Value, y: ir.Value) -> ir.Value:
    """C's `fmod`: each step takes 26 bits of the quotient off, by exact products.

    They are exact where they are no denormal numbers, which IREE's threads take for zeros.
    """
    a, b = _magnitude(f, x), _magnitude(f, y)
    usual = _both(f, f.compare(a, "lt", math.inf), f.compare(b, "gt", 0.0))
    a, b = f.select(usual, a, f.constant(0.0)), f.select(usual, b, f.constant(1.0))

    def step(rest: ir.Value) -> ir.Value:
        whole = f.compare(rest, "ge", b)
        # Of a multiple of the divisor, where the quotient is infinite.
        scaled = f.mul(f.mul(rest, f.constant(2.0**-1000)), f.constant(2.0**-23))
        multiple = f.mul(f.mul(b, f.constant(2.0**1000)), f.constant(2.0**23))
        divisor = f.select(f.compare(scaled, "ge", b), multiple, b)
        divisor = f.select(whole, divisor, f.constant(1.0))
        quotient = _div(f, rest, divisor)
        # A little less than the quotient, in 26 bits.
        quotient = _first_bits(f, f.mul(quotient, f.constant(1 - 2.0**-52)))
        quotient = f.op("math.floor", f.clamp(quotient, 1.0, math.inf))
        high = _first_bits(f, divisor)
        low = f.sub(divisor, high)
        less = f.sub(f.sub(rest, f.mul(quotient, high)), f.mul(quotient, low))
        return f.select(whole, less, rest)

    rest = f.repeat_while(lambda rest: f.compare(rest, "ge", b), step, a)
    return f.select(usual, _signed(f, rest, x), f.constant(math.nan))


def _first_bits(f: Numbers, x: ir.Value) -> ir.Value:
    """The first 26 bits of a number."""
    bits = f.op("arith.bitcast", x, element="i64")
    return f.op("arith.bitcast", f.integer("andi", bits, -(1 << 27), "i64"))


_EXPANSIONS: dict[str, Callable[..., ir.Value]] = {
    "arith.remf": _remainder,
    "math.acos": _acos,
    "math.acosh": _acosh,
    "math.asin": _asin,
    "math.asinh": _asinh,
    "math.atan": _atan,
    "math.atan2": _atan2,
    "math.atanh": _atanh,
    "math.cbrt": _cbrt,
    "math.cos": _cos,
    "math.erf": _erf,
    "math.erfc": _erfc,
    "math.exp2": _exp2,
    "math.expm1": _expm1,
    "math.log10": _log10,
    "math.log1p": _log1p,
    "math.log2": _log2,
    "math.sin": _sin,
    "math.sinh": _sinh,
    "math.tan": _tan,
    "math.tanh": _tanh,
}
