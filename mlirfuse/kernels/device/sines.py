"""Sine and cosine of f32 on tiles, in full and to be rounded to f16 or bf16.

That of libdevice has a loop for large arguments, about 200 instructions for each element of a
thread: 64 of them in the epilogue of a matmul are more than the instruction cache of an SM holds.
Here it is in a branch that a whole tile takes, or none of it.
"""

import triton
import triton.language as tl

LIMIT = tl.constexpr(8192.0)
"""Arguments up to which products of a quarter turn's parts are exact in f32."""


@triton.jit
def _quarter_turns(x):
    """The nearest number of quarter turns and the rest of an angle below `LIMIT`.

    Three parts of a quarter turn have 8 to 11 bits: their products with up to 13 bits are exact.
    (W. Cody and W. Waite, Software Manual for the Elementary Functions, 1980.)

    Returns:
      An f32 whose last bits are the number, and the rest, up to an eighth of a turn.
    """
    shifted = x * 0.6366197723675814 + 12582912.0
    turns = shifted - 12582912.0
    rest = (x - turns * 1.5703125) - turns * 4.837512969970703e-4
    return shifted, (rest - turns * 7.549533620476723e-8) - turns * 2.563344e-12


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
def _wave(x, series: tl.constexpr, quarters: tl.constexpr):
    """The sine of an angle plus so many quarter turns, 0 or 1."""
    if tl.max(tl.abs(x), axis=None) < LIMIT:
        shifted, rest = _quarter_turns(x)
        square = rest * rest
        odd, even = series(square)
        sine = rest + rest * square * odd
        cosine = (1.0 - square * 0.5) + square * square * even
        turns = shifted.to(tl.int32, bitcast=True) + quarters
        result = tl.where((turns & 1) == 0, sine, cosine)
        result = tl.where((turns & 2) == 0, result, -result)
    elif quarters == 0:
        result = tl.sin(x)
    else:
        result = tl.cos(x)
    return result


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
