"""Products of many rows with weights of i8 and i4 on Hopper, in Gluon.

Weights are the left operand of asynchronous products and never in workgroup memory: each thread
loads 16 bytes of a column, as for few rows. Blocks of the rows are brought into the same order of
terms on their way to workgroup memory. A product goes on while the next block of weights is
converted.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)

from mlirfuse.kernels.triton import weights
from mlirfuse.kernels.triton.weights import BESIDE, WORDS

PLACES = gl.constexpr(2)
"""Blocks of rows in workgroup memory."""


@gluon.constexpr_function
def _powers(first, end):
    """Powers of two, times the first."""
    found = []
    while first < end:
        found.append(first)
        first *= 2
    return found


@gluon.constexpr_function
def _bases(rank, dim, steps):
    """Steps along one dimension."""
    return [[step * (place == dim) for place in range(rank)] for step in steps]


@gluon.constexpr_function
def _held(shape, warps):
    """The layout of words: columns as the instruction has them, threads, words of a thread."""
    registers = _bases(3, 2, [1, 2]) + _bases(3, 0, [8, *_powers(16 * warps, shape.width)])
    lanes = _bases(3, 1, [1, 2]) + _bases(3, 0, [1, 2, 4])
    warp = _bases(3, 0, _powers(16, 16 * warps))
    return gl.DistributedLinearLayout(registers, lanes, warp, [], [shape.width, 4, 4])


@gluon.constexpr_function
def _read(shape, warps):
    """The layout of the rows: a thread has what all threads beside each other need of a word."""
    each = 32 // shape.bits
    height = shape.height
    registers = _bases(4, 3, _powers(1, each)) + _bases(4, 1, [1, 2])
    registers += _bases(4, 0, _powers(8 * warps, height))
    lanes = _bases(4, 2, [1, 2]) + _bases(4, 0, [1, 2, 4])
    warp = _bases(4, 0, [step % height for step in _powers(8, 8 * warps)])
    return gl.DistributedLinearLayout(registers, lanes, warp, [], [height, 4, 4, each])


@gluon.constexpr_function
def _summed(shape, warps):
    """The layout of sums."""
    return gl.NVMMADistributedLayout([3, 0], [warps, 1], [16, shape.height, 16])


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
    """The sums of a tile; the arguments are those of `weights.sums`, with one share and piece."""
    dtype: gl.constexpr = x.dtype.element_ty
    each: gl.constexpr = weights.each_word(shape)
    warps: gl.constexpr = gl.num_warps()
    words_of_block: gl.constexpr = BESIDE * WORDS
    block: gl.constexpr = words_of_block * each
    steps: gl.constexpr = shape.depth // block
    layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([shape.height, block], dtype)
    ring = gl.allocate_shared_memory(dtype, [PLACES, shape.height, block], layout)
    held: gl.constexpr = _held(shape, warps)
    there = column * shape.width + weights.numbers(shape.width, 0, 3, held)
    there = gl.minimum(there, shape.columns - 1)
    first = weights.numbers(BESIDE, 1, 3, held) * WORDS
    w += there * (shape.depth // each) + first + weights.numbers(WORDS, 2, 3, held)
    read: gl.constexpr = _read(shape, warps)
    here = row * shape.height + weights.numbers(shape.height, 0, 4, read)
    here = gl.minimum(here, rows - 1)
    word = weights.numbers(BESIDE, 1, 4, read) * WORDS + weights.numbers(WORDS, 2, 4, read)
    x += here * step + (word * each + weights.numbers(each, 3, 4, read))
    total = warpgroup_mma_init(
        gl.zeros([shape.width, shape.height], gl.float32, _summed(shape, warps))
    )
    words = gl.load(w)
    zero, scale = _numbers_of(others, there, first, 0, offset, factor, shape)
    tile = gl.load(x)
    for number in range(0, steps):
        after = gl.minimum(number + 1, steps - 1)
        later = gl.load(w + after * words_of_block)
        start = after * words_of_block
        next_zero, next_scale = _numbers_of(others, there, first, start, offset, factor, shape)
        next_tile = gl.load(x + after * block)
        left = _weights(words, zero, scale, dtype, warps, shape)
        place = ring.index(number % PLACES)
        place.store(_ordered(tile, shape))
        fence_async_shared()
        gl.barrier()
        total = warpgroup_mma_wait(0, deps=(total,))
        total = warpgroup_mma(left, place.permute((1, 0)), total, is_async=True)
        words = later
        zero = next_zero
        scale = next_scale
        tile = next_tile
    return warpgroup_mma_wait(0, deps=(total,))


@gluon.jit
def _numbers_of(
    others,
    there,
    first,
    start,
    offset: gl.constexpr,
    factor: gl.constexpr,
    shape: gl.constexpr,
):
    """Zero points and scales of the words of a block."""
    run = there * 0
    if shape.run > 0:
        run = run + (start + first) // (shape.run // weights.each_word(shape))
    zero = offset(others, there, run)
    scale = zero
    if shape.scaled:
        scale = factor(others, there, run)
    return zero, scale


@gluon.jit
def _ordered(tile, shape: gl.constexpr):
    """Rows with their terms in the order of the weights."""
    h: gl.constexpr = shape.height
    if shape.bits == 4:
        tile = tile.reshape([h, BESIDE, WORDS, 2, 2, 2]).permute((0, 2, 4, 5, 1, 3))
    else:
        tile = tile.reshape([h, BESIDE, WORDS, 2, 2]).permute((0, 2, 3, 1, 4))
    return tile.reshape([h, BESIDE * WORDS * weights.each_word(shape)])


@gluon.jit
def _weights(words, zero, scale, dtype: gl.constexpr, warps: gl.constexpr, shape: gl.constexpr):
    """The weights of words as the left operand."""
    if shape.bits == 4:
        found = weights.fours(words, zero, scale, dtype, shape.scaled).permute((0, 2, 5, 4, 1, 3))
    else:
        found = weights.four_bytes(words, zero, scale, dtype, shape.scaled)
        found = found.permute((0, 2, 4, 1, 3))
    found = found.reshape([shape.width, BESIDE * WORDS * weights.each_word(shape)])
    return gl.convert_layout(found, gl.DotOperandLayout(0, _summed(shape, warps), 2))
