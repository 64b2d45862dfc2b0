"""Functions on tiles that kernels call and Triton lacks."""

import triton
import triton.language as tl


@triton.jit
def larger(a, b):
    """The larger of two numbers; a NaN wins."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


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

    It is the last bits of a sum of f32 from 2^23 to 2^24, which holds no fractions.
    """
    kept = tl.minimum(tl.maximum(x, low), high).to(tl.float32)
    return (kept + 12582912.0).to(tl.int32, bitcast=True).to(tl.int8)


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
def tanh(x):
    """Hyperbolic tangent of f32: by exponentials, and by its series near zero."""
    power = tl.exp(2.0 * tl.minimum(tl.abs(x), 16.0))
    far = 1.0 - 2.0 / (power + 1.0)
    square = x * x
    series = -17.0 / 315.0 + square * (62.0 / 2835.0)
    near = x + x * square * (-1.0 / 3.0 + square * (2.0 / 15.0 + square * series))
    result = tl.where(tl.abs(x) < 0.25, near, tl.where(x < 0.0, -far, far))
    return tl.where(x == x, result, x)


@triton.jit
def short_tanh(x):
    """Hyperbolic tangent of f32, to be rounded to f16 or bf16: wrong by 1e-5 of it, at most."""
    far = 1.0 - 2.0 / (tl.exp2(x * 2.8853900817779268) + 1.0)
    near = x - x * x * x * (1.0 / 3.0)
    return tl.where(tl.abs(x) < 0.04, near, far)


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
def half_of_byte(byte, offset):
    """The element of four bits at an offset in memory, from the byte that holds it."""
    shift = (28 - offset % 2 * 4).to(tl.int32)
    return ((byte.to(tl.int32) << shift) >> 28).to(tl.int8)
