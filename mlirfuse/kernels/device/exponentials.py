"""Functions of exponentials, on tiles: hyperbolic tangents, error functions, quotients with them.

Those of f32 have few instructions and no branch: an H200 reads an element of f32 in the time in
which it issues 30 instructions for each. `library` has them, too.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def quotient(x, y):
    """The quotient of f32, wrong by two units in the last place, as Triton's `/` is.

    A divisor of a size from 2^126 on counts as infinite, a subnormal one as zero: Triton's takes
    six instructions more to scale them.
    """
    return libdevice.fast_dividef(x, y)


@triton.jit
def expm1(x):
    """Exponential less one, of f32 wrong by 6e-7 of it at most where it is less than one.

    By a polynomial up to 0.5, fitted to the relative error. Beyond it the difference is wrong by as
    much as the exponential, which is wrong by the rounding of x times the binary logarithm of e.
    That of libdevice takes 25 instructions on an H200, this one 11.
    """
    if x.dtype == tl.float32:
        sums = tl.fma(x, 0.00019849803356919438, 0.001399617874994874)
        sums = tl.fma(x, sums, 0.008333578705787659)
        sums = tl.fma(x, sums, 0.04166536033153534)
        sums = tl.fma(x, sums, 0.166666641831398)
        sums = tl.fma(x, sums, 0.5)
        near = tl.fma(x * x, sums, x)
        return tl.where(tl.abs(x) < 0.5, near, tl.exp2(x * LOG2_E) - 1.0)
    return libdevice.expm1(x)


@triton.jit
def short_expm1(x):
    """Exponential less one, of f32, to be rounded to f16 or bf16: wrong by 1e-5 of it, at most."""
    near = x * (1.0 + x * (0.5 + x * (1.0 / 6.0)))
    return tl.where(tl.abs(x) < 0.01, near, tl.exp2(x * LOG2_E) - 1.0)


@triton.jit
def tanh(x):
    """Hyperbolic tangent of f32, wrong by 1e-6 of it at most.

    By an exponential, and up to 0.35 by a polynomial that is fitted to the relative error: 12
    instructions on an H200.
    """
    far = 1.0 - quotient(2.0, tl.exp2(x * (2.0 * LOG2_E)) + 1.0)
    square = x * x
    sums = tl.fma(square, -0.04914845898747444, 0.1329982429742813)
    sums = tl.fma(square, sums, -0.33332663774490356)
    near = tl.fma(x * square, sums, x)
    return tl.where(tl.abs(x) < 0.35, near, far)


@triton.jit
def short_tanh(x):
    """Hyperbolic tangent of f32, to be rounded to f16 or bf16: wrong by 1e-5 of it, at most."""
    far = 1.0 - quotient(2.0, tl.exp2(x * (2.0 * LOG2_E)) + 1.0)
    near = x - x * x * x * (1.0 / 3.0)
    return tl.where(tl.abs(x) < 0.04, near, far)


@triton.jit
def erf(x):
    """Error function, of f32 wrong by 3e-7 of it at most.

    A quotient of polynomials in the square, fitted to the relative error up to 3.925, from which on
    the nearest number of f32 is one. libdevice's chooses between two polynomials, coefficient by
    coefficient: 28 instructions on an H200, 18 here.
    """
    if x.dtype == tl.float32:
        square = x * x
        top = tl.fma(square, 2.0460229279706255e-06, 0.0002848446019925177)
        top = tl.fma(square, top, 0.0037725893780589104)
        top = tl.fma(square, top, 0.05276941880583763)
        top = tl.fma(square, top, 0.1905946433544159)
        top = tl.fma(square, top, 1.1283791065216064)
        bottom = tl.fma(square, 3.804778680205345e-05, 0.0011638676514849067)
        bottom = tl.fma(square, bottom, 0.014983275905251503)
        bottom = tl.fma(square, bottom, 0.11418309062719345)
        bottom = tl.fma(square, bottom, 0.5022428631782532)
        bottom = tl.fma(square, bottom, 1.0)
        sign = (x.to(tl.int32, bitcast=True) & -0x80000000) | 0x3F800000
        one = sign.to(tl.float32, bitcast=True)
        return tl.where(tl.abs(x) < 3.925, quotient(x * top, bottom), tl.where(x == x, one, x))
    return tl.erf(x)


@triton.jit
def short_erf(x):
    """Error function of f32, to be rounded to f16 or bf16: wrong by 1e-5 of it, at most.

    A polynomial in the square with the least relative error up to 3.3: all of its operations are
    additions and multiplications, which have the most execution units. Above 3.3 the last value
    times x is above 1, and erf is 1 exactly: a GELU far below zero is zero.
    """
    square = tl.minimum(x * x, 10.89) * 0.18365472910927458 - 1.0
    sums = 0.004008698742836714 * square - 0.00975095760077238
    sums = sums * square + 0.010420424863696098
    sums = sums * square - 0.017297806218266487
    sums = sums * square + 0.03707379475235939
    sums = sums * square - 0.059597503393888474
    sums = sums * square + 0.08398158848285675
    sums = sums * square - 0.11437901109457016
    sums = sums * square + 0.1520829200744629
    sums = sums * square - 0.21164724230766296
    sums = sums * square + 0.428135484457016
    value = tl.maximum(x * sums, -1.0, propagate_nan=tl.PropagateNan.ALL)
    return tl.minimum(value, 1.0, propagate_nan=tl.PropagateNan.ALL)
