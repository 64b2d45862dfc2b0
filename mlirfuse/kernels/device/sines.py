"""Sine and cosine of f32 on tiles, in full and to be rounded to f16 or bf16.

That of libdevice has a loop for large arguments, about 200 instructions for each element of a
thread: 64 of them in the epilogue of a matmul are more than the instruction cache of an SM holds.
In those of tiles it is in a branch that a whole tile takes, or none of it. That costs a barrier: on
an H200 `x.where(...).cos().rsqrt().log1p().cos()` of 1.3 million bf16, eight of a thread, took 9.8
us so, 7.0 with libdevice's, and 5.9 where no argument can be large.
"""

import triton
import triton.language as tl

LIMIT = tl.constexpr(131072.0)
"""Arguments up to which a rest is below one: its bits are a multiple of the last one of a quarter
turn in f32, so that f32 holds it. Above f16's largest number."""

INFINITE_HALF = tl.constexpr(65520.0)
"""The smallest number that f16 rounds to infinity."""


@triton.jit
def _quarter_turns(x):
    """The nearest number of quarter turns and the rest of an angle below `LIMIT`.

    A quarter turn is the sum of three numbers of f32, and each product is added without rounding
    it first: so the first difference is exact. (W. Cody and W. Waite, Software Manual for the
    Elementary Functions, 1980.)

    Returns:
      An f32 whose last bits are the number, and the rest, up to an eighth of a turn.
    """
    shifted = tl.fma(x, 0.6366197723675814, 12582912.0)
    turns = shifted - 12582912.0
    rest = tl.fma(turns, -1.57079637050628662109375, x)
    rest = tl.fma(turns, 4.371138828673793e-8, rest)
    return shifted, tl.fma(turns, 1.7151245100058819e-15, rest)


@triton.jit
def _short_series(square):
    """(sin(x) - x) / x^3 and (cos(x) - 1 + x^2 / 2) / x^4, for results of 16 bits."""
    odd = -1.6666654611e-1 + square * (8.3321608736e-3 - square * 1.9515e-4)
    even = 4.166664568e-2 + square * (-1.388731625e-3 + square * 2.4433e-5)
    return odd, even


@triton.jit
def _full_series(square):
    """The same, for results of f32."""
    odd = -1.666666716337204e-1 + square * (
        8.333329111337662e-3 + square * (-1.983930415008217e-4 + square * 2.718046516747563e-6)
    )
    even = 4.16666679084301e-2 + square * (
        -1.3888883404433727e-3 + square * (2.479945214872714e-5 - square * 2.720504710396199e-7)
    )
    return odd, even


@triton.jit
def _bounded(x, series: tl.constexpr, quarters: tl.constexpr):
    """The sine of an angle below `LIMIT` plus so many quarter turns, 0 or 1."""
    shifted, rest = _quarter_turns(x)
    square = rest * rest
    odd, even = series(square)
    sine = rest + rest * square * odd
    cosine = (1.0 - square * 0.5) + square * square * even
    turns = shifted.to(tl.int32, bitcast=True) + quarters
    result = tl.where((turns & 1) == 0, sine, cosine)
    return tl.where((turns & 2) == 0, result, -result)


@triton.jit
def _wave(x, series: tl.constexpr, quarters: tl.constexpr):
    """The same of any angle."""
    if tl.max(tl.abs(x), axis=None) < LIMIT:
        result = _bounded(x, series, quarters)
    elif quarters == 0:
        result = tl.sin(x)
    else:
        result = tl.cos(x)
    return result


@triton.jit
def _of_half(x, quarters: tl.constexpr):
    """The sine of an f16 in f32 plus so many quarter turns; NaN where f16 would be infinite."""
    found = _bounded(x.to(tl.float32), _short_series, quarters)
    return tl.where(tl.abs(x) < INFINITE_HALF, found, float("nan"))


@triton.jit
def half_sin(x):
    """Sine of an f16 that may be kept in f32, to be rounded to f16, as `short_sin`."""
    return _of_half(x, 0)


@triton.jit
def half_cos(x):
    """Cosine of an f16 that may be kept in f32, as `half_sin`."""
    return _of_half(x, 1)


@triton.jit
def short_sin(x):
    """Sine of f32, to be rounded to f16 or bf16: wrong by 1e-6, and by 1e-5 of it, at most."""
    return _wave(x, _short_series, 0)


@triton.jit
def short_cos(x):
    """Cosine of f32, as `short_sin`."""
    return _wave(x, _short_series, 1)


@triton.jit
def tile_sin(x):
    """Sine of f32, wrong by two units in the last place at most; a zero keeps its sign."""
    return tl.where(x == 0, x, _wave(x, _full_series, 0))


@triton.jit
def tile_cos(x):
    """Cosine of f32, as `tile_sin`."""
    return _wave(x, _full_series, 1)
