"""Functions on tiles that kernels call and Triton lacks."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from mlirfuse.kernels.device.exponentials import (
    erf,
    expm1,
    quotient,
    short_erf,
    short_expm1,
    short_tanh,
    tanh,
)
from mlirfuse.kernels.device.logarithms import (
    log1p,
    short_log,
    short_log1p,
    short_log2,
    short_log10,
)
from mlirfuse.kernels.device.sines import (
    half_cos,
    half_sin,
    short_cos,
    short_sin,
    tile_cos,
    tile_sin,
)

__all__ = [
    "erf",
    "expm1",
    "half_cos",
    "half_sin",
    "log1p",
    "quotient",
    "short_cos",
    "short_erf",
    "short_expm1",
    "short_log",
    "short_log1p",
    "short_log2",
    "short_log10",
    "short_sin",
    "short_tanh",
    "tanh",
    "tile_cos",
    "tile_sin",
]


@triton.jit
def larger(a, b):
    """The larger of two numbers; a NaN wins."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def smaller(a, b):
    """The smaller of two numbers; a NaN wins."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def nearest_tf32(x):
    """The numbers of f32 as the nearest ones of TF32; tensor cores drop the lower 13 bits.

    An infinity and a NaN are kept. By integer arithmetic, five instructions in place of one, a 1x1
    convolution of 12.9 GB took 4.3 ms on an H200, and 3.5 without rounding.
    """
    return tl.inline_asm_elementwise(
        "cvt.rna.tf32.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def greater(a, b):
    """The greater of two integers."""
    return tl.maximum(a, b)


@triton.jit
def lesser(a, b):
    """The lesser of two integers."""
    return tl.minimum(a, b)


@triton.jit
def product(a, b):
    """The product of two numbers."""
    return a * b


@triton.jit
def bits_of_both(a, b):
    """The bits that both integers have."""
    return a & b


@triton.jit
def bits_of_either(a, b):
    """The bits that one of two integers has, or both."""
    return a | b


@triton.jit
def bits_of_one(a, b):
    """The bits that just one of two integers has."""
    return a ^ b


@triton.jit
def round_even(x):
    """The nearest whole number of f32, half to even: sums from 2^23 on hold no fractions."""
    size = tl.abs(x)
    whole = tl.where(size < 8388608.0, (size + 8388608.0) - 8388608.0, size)
    return tl.where(x < 0.0, -whole, whole)


@triton.jit
def short_round(x):
    """The same of f32 that was and becomes f16 or bf16; a zero has no sign.

    Sums from 2^23 to 2^24 hold no fractions; larger numbers of so few bits are whole before and,
    rounded, after.
    """
    return (x + 12582912.0) - 12582912.0


@triton.jit
def byte(x, low: tl.constexpr, high: tl.constexpr):
    """The nearest whole number within the bounds, which are those of an i8 or nearer; half to even.

    It is the last bits of a sum of f32 from 2^23 to 2^24, which holds no fractions. An integer
    operation follows: where nothing is between the sum and a store of its last byte to shared
    memory, ptxas 12.8 and that of driver 580 convert the float to a byte, which is 255.
    """
    kept = tl.minimum(tl.maximum(x, low), high).to(tl.float32)
    return ((kept + 12582914.0).to(tl.int32, bitcast=True) - 2).to(tl.int8)


@triton.jit
def packed(x, reduced):
    """The same tile of 16 bits, with a dependence on a reduction of its rows that compilers see.

    Values computed from it before the reduction and after it are then different to compilers, so no
    registers hold them across the reduction. The mask has all bits, as no grid is empty.
    """
    mask = tl.inline_asm_elementwise(
        "{.reg .pred nonempty;\nmov.u32 $0, %nctaid.x;\nor.b32 $0, $0, $1;\n"
        "setp.ne.b32 nonempty, $0, 0;\nselp.b32 $0, -1, 0, nonempty;}",
        "=&r,r",
        [reduced.to(tl.float32).to(tl.int32, bitcast=True)],
        dtype=tl.int32,
        is_pure=True,
        pack=1,
    )
    return tl.inline_asm_elementwise(
        "and.b32 $0, $1, $2;",
        "=r,r,r,r",
        [x, mask.broadcast_to(x.shape)],
        dtype=x.dtype,
        is_pure=True,
        pack=2,
    )


@triton.jit
def swizzle_tile(tile, tiles_m, tiles_n, group_m: tl.constexpr):
    """Indices of a tile along M and N, so that `group_m` rows of tiles run together.

    Their CTAs share blocks of B in the L2 cache.
    """
    tiles_per_group = group_m * tiles_n
    first_m = (tile // tiles_per_group) * group_m
    size_m = tl.minimum(tiles_m - first_m, group_m)
    within = tile % tiles_per_group
    return first_m + within % size_m, within // size_m


@triton.jit
def load(pointers, inside):
    """Loads a tile, with zeros where the mask is false; unmasked where it is None."""
    other: tl.constexpr = None if inside is None else 0
    return tl.load(pointers, mask=inside, other=other)


@triton.jit
def halves_of_bytes(pairs, dim: tl.constexpr):
    """The two elements of four bits of each byte, adjacent along a dimension."""
    halves = tl.join((pairs << 4) >> 4, pairs >> 4)
    if dim == 0:
        halves = halves.permute(0, 2, 1)
    rows: tl.constexpr = pairs.shape[0] * (2 - dim)
    return halves.reshape(rows, pairs.shape[0] * pairs.shape[1] * 2 // rows)


@triton.jit
def repeated(x, count: tl.constexpr):
    """Each element of rows so many times, next to each other."""
    rows: tl.constexpr = x.shape[0]
    columns: tl.constexpr = x.shape[1]
    repeats = tl.broadcast_to(tl.expand_dims(x, 2), [rows, columns, count])
    return repeats.reshape(rows, columns * count)


@triton.jit
def half_of_byte(byte, offset):
    """The element of four bits at an offset in memory, from the byte that holds it."""
    shift = (28 - offset % 2 * 4).to(tl.int32)
    return ((byte.to(tl.int32) << shift) >> 28).to(tl.int8)


@triton.jit
def acos(x):
    """Arc cosine."""
    return libdevice.acos(x)


@triton.jit
def acosh(x):
    """Inverse hyperbolic cosine."""
    return libdevice.acosh(x)


@triton.jit
def asin(x):
    """Arc sine."""
    return libdevice.asin(x)


@triton.jit
def asinh(x):
    """Inverse hyperbolic sine."""
    return libdevice.asinh(x)


@triton.jit
def atan(x):
    """Arc tangent."""
    return libdevice.atan(x)


@triton.jit
def atanh(x):
    """Inverse hyperbolic tangent."""
    return libdevice.atanh(x)


@triton.jit
def cosh(x):
    """Hyperbolic cosine."""
    return libdevice.cosh(x)


@triton.jit
def erfc(x):
    """Complement of the error function."""
    return libdevice.erfc(x)


@triton.jit
def log10(x):
    """Decimal logarithm."""
    return libdevice.log10(x)


@triton.jit
def sinh(x):
    """Hyperbolic sine."""
    return libdevice.sinh(x)


@triton.jit
def tan(x):
    """Tangent."""
    return libdevice.tan(x)


@triton.jit
def trunc(x):
    """The whole part."""
    return libdevice.trunc(x)


@triton.jit
def round(x):
    """The nearest whole number, half away from zero."""
    return libdevice.round(x)


@triton.jit
def round_even_f64(x):
    """The nearest whole number of f64, half to even."""
    return libdevice.rint(x)


@triton.jit
def tanh_f64(x):
    """Hyperbolic tangent of f64."""
    return libdevice.tanh(x)


@triton.jit
def atan2(x, y):
    """Arc tangent of x over y, in the quadrant of the point (y, x)."""
    return libdevice.atan2(x, y)


@triton.jit
def copysign(x, y):
    """The magnitude of x with the sign of y."""
    return libdevice.copysign(x, y)


@triton.jit
def fmod(x, y):
    """Remainder of a division whose quotient is rounded toward zero."""
    return libdevice.fmod(x, y)


@triton.jit
def power(x, y):
    """The first number to the power of the second."""
    return libdevice.pow(x, y)


@triton.jit
def half_power(x):
    """The power of one half: the root, but of zeros +0 and of infinities +inf."""
    return tl.where(x == float("-inf"), float("inf"), tl.sqrt(x + 0.0))


@triton.jit
def cbrt(x):
    """Cube root: a power of two, and one step of Newton's method; of f32 below 2^-126 scaled."""
    small = tl.abs(x) < 1.1754943508222875e-38
    size = tl.where(small, tl.abs(x) * 16777216.0, tl.abs(x))
    root = tl.exp2(tl.log2(size) * (1.0 / 3.0))
    root = root - (root - size / (root * root)) * (1.0 / 3.0)
    root = tl.where(small, root * 0.00390625, root)
    root = tl.where(x < 0.0, -root, root)
    return tl.where((x == 0.0) | (size == float("inf")) | (x != x), x, root)


@triton.jit
def floor_divide(x, y):
    """Quotient of signed integers, rounded down."""
    quotient = x // y
    remainder = x - quotient * y
    return quotient - ((remainder != 0) & ((remainder < 0) != (y < 0))).to(quotient.dtype)


@triton.jit
def ceil_divide(x, y):
    """Quotient of signed integers, rounded up."""
    quotient = x // y
    remainder = x - quotient * y
    return quotient + ((remainder != 0) & ((remainder < 0) == (y < 0))).to(quotient.dtype)


@triton.jit
def ones(x):
    """The number of bits of an unsigned integer that are set."""
    if x.dtype.primitive_bitwidth == 64:
        return libdevice.popc(x.to(tl.int64, bitcast=True)).to(tl.int32)
    return libdevice.popc(x.to(tl.uint32).to(tl.int32, bitcast=True))


@triton.jit
def leading_zeros(x):
    """The number of zeros above the highest bit of an unsigned integer that is set."""
    if x.dtype.primitive_bitwidth == 64:
        return libdevice.clz(x.to(tl.int64, bitcast=True)).to(tl.int32)
    zeros = libdevice.clz(x.to(tl.uint32).to(tl.int32, bitcast=True))
    return zeros - (32 - x.dtype.primitive_bitwidth)


@triton.jit
def trailing_zeros(x):
    """The number of zeros below the lowest bit of an unsigned integer that is set."""
    return ones(~x & (x - 1))
