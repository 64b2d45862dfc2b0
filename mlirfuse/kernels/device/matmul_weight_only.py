"""Products of few rows with weights of i8 and i4, in Gluon: from memory straight to matrix units.

Weights are the left operand of matrix instructions, and each thread loads 16 bytes of a column.
The terms of a sum may come in any order: that of the instruction's registers is made to be the
order in which a thread has its weights, and the rows are loaded in the same one. So nothing moves
between threads. Warps share the terms of a block, and their sums are added up at the end.

Numbers become floating-point ones by bits: a number of four bits below the first bits of 1024 is
1024 and that number, and one subtraction for two of them takes off 1024, the sign's place and the
zero point. All of it is exact; only the product with the scale of a run is rounded.
"""

import dataclasses

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2

WORDS = gl.constexpr(4)
"""Of 32 bits that a thread loads at once."""

BESIDE = gl.constexpr(4)
"""Threads that load pieces of one column beside each other."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """What is computed, and by which tiles.

    Attributes:
      bits: of a weight, 4 or 8.
      columns: of the weights.
      depth: terms of a sum, a multiple of the weights in a word.
      run: terms that share a scale and a zero point, a multiple of those that a thread loads at
        once; 0 where it is a column.
      scaled: whether weights are multiplied by a scale before they are summed.
      height: rows of a tile.
      width: columns of a tile.
      shares: of the terms of a block, each multiplied by a warp.
      pieces: of 64 bytes in a share of a column.
    """

    bits: int
    columns: int
    depth: int
    run: int
    scaled: bool
    height: int
    width: int
    shares: int
    pieces: int


# Triton keeps what it has compiled by the text of such functions, not by that of a class.
@gluon.constexpr_function
def shaped(*numbers):
    """A `Shape`, for a kernel's text."""
    return Shape(*numbers)


@gluon.constexpr_function
def written(width, warps):
    """The layout of results: columns side by side for each thread."""
    return gl.BlockedLayout([1, min(8, width // 8)], [4, 8], [warps, 1], [1, 0])


@gluon.constexpr_function
def each_word(shape):
    """Weights in a word."""
    return 32 // shape.bits


@gluon.constexpr_function
def _block(shape):
    """Words of a column in a block."""
    return shape.shares * shape.pieces * BESIDE.value * WORDS.value


@gluon.constexpr_function
def _held(shape):
    """The layout of words: shares, columns, threads beside each other, words of a thread."""
    return gl.BlockedLayout([1, 1, 1, 4], [1, 8, 4, 1], [shape.shares, 1, 1, 1], [3, 2, 1, 0])


@gluon.constexpr_function
def _read(shape):
    """The layout of the rows: shares, rows, and the terms as words have them."""
    each = 32 // shape.bits
    return gl.BlockedLayout(
        [1, 1, 1, 4, each], [1, 8, 4, 1, 1], [shape.shares, 1, 1, 1, 1], [4, 3, 2, 1, 0]
    )


@gluon.constexpr_function
def _summed(shape):
    """The layout of sums."""
    return gl.NVMMADistributedLayout([2, 0], [shape.shares, 1, 1], [1, 16, 8])


@gluon.constexpr_function
def _along(dim, rank, layout):
    """The layout of one dimension of tiles of a layout."""
    for other in reversed(range(rank)):
        if other != dim:
            layout = gl.SliceLayout(other, layout)
    return layout


@gluon.jit
def numbers(size: gl.constexpr, dim: gl.constexpr, rank: gl.constexpr, layout: gl.constexpr):
    """0, 1, 2, ... along one dimension."""
    found = gl.arange(0, size, layout=_along(dim, rank, layout))
    for other in gl.static_range(rank):
        if other != dim:
            found = gl.expand_dims(found, other)
    return found


@gluon.jit
def sums(
    x,
    step,
    rows,
    w,
    others,
    row,
    column,
    offset: gl.constexpr,
    factor: gl.constexpr,
    shape: gl.constexpr,
):
    """The sums of a tile.

    Args:
      x: pointer to the rows.
      step: elements from one row to the next.
      rows: how many there are.
      w: pointer to the weights, whose terms lie side by side, as words.
      others: what the functions are given beside.
      row: number of the tile along the rows.
      column: the same along the columns.
      offset: a function of `others`, columns and runs, which reads zero points as i32.
      factor: the same of scales; called where `shape.scaled`.
      shape: see `Shape`.

    Returns:
      Sums of the shape [columns, rows], in f32.
    """
    held: gl.constexpr = _held(shape)
    wide: gl.constexpr = shape.depth // each_word(shape)
    block: gl.constexpr = _block(shape)
    steps: gl.constexpr = (wide + block - 1) // block
    there = column * shape.width + numbers(shape.width, 1, 4, held)
    there = gl.minimum(there, shape.columns - 1)
    share = numbers(shape.shares, 0, 4, held) * (shape.pieces * BESIDE * WORDS)
    first = share + numbers(shape.pieces * BESIDE, 2, 4, held) * WORDS
    total = gl.zeros([shape.shares, shape.width, shape.height], gl.float32, _summed(shape))
    words, zero, scale = _load(w, others, there, first, 0, shape, offset, factor)
    for number in range(0, steps - 1):
        after = (number + 1) * block
        later, next_zero, next_scale = _load(w, others, there, first, after, shape, offset, factor)
        here = _rows(x, step, rows, row, number * block, shape)
        total = _added(total, words, _waited(zero), scale, here, shape)
        words = later
        zero = next_zero
        scale = next_scale
    here = _rows(x, step, rows, row, (steps - 1) * block, shape)
    total = _added(total, words, _waited(zero), scale, here, shape)
    return gl.sum(total, 0)


@gluon.jit
def _load(
    w,
    others,
    there,
    first,
    start,
    shape: gl.constexpr,
    offset: gl.constexpr,
    factor: gl.constexpr,
):
    """Loads the words of a block, their zero points and scales."""
    each: gl.constexpr = each_word(shape)
    wide: gl.constexpr = shape.depth // each
    run = there * 0
    if shape.run > 0:
        run = (start + first) // (shape.run // each)
        if wide % _block(shape) != 0:
            run = gl.minimum(run, shape.depth // shape.run - 1)
    place = start + first + numbers(WORDS, 3, 4, _held(shape))
    pointers = w + there * wide + place
    if wide % _block(shape) == 0:
        words = gl.load(pointers)
    else:
        words = gl.load(pointers, mask=(there >= 0) & (place < wide), other=0)
    zero = offset(others, there, run)
    scale = zero
    if shape.scaled:
        scale = factor(others, there, run)
    return words, zero, scale


@gluon.jit
def _waited(zero):
    """The same zero points, where all warps have started all loads before.

    Else ptxas would start loads only where their registers are free.
    """
    none = gl.inline_asm(
        "{.reg .pred some, any;\nsetp.ne.u32 some, 0, 0;\nbarrier.red.or.pred any, 0, some;\n"
        "selp.b32 $0, 1, 0, any;}",
        "=r",
        (),
        gl.int32,
    )
    return zero + none


@gluon.jit
def _rows(x, step, rows, row, start, shape: gl.constexpr):
    """Loads the rows of a block, their terms where the weights are."""
    read: gl.constexpr = _read(shape)
    each: gl.constexpr = each_word(shape)
    wide: gl.constexpr = shape.depth // each
    groups: gl.constexpr = shape.pieces * BESIDE
    here = row * shape.height + numbers(shape.height, 1, 5, read)
    here = gl.minimum(here, rows - 1)
    word = start + numbers(shape.shares, 0, 5, read) * (groups * WORDS)
    word += numbers(groups, 2, 5, read) * WORDS + numbers(WORDS, 3, 5, read)
    term = word * each + numbers(each, 4, 5, read)
    if wide % _block(shape) == 0:
        found = gl.load(x + here * step + term)
    else:
        found = gl.load(x + here * step + term, mask=(here >= 0) & (term < shape.depth), other=0)
    return found


@gluon.jit
def _added(total, words, zero, scale, rows, shape: gl.constexpr):
    """Adds the products of a block to the sums."""
    weights = _weights(words, zero, scale, rows.dtype, shape)
    return mma_v2(weights, _right(rows, shape), total)


@gluon.jit
def _right(rows, shape: gl.constexpr):
    """The rows as the right operand, their terms in the order of the weights."""
    s: gl.constexpr = shape.shares
    h: gl.constexpr = shape.height
    c: gl.constexpr = shape.pieces
    if shape.bits == 4:
        rows = rows.reshape([s, h, c, BESIDE, WORDS, 2, 2, 2])
        rows = rows.permute((0, 2, 4, 6, 7, 3, 5, 1))
    else:
        rows = rows.reshape([s, h, c, BESIDE, WORDS, 2, 2])
        rows = rows.permute((0, 2, 4, 5, 3, 6, 1))
    rows = rows.reshape([s, c * BESIDE * WORDS * each_word(shape), h])
    return gl.convert_layout(rows, gl.DotOperandLayout(1, _summed(shape), 2))


@gluon.jit
def _weights(words, zero, scale, dtype: gl.constexpr, shape: gl.constexpr):
    """The weights of words as the left operand."""
    s: gl.constexpr = shape.shares
    n: gl.constexpr = shape.width
    c: gl.constexpr = shape.pieces
    if shape.bits == 4:
        found = fours(words, zero, scale, dtype, shape.scaled)
        found = found.reshape([s, n, c, BESIDE, WORDS, 2, 2, 2])
        found = found.permute((0, 1, 2, 4, 7, 6, 3, 5))
    else:
        found = four_bytes(words, zero, scale, dtype, shape.scaled)
        found = found.reshape([s, n, c, BESIDE, WORDS, 2, 2])
        found = found.permute((0, 1, 2, 4, 6, 3, 5))
    found = found.reshape([s, n, c * BESIDE * WORDS * each_word(shape)])
    return gl.convert_layout(found, gl.DotOperandLayout(0, _summed(shape), 2))


@gluon.jit
def _twice(number):
    """A number of 16 bits in both halves of a word."""
    return gl.inline_asm_elementwise(
        "mov.b32 $0, {$1, $1};", "=r,h", [number], dtype=gl.int32, is_pure=True, pack=1
    )


@gluon.constexpr_function
def fours_text(half, scaled):
    """Takes a word of eight numbers apart, in pairs four places from each other.

    `lop3` with 0x6a is the first operand's bits of the second, with those of the third turned; one
    of these turns the sign. In f16 every second pair stays in the upper bits of its bytes and is
    sixteen times as large: the product with the inverse and the difference are rounded once, and
    exact. bf16 has no bits for that, and no differences before Hopper.
    """
    if half:
        constants = ("s, $8, 8", "one, 0x2c002c00", "base, 0x63806380")
        first = "sub.rn.f16x2 off, base, $9"
        low = "lop3.b32 a, {}, 0x000f000f, 0x64086408, 0x6a;\nsub.rn.f16x2 a, a, $9"
        high = "lop3.b32 a, {}, 0x00f000f0, 0x64806480, 0x6a;\nfma.rn.f16x2 a, a, one, off"
        pairs = [low.format("$8"), high.format("$8"), low.format("s"), high.format("s")]
        times = "mul.rn.f16x2 a, a, $10"
    else:
        constants = ("s, $8, 0", "one, 0x3f803f80", "base, 0x80008000")
        first = "xor.b32 off, $9, base"
        one = "lop3.b32 a, s, 0x000f000f, 0x43084308, 0x6a;\nfma.rn.bf16x2 a, a, one, off"
        pairs = [f"shr.u32 s, $8, {4 * n};\n{one}" for n in range(4)]
        times = "fma.rn.bf16x2 a, a, $10, base"
    shift, *kept = constants
    lines = [".reg .b32 a, s, one, base, off", f"shr.u32 {shift}"]
    lines += [*(f"mov.b32 {constant}" for constant in kept), first]
    for n, pair in enumerate(pairs):
        lines += [pair, *([times] if scaled else []), f"mov.b32 {{${n}, ${n + 4}}}, a"]
    return "{\n" + "".join(f"{line};\n" for line in lines) + "}"


@gluon.jit
def fours(words, zero, scale, dtype: gl.constexpr, scaled: gl.constexpr):
    """The eight numbers of each word.

    Returns:
      Three dimensions more: the place in a pair, and the number of the pair, its last bit first.
    """
    half: gl.constexpr = dtype == gl.float16
    taken = (zero + (0x6408 if half else 0x4308)) * 0x10001
    times = _twice(scale.to(dtype)) if scaled else taken
    words, taken = gl.broadcast(words, taken)
    words, times = gl.broadcast(words, times)
    e0, e1, e2, e3, e4, e5, e6, e7 = gl.inline_asm_elementwise(
        fours_text(half, scaled),
        "=h,=h,=h,=h,=h,=h,=h,=h,r,r,r",
        [words, taken, times],
        dtype=(gl.int16, gl.int16, gl.int16, gl.int16, gl.int16, gl.int16, gl.int16, gl.int16),
        is_pure=True,
        pack=1,
    )
    low = gl.join(gl.join(e0, e4), gl.join(e1, e5))
    high = gl.join(gl.join(e2, e6), gl.join(e3, e7))
    return gl.join(low, high).to(dtype, bitcast=True)


@gluon.constexpr_function
def bytes_text(half, scaled):
    """Takes a word of four numbers apart, whose signs are turned first.

    As last bits of 1024 they are numbers of f16; bf16 has too few bits, so that they become the
    last ones of 2^23 in f32.
    """
    lines = [".reg .b32 a, t, base", ".reg .f32 x, y", "xor.b32 t, $4, 0x80808080"]
    lines.append(f"mov.b32 base, 0x{'64646464' if half else '4b000000'}")
    for n in range(2):
        if half:
            lines += [f"prmt.b32 a, t, base, 0x{0x4140 + 0x202 * n:x}", "sub.rn.f16x2 a, a, $5"]
            lines += ["mul.rn.f16x2 a, a, $6"] if scaled else []
        else:
            for name, place in (("x", 2 * n), ("y", 2 * n + 1)):
                lines += [f"prmt.b32 a, t, base, 0x{0x7540 + place:x}", f"mov.b32 {name}, a"]
                lines.append(f"sub.rn.f32 {name}, {name}, $5")
                lines += [f"mul.rn.f32 {name}, {name}, $6"] if scaled else []
            lines.append("cvt.rn.bf16x2.f32 a, y, x")
        lines.append(f"mov.b32 {{${2 * n}, ${2 * n + 1}}}, a")
    return "{\n" + "".join(f"{line};\n" for line in lines) + "}"


@gluon.jit
def four_bytes(words, zero, scale, dtype: gl.constexpr, scaled: gl.constexpr):
    """The four numbers of each word.

    Returns:
      Two dimensions more: the place in a pair, and the number of the pair.
    """
    half: gl.constexpr = dtype == gl.float16
    if half:
        taken = (zero + 0x6480) * 0x10001
        times = _twice(scale.to(dtype)) if scaled else taken
    else:
        taken = zero.to(gl.float32) + 8388736.0
        times = scale.to(gl.float32) if scaled else taken
    words, taken = gl.broadcast(words, taken)
    words, times = gl.broadcast(words, times)
    e0, e1, e2, e3 = gl.inline_asm_elementwise(
        bytes_text(half, scaled),
        "=h,=h,=h,=h,r,r,r" if half else "=h,=h,=h,=h,r,f,f",
        [words, taken, times],
        dtype=(gl.int16, gl.int16, gl.int16, gl.int16),
        is_pure=True,
        pack=1,
    )
    return gl.join(gl.join(e0, e1), gl.join(e2, e3)).to(dtype, bitcast=True)
