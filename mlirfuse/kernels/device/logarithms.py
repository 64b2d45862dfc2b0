"""Logarithms of sums with one, on tiles; `library` has them, too."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def log1p(x):
    """Logarithm of the sum with one, of f32 wrong by a unit in the last place at most.

    That of f32 has no branch, as libdevice's has one for each element: a thread computes several
    at a time. 1 + x is 2^k times a number from 3/4 to 3/2, which is 1 + r; the polynomial is
    fitted to the relative error of log(1 + r).
    """
    if x.dtype == tl.float32:
        bits, one = x.to(tl.int32, bitcast=True), (1.0 + x).to(tl.int32, bitcast=True)
        exponent = (one - 0x3F400000) & -0x800000
        # x / 2^k, and 4 / 2^k, which has no subnormal numbers.
        scaled = (bits - exponent).to(tl.float32, bitcast=True)
        quarter = (0x40800000 - exponent).to(tl.float32, bitcast=True)
        r = scaled + tl.fma(0.25, quarter, -1.0)
        q = tl.fma(r, -0.04508218169212341, 0.10464177280664444)
        q = tl.fma(r, q, -0.13161733746528625)
        q = tl.fma(r, q, 0.14478394389152527)
        q = tl.fma(r, q, -0.16647253930568695)
        q = tl.fma(r, q, 0.1999085247516632)
        q = tl.fma(r, q, -0.2500009834766388)
        q = tl.fma(r, q, 0.3333345055580139)
        q = tl.fma(r, q, -0.5)
        found = tl.fma(exponent.to(tl.float32), 8.262958405176314e-8, tl.fma(r * r, q, r))
        end = tl.where(x == -1.0, float("-inf"), float("nan"))
        found = tl.where(x > -1.0, found, end)
        return tl.where((x == 0.0) | (x == float("inf")), x, found)
    return libdevice.log1p(x)


@triton.jit
def _near_one(rest):
    """log(1 + rest) of rests up to `NEAR`, wrong by 2e-7 of it."""
    return rest * (1.0 - rest * (0.5 - rest * (1.0 / 3.0 - rest * 0.25)))


NEAR = tl.constexpr(0.03)
"""Distances from one up to which the fast logarithm, wrong by 2^-22 around one, is not taken: it is
wrong by 6e-6 of the result outside of them."""


@triton.jit
def short_log2(x):
    """Binary logarithm of f32, to be rounded to f16 or bf16: wrong by 1e-5 of it, at most.

    Triton's takes 27 instructions on NVIDIA's GPUs, this one 13. The fast one takes subnormal
    numbers for zeros.
    """
    rest, small = x - 1.0, x < 1.1754943508222875e-38
    far = libdevice.fast_log2f(tl.where(small, x * 16777216.0, x)) - tl.where(small, 24.0, 0.0)
    return tl.where(tl.abs(rest) < NEAR, _near_one(rest) * 1.4426950408889634, far)


@triton.jit
def short_log(x):
    """Logarithm of f32, as `short_log2`."""
    rest = x - 1.0
    far = short_log2(x) * 0.6931471805599453
    return tl.where(tl.abs(rest) < NEAR, _near_one(rest), far)


@triton.jit
def short_log10(x):
    """Decimal logarithm of f32, as `short_log2`."""
    return short_log(x) * 0.4342944819032518


@triton.jit
def short_log1p(x):
    """Logarithm of the sum with one, of f32, as `short_log2`."""
    far = libdevice.fast_log2f(1.0 + x) * 0.6931471805599453
    return tl.where(tl.abs(x) < NEAR, _near_one(x), far)
