"""What the kernels call: functions on tiles that Triton has no word for."""

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
    """The same tile of 16 bits, which for compilers depends on what rows were reduced to.

    What was computed of it before is not what is computed of it now, so no registers hold it over
    the reduction. The mask has all bits, as no grid is empty.
    """
    mask = tl.inline_asm_elementwise(
        "{.reg .pred some;\nmov.u32 $0, %nctaid.x;\nor.b32 $0, $0, $1;\n"
        "setp.ne.b32 some, $0, 0;\nselp.b32 $0, -1, 0, some;}",
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

    A polynomial in the square with the least relative error up to 3.3: all of it are additions and
    products, which are never short of units. Beyond, its last value times x is above 1, and erf is
    1 exactly: a GELU far below zero is zero.
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
def tile_of(number, rows, columns, band: tl.constexpr):
    """Row and column of a tile of the result: bands of rows, so that workgroups share operands."""
    per_band = band * columns
    first = (number // per_band) * band
    height = tl.minimum(rows - first, band)
    within = number % per_band
    return first + within % height, within // height


@triton.jit
def load(pointers, inside):
    """Loads a tile; zero where `inside`, which is None when everything is, does not hold."""
    other: tl.constexpr = None if inside is None else 0
    return tl.load(pointers, mask=inside, other=other)


@triton.jit
def halves_of_bytes(pairs, dim: tl.constexpr):
    """The two elements of four bits of each byte beside each other along a dimension."""
    halves = tl.join((pairs << 4) >> 4, pairs >> 4)
    if dim == 0:
        halves = halves.permute(0, 2, 1)
    tall: tl.constexpr = pairs.shape[0] * (2 - dim)
    return halves.reshape(tall, pairs.shape[0] * pairs.shape[1] * 2 // tall)


@triton.jit
def half_of_byte(byte, place):
    """The element of four bits at a place, in the byte that has it."""
    shift = (28 - place % 2 * 4).to(tl.int32)
    return ((byte.to(tl.int32) << shift) >> 28).to(tl.int8)


@triton.jit
def both(a, b):
    """Where two conditions hold, of which the first may be None: always."""
    return b if a is None else a & b


@triton.jit
def product(
    left,
    right,
    left_step,
    right_step,
    row_inside,
    column_inside,
    depth: tl.constexpr,
    block: tl.constexpr,
    height: tl.constexpr,
    width: tl.constexpr,
    kind: tl.constexpr,
):
    """Sums left times right over `depth` terms.

    Args:
      left: pointers to a column of the left operand, shape [height, 1].
      right: pointers to a row of the right operand, shape [1, width].
      left_step: elements from one term to the next in the left operand.
      right_step: the same in the right operand.
      row_inside: which rows exist, shape [height, 1]; None where all do.
      column_inside: which columns exist, shape [1, width]; None where all do.
      depth: number of terms.
      block: terms at a time.
      height: rows of the tile.
      width: columns of the tile.
      kind: element type of the sums.
    """
    term = tl.arange(0, block)
    left_tile = left + term[None, :] * left_step
    right_tile = right + term[:, None] * right_step
    total = tl.zeros([height, width], dtype=kind)
    for _ in range(0, depth // block):
        a = load(left_tile, row_inside)
        b = load(right_tile, column_inside)
        total = tl.dot(a, b, total, out_dtype=kind)
        left_tile += block * left_step
        right_tile += block * right_step
    if depth % block:
        inside = term < depth % block
        a = load(left_tile, both(row_inside, inside[None, :]))
        b = load(right_tile, both(column_inside, inside[:, None]))
        total = tl.dot(a, b, total, out_dtype=kind)
    return total


@triton.jit
def shared_product(
    left,
    right,
    left_step,
    right_step,
    row_inside,
    column_inside,
    depth: tl.constexpr,
    block: tl.constexpr,
    height: tl.constexpr,
    width: tl.constexpr,
    shares: tl.constexpr,
):
    """The same in f32, where each warp has a share of the terms of a block and all of the tile.

    Few rows are one matrix instruction high: warps beside each other would wait for as many terms,
    one after the other, as there are. The arguments are those of `product`, and how many shares.
    """
    part: tl.constexpr = block // shares
    term = tl.arange(0, shares)[:, None] * part + tl.arange(0, part)[None, :]
    left_tile = left[None, :, :] + term[:, None, :] * left_step
    right_tile = right[None, :, :] + term[:, :, None] * right_step
    rows = row_inside if row_inside is None else row_inside[None, :, :]
    columns = column_inside if column_inside is None else column_inside[None, :, :]
    total = tl.zeros([shares, height, width], dtype=tl.float32)
    for _ in range(0, depth // block):
        a = load(left_tile, rows)
        b = load(right_tile, columns)
        total = tl.dot(a, b, total)
        left_tile += block * left_step
        right_tile += block * right_step
    if depth % block:
        inside = term < depth % block
        a = load(left_tile, both(rows, inside[:, None, :]))
        b = load(right_tile, both(columns, inside[:, :, None]))
        total = tl.dot(a, b, total)
    return tl.sum(total, 0)


@triton.jit
def row_product(
    left,
    right,
    left_step,
    right_step,
    column_inside,
    depth: tl.constexpr,
    block: tl.constexpr,
    width: tl.constexpr,
    stages: tl.constexpr,
    kind: tl.constexpr,
):
    """Sums one row times right over `depth` terms: what `product` does, without matrix units.

    Args:
      left: pointer to the first term of the row, shape [1, 1].
      right: pointers to a row of the right operand, shape [1, width].
      left_step: elements from one term to the next in the left operand.
      right_step: the same in the right operand.
      column_inside: which columns exist, shape [1, width]; None where all do.
      depth: number of terms.
      block: terms at a time.
      width: columns of the tile.
      stages: blocks that are loaded ahead.
      kind: element type of the sums.
    """
    term = tl.arange(0, block)[:, None]
    left_tile = left + term * left_step
    right_tile = right + term * right_step
    total = tl.zeros([block, width], dtype=kind)
    for _ in tl.range(0, depth // block, num_stages=stages):
        a = tl.load(left_tile)
        b = load(right_tile, column_inside)
        total += a.to(kind) * b.to(kind)
        left_tile += block * left_step
        right_tile += block * right_step
    if depth % block:
        inside = term < depth % block
        a = load(left_tile, inside)
        b = load(right_tile, both(column_inside, inside))
        total += a.to(kind) * b.to(kind)
    return tl.sum(total, 0, keep_dims=True)
