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
def short_log1p(x):
    """Logarithm of the sum with one, of f32: as `short_expm1`."""
    near = x * (1.0 - x * (0.5 - x * (1.0 / 3.0)))
    return tl.where(tl.abs(x) < 0.01, near, tl.log2(1.0 + x) * 0.6931471805599453)
