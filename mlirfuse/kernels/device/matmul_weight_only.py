"""Weight-only quantized matmul with a small M (W4A16, W8A16), in Gluon.

Weights are the left operand of matrix instructions. Each thread loads 16 bytes along K from
global memory to registers and dequantizes them there. The elements of K may be accumulated in any
order: A is loaded in the order in which each thread holds its weights, so that no data moves
between threads. The warps of a CTA
split each block of K, and their accumulators are added at the end (intra-CTA split-K).

Integers become floating-point numbers by their bits: an integer of four bits below the leading bits
of 1024 is 1024 plus that integer, and one subtraction for two of them takes off 1024, the offset of
the sign and the zero point. All of it is exact; only the product with the scale of a group is
rounded.
"""

import dataclasses

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2

from mlirfuse.kernels.device.gluon_releases import number_of_asm

WORDS = gl.constexpr(4)
"""32-bit words that a thread loads at once."""

THREADS_K = gl.constexpr(4)
"""Adjacent threads along K."""


@dataclasses.dataclass(frozen=True)
class Spec:
    """Sizes and tiles of a weight-only matmul.

    Attributes:
      bits: width of a weight, 4 or 8.
      n: size along N.
      k: size along K, a multiple of the weights in a word.
      group_size: elements of K that share a scale and a zero point, a multiple of those that a
        thread loads at once; 0 for one of each per channel.
      scaled: whether weights are multiplied by a scale before they are accumulated.
      block_m: size of a tile along M.
      block_n: size of a tile along N.
      split_k: parts of a block of K, one per warp.
      lines: pieces of 64 bytes along K in a part.
    """

    bits: int
    n: int
    k: int
    group_size: int
    scaled: bool
    block_m: int
    block_n: int
    split_k: int
    lines: int


# Triton's compilation cache hashes the source of such functions, not that of the class.
@gluon.constexpr_function
def make_spec(bits, n, k, group_size, scaled, block_m, block_n, split_k, lines):
    """Returns a `Spec`, for the source of a kernel."""
    return Spec(bits, n, k, group_size, scaled, block_m, block_n, split_k, lines)


@gluon.constexpr_function
def epilogue_layout(block_n, num_warps):
    """The layout of tiles in the epilogue: contiguous elements along N per thread."""
    return gl.BlockedLayout([1, min(8, block_n // 8)], [4, 8], [num_warps, 1], [1, 0])


@gluon.constexpr_function
def weights_per_word(spec):
    """Weights in a 32-bit word."""
    return 32 // spec.bits


@gluon.constexpr_function
def _block_words(spec):
    """Words along K in a block."""
    return spec.split_k * spec.lines * THREADS_K.value * WORDS.value


@gluon.constexpr_function
def _weight_layout(spec):
    """The layout of words: split-K parts, N, adjacent threads, words of a thread."""
    return gl.BlockedLayout([1, 1, 1, 4], [1, 8, 4, 1], [spec.split_k, 1, 1, 1], [3, 2, 1, 0])


@gluon.constexpr_function
def _row_layout(spec):
    """The layout of A: split-K parts, M, and elements of K in the order of the words."""
    each = 32 // spec.bits
    return gl.BlockedLayout(
        [1, 1, 1, 4, each], [1, 8, 4, 1, 1], [spec.split_k, 1, 1, 1, 1], [4, 3, 2, 1, 0]
    )


@gluon.constexpr_function
def _accumulator_layout(spec):
    """The layout of accumulators."""
    return gl.NVMMADistributedLayout([2, 0], [spec.split_k, 1, 1], [1, 16, 8])


@gluon.constexpr_function
def _dim_layout(dim, rank, layout):
    """The layout of one dimension of tiles of a layout."""
    for other in reversed(range(rank)):
        if other != dim:
            layout = gl.SliceLayout(other, layout)
    return layout


@gluon.jit
def _arange(size: gl.constexpr, dim: gl.constexpr, rank: gl.constexpr, layout: gl.constexpr):
    """0, 1, 2, ... along one dimension."""
    found = gl.arange(0, size, layout=_dim_layout(dim, rank, layout))
    for other in gl.static_range(rank):
        if other != dim:
            found = gl.expand_dims(found, other)
    return found


@gluon.jit
def accumulate(
    a,
    a_stride,
    m,
    b,
    pointers,
    pid_m,
    pid_n,
    zero_point: gl.constexpr,
    scale: gl.constexpr,
    spec: gl.constexpr,
):
    """The accumulator of a tile.

    Args:
      a: pointer to A.
      a_stride: elements from one row of A to the next.
      m: size along M.
      b: pointer to the weights, K-contiguous, as 32-bit words.
      pointers: first argument of `zero_point` and `scale`.
      pid_m: index of the tile along M.
      pid_n: index of the tile along N.
      zero_point: function of `pointers`, indices along N and of groups of K to zero points, as i32.
      scale: the same of scales; called where `spec.scaled`.
      spec: see `Spec`.

    Returns:
      The accumulator, shape [block_n, block_m], in f32.
    """
    layout: gl.constexpr = _weight_layout(spec)
    words_k: gl.constexpr = spec.k // weights_per_word(spec)
    block: gl.constexpr = _block_words(spec)
    blocks: gl.constexpr = (words_k + block - 1) // block
    offs_n = pid_n * spec.block_n + _arange(spec.block_n, 1, 4, layout)
    offs_n = gl.minimum(offs_n, spec.n - 1)
    part = _arange(spec.split_k, 0, 4, layout) * (spec.lines * THREADS_K * WORDS)
    first = part + _arange(spec.lines * THREADS_K, 2, 4, layout) * WORDS
    acc = gl.full(
        [spec.split_k, spec.block_n, spec.block_m], 0.0, gl.float32, _accumulator_layout(spec)
    )
    words, zeros, scales = _load_weights(b, pointers, offs_n, first, 0, spec, zero_point, scale)
    for index in range(0, blocks - 1):
        next_start = (index + 1) * block
        next_words, next_zeros, next_scales = _load_weights(
            b, pointers, offs_n, first, next_start, spec, zero_point, scale
        )
        rows = _load_rows(a, a_stride, m, pid_m, index * block, spec)
        acc = _mma(acc, words, _after_loads(zeros), scales, rows, spec)
        words = next_words
        zeros = next_zeros
        scales = next_scales
    rows = _load_rows(a, a_stride, m, pid_m, (blocks - 1) * block, spec)
    acc = _mma(acc, words, _after_loads(zeros), scales, rows, spec)
    return gl.sum(acc, 0)


@gluon.jit
def _load_weights(
    b,
    pointers,
    offs_n,
    first,
    start,
    spec: gl.constexpr,
    zero_point: gl.constexpr,
    scale: gl.constexpr,
):
    """Loads the words of a block, their zero points and scales."""
    each: gl.constexpr = weights_per_word(spec)
    words_k: gl.constexpr = spec.k // each
    k_group = offs_n * 0
    if spec.group_size > 0:
        k_group = (start + first) // (spec.group_size // each)
        if words_k % _block_words(spec) != 0:
            k_group = gl.minimum(k_group, spec.k // spec.group_size - 1)
    offs_k = start + first + _arange(WORDS, 3, 4, _weight_layout(spec))
    addresses = b + offs_n * words_k + offs_k
    if words_k % _block_words(spec) == 0:
        words = gl.load(addresses)
    else:
        words = gl.load(addresses, mask=(offs_n >= 0) & (offs_k < words_k), other=0)
    zeros = zero_point(pointers, offs_n, k_group)
    scales = zeros
    if spec.scaled:
        scales = scale(pointers, offs_n, k_group)
    return words, zeros, scales


@gluon.jit
def _after_loads(zeros):
    """The same zero points, once all warps have started all loads above.

    Without this barrier ptxas starts loads only where their registers are free.
    """
    none = number_of_asm(
        "{.reg .pred some, any;\nsetp.ne.u32 some, 0, 0;\nbarrier.red.or.pred any, 0, some;\n"
        "selp.b32 $0, 1, 0, any;}"
    )
    return zeros + none


@gluon.jit
def _load_rows(a, a_stride, m, pid_m, start, spec: gl.constexpr):
    """Loads rows of A for a block, elements of K in the order of the weights."""
    layout: gl.constexpr = _row_layout(spec)
    each: gl.constexpr = weights_per_word(spec)
    words_k: gl.constexpr = spec.k // each
    threads: gl.constexpr = spec.lines * THREADS_K
    offs_m = pid_m * spec.block_m + _arange(spec.block_m, 1, 5, layout)
    offs_m = gl.minimum(offs_m, m - 1)
    word = start + _arange(spec.split_k, 0, 5, layout) * (threads * WORDS)
    word += _arange(threads, 2, 5, layout) * WORDS + _arange(WORDS, 3, 5, layout)
    offs_k = word * each + _arange(each, 4, 5, layout)
    if words_k % _block_words(spec) == 0:
        rows = gl.load(a + offs_m * a_stride + offs_k)
    else:
        mask = (offs_m >= 0) & (offs_k < spec.k)
        rows = gl.load(a + offs_m * a_stride + offs_k, mask=mask, other=0)
    return rows


@gluon.jit
def _mma(acc, words, zeros, scales, rows, spec: gl.constexpr):
    """Multiplies a block and adds it to the accumulator."""
    weights = _left_operand(words, zeros, scales, rows.dtype, spec)
    return mma_v2(weights, _right_operand(rows, spec), acc)


@gluon.jit
def _right_operand(rows, spec: gl.constexpr):
    """Rows of A as the right operand, elements of K in the order of the weights."""
    s: gl.constexpr = spec.split_k
    h: gl.constexpr = spec.block_m
    c: gl.constexpr = spec.lines
    if spec.bits == 4:
        rows = rows.reshape([s, h, c, THREADS_K, WORDS, 2, 2, 2])
        rows = rows.permute((0, 2, 4, 6, 7, 3, 5, 1))
    else:
        rows = rows.reshape([s, h, c, THREADS_K, WORDS, 2, 2])
        rows = rows.permute((0, 2, 4, 5, 3, 6, 1))
    rows = rows.reshape([s, c * THREADS_K * WORDS * weights_per_word(spec), h])
    return gl.convert_layout(rows, gl.DotOperandLayout(1, _accumulator_layout(spec), 2))


@gluon.jit
def _left_operand(words, zeros, scales, dtype: gl.constexpr, spec: gl.constexpr):
    """The dequantized weights of words as the left operand."""
    s: gl.constexpr = spec.split_k
    n: gl.constexpr = spec.block_n
    c: gl.constexpr = spec.lines
    if spec.bits == 4:
        found = dequantize_i4(words, zeros, scales, dtype, spec.scaled)
        found = found.reshape([s, n, c, THREADS_K, WORDS, 2, 2, 2])
        found = found.permute((0, 1, 2, 4, 7, 6, 3, 5))
    else:
        found = dequantize_i8(words, zeros, scales, dtype, spec.scaled)
        found = found.reshape([s, n, c, THREADS_K, WORDS, 2, 2])
        found = found.permute((0, 1, 2, 4, 6, 3, 5))
    found = found.reshape([s, n, c * THREADS_K * WORDS * weights_per_word(spec)])
    return gl.convert_layout(found, gl.DotOperandLayout(0, _accumulator_layout(spec), 2))


@gluon.jit
def _in_both_halves(number):
    """A value of 16 bits in both halves of a word."""
    return gl.inline_asm_elementwise(
        "mov.b32 $0, {$1, $1};", "=r,h", [number], dtype=gl.int32, is_pure=True, pack=1
    )


@gluon.constexpr_function
def i4_instructions(half, scaled):
    """Instructions that dequantize a word of eight weights, in pairs at a distance of four.

    `lop3` with 0x6a masks the first operand by the second and flips the bits of the third; one of
    these flips the sign. In f16 every second pair stays in the upper bits of its bytes and is
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
def dequantize_i4(words, zero, scale, dtype: gl.constexpr, scaled: gl.constexpr):
    """The eight weights of each word, less their zero points, times their scales.

    Returns:
      Three dimensions more: the index in a pair, and the bits of the index of the pair, lowest
      first.
    """
    half: gl.constexpr = dtype == gl.float16
    taken = (zero + (0x6408 if half else 0x4308)) * 0x10001
    times = _in_both_halves(scale.to(dtype)) if scaled else taken
    words, taken = gl.broadcast(words, taken)
    words, times = gl.broadcast(words, times)
    e0, e1, e2, e3, e4, e5, e6, e7 = gl.inline_asm_elementwise(
        i4_instructions(half, scaled),
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
def i8_instructions(half, scaled):
    """Instructions that dequantize a word of four weights, whose sign bits are flipped first.

    As last bits of 1024 they are numbers of f16; bf16 has too few bits, so they become the last
    bits of 2^23 in f32.
    """
    lines = [".reg .b32 a, t, base", ".reg .f32 x, y", "xor.b32 t, $4, 0x80808080"]
    lines.append(f"mov.b32 base, 0x{'64646464' if half else '4b000000'}")
    for n in range(2):
        if half:
            lines += [f"prmt.b32 a, t, base, 0x{0x4140 + 0x202 * n:x}", "sub.rn.f16x2 a, a, $5"]
            lines += ["mul.rn.f16x2 a, a, $6"] if scaled else []
        else:
            for name, index in (("x", 2 * n), ("y", 2 * n + 1)):
                lines += [f"prmt.b32 a, t, base, 0x{0x7540 + index:x}", f"mov.b32 {name}, a"]
                lines.append(f"sub.rn.f32 {name}, {name}, $5")
                lines += [f"mul.rn.f32 {name}, {name}, $6"] if scaled else []
            lines.append("cvt.rn.bf16x2.f32 a, y, x")
        lines.append(f"mov.b32 {{${2 * n}, ${2 * n + 1}}}, a")
    return "{\n" + "".join(f"{line};\n" for line in lines) + "}"


@gluon.jit
def dequantize_i8(words, zero, scale, dtype: gl.constexpr, scaled: gl.constexpr):
    """The four weights of each word, less their zero points, times their scales.

    Returns:
      Two dimensions more: the index in a pair, and the index of the pair.
    """
    half: gl.constexpr = dtype == gl.float16
    if half:
        taken = (zero + 0x6480) * 0x10001
        times = _in_both_halves(scale.to(dtype)) if scaled else taken
    else:
        taken = zero.to(gl.float32) + 8388736.0
        times = scale.to(gl.float32) if scaled else taken
    words, taken = gl.broadcast(words, taken)
    words, times = gl.broadcast(words, times)
    e0, e1, e2, e3 = gl.inline_asm_elementwise(
        i8_instructions(half, scaled),
        "=h,=h,=h,=h,r,r,r" if half else "=h,=h,=h,=h,r,f,f",
        [words, taken, times],
        dtype=(gl.int16, gl.int16, gl.int16, gl.int16),
        is_pure=True,
        pack=1,
    )
    return gl.join(gl.join(e0, e1), gl.join(e2, e3)).to(dtype, bitcast=True)
