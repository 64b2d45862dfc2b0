"""Persistent warp-specialized matmul for Hopper, in Gluon.

One CTA runs on each SM and computes tile after tile. A producer warpgroup loads blocks of A and B
into a ring of shared memory stages, and continues with the next tile; consumer warpgroups compute
with `wgmma`. The consumers share the rows of one tile (cooperative), or each has a tile of its own
(ping-pong), so that the epilogue of one tile overlaps with the main loop of another.

The columns of B are loaded in the order that `matmul_epilogue_sm90` describes.
"""

import dataclasses

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from mlirfuse.kernels.device import library
from mlirfuse.kernels.device.gluon_releases import allocate_barriers, async_load
from mlirfuse.kernels.device.matmul_epilogue_sm90 import (
    MMA_M,
    accumulator_layout,
    permuted_columns,
    run_epilogue,
)

WARPGROUP_WARPS = gl.constexpr(4)
"""Warps of a warpgroup."""

BLOCK_K = gl.constexpr(64)
"""Elements of K in a stage: 128 bytes."""


@dataclasses.dataclass(frozen=True)
class Spec:
    """Sizes and tiles of a persistent matmul.

    Attributes:
      m: size along M.
      n: size along N of each B, a multiple of `block_n`.
      k: size along K, a multiple of `BLOCK_K`.
      b_stride: elements from one column of B to the next.
      masked: whether blocks of some rows of A are zero and not in memory (padding).
      parts: matmuls of the same A that have tiles of their own.
      accumulators: operands B of a part, one or two, accumulated by the same CTA (gated units).
      block_m: size of a tile along M.
      block_n: size of a tile along N, of each accumulator.
      num_stages: stages of the ring.
      consumer_warpgroups: warpgroups that compute, two or three.
      ping_pong: whether each consumer warpgroup has its own tile.
      group_m: tiles along M that run together, see `library.swizzle_tile`.
      num_ctas: CTAs of the grid.
      epilogue_n: columns per call of the epilogue: `block_n` over a power of two.
    """

    m: int
    n: int
    k: int
    b_stride: int
    masked: bool
    parts: int
    accumulators: int
    block_m: int
    block_n: int
    num_stages: int
    consumer_warpgroups: int
    ping_pong: bool
    group_m: int
    num_ctas: int
    epilogue_n: int


# Triton's compilation cache hashes the source of such functions, not that of the class.
@gluon.constexpr_function
def make_spec(
    m,
    n,
    k,
    b_stride,
    masked,
    parts,
    accumulators,
    block_m,
    block_n,
    num_stages,
    consumer_warpgroups,
    ping_pong,
    group_m,
    num_ctas,
    epilogue_n,
):
    """Returns a `Spec`, for the source of a kernel."""
    return Spec(
        m,
        n,
        k,
        b_stride,
        masked,
        parts,
        accumulators,
        block_m,
        block_n,
        num_stages,
        consumer_warpgroups,
        ping_pong,
        group_m,
        num_ctas,
        epilogue_n,
    )


@gluon.constexpr_function
def _warpgroups_per_tile(spec):
    """Consumer warpgroups that share a tile."""
    return 1 if spec.ping_pong else spec.consumer_warpgroups


@gluon.constexpr_function
def _mma_tiles(spec):
    """Instructions along M that one warpgroup issues for a tile."""
    return spec.block_m // _warpgroups_per_tile(spec) // MMA_M


@gluon.constexpr_function
def _has_partial_tiles(spec):
    """Whether the last tiles along M have rows past the end of A."""
    return spec.m % spec.block_m != 0


@gluon.constexpr_function
def _tiles(spec):
    """Tiles of a part along M and N."""
    return -(-spec.m // spec.block_m), spec.n // spec.block_n


@gluon.constexpr_function
def registers(consumer_warpgroups):
    """Registers per thread of each warpgroup but the first, which has the rest; the last loads."""
    return [208, 80] if consumer_warpgroups == 2 else [152, 152, 56]


@gluon.constexpr_function
def load_layout():
    """The layout of blocks loaded from global memory: 16 bytes per thread."""
    return gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])


@gluon.jit
def _allocate_ring(dtype: gl.constexpr, count: gl.constexpr, rows: gl.constexpr):
    """Shared memory for `count` blocks of an operand."""
    layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([rows, BLOCK_K], dtype)
    return gl.allocate_shared_memory(dtype, [count, rows, BLOCK_K], layout)


@gluon.jit
def _tile_coordinates(tile, spec: gl.constexpr):
    """The part of a tile, and its indices along M and N."""
    tiles_m: gl.constexpr = _tiles(spec)[0]
    tiles_n: gl.constexpr = _tiles(spec)[1]
    part = tile // (tiles_m * tiles_n)
    pid_m, pid_n = library.swizzle_tile(tile % (tiles_m * tiles_n), tiles_m, tiles_n, spec.group_m)
    return part, pid_m, pid_n


@gluon.jit
def persistent_matmul(
    a,
    bs,
    others,
    row_start: gl.constexpr,
    block_start: gl.constexpr,
    epilogue: gl.constexpr,
    spec: gl.constexpr,
):
    """Computes all tiles of a CTA.

    Args:
      a: pointer to A, whose elements along K are contiguous within each block of K.
      bs: pointers to the operands B, `accumulators` for each part.
      others: further arguments of the epilogue, a tuple.
      row_start: function from rows of A to the offsets where they start in memory, and an integer
        whose bit `n` is set where the blocks of tap `n` are in memory; used where `spec.masked`.
      block_start: function from the index of a block of K to its offset in a row, and its tap.
      epilogue: function of a part's accumulators, their rows, shape [block_m, 1], and columns,
        shape [1, block_n], the index of the part, and `others`; it stores the results.
      spec: see `Spec`.
    """
    dtype: gl.constexpr = a.dtype.element_ty
    num_stages: gl.constexpr = spec.num_stages
    sharing: gl.constexpr = _warpgroups_per_tile(spec)
    a_ring = _allocate_ring(dtype, num_stages * (spec.block_m // MMA_M), MMA_M)
    b_ring = _allocate_ring(dtype, num_stages, spec.block_n * spec.accumulators)
    full = allocate_barriers(num_stages)
    empty = allocate_barriers(num_stages)
    consumers: gl.constexpr = spec.consumer_warpgroups
    turns = allocate_barriers(consumers)
    for consumer in gl.static_range(consumers):
        mbarrier.init(turns.index(consumer), count=1)
    for stage in gl.static_range(num_stages):
        mbarrier.init(full.index(stage), count=WARPGROUP_WARPS * 32)
        mbarrier.init(empty.index(stage), count=sharing)
    fence_async_shared()
    if spec.consumer_warpgroups == 2:
        gl.warp_specialize(
            [
                (
                    _consumer,
                    (a_ring, b_ring, full, empty, turns, others, epilogue, 0, spec),
                ),
                (
                    _consumer,
                    (a_ring, b_ring, full, empty, turns, others, epilogue, 1, spec),
                ),
                (
                    _producer,
                    (a, bs, a_ring, b_ring, full, empty, row_start, block_start, spec),
                ),
            ],
            [WARPGROUP_WARPS, WARPGROUP_WARPS],
            registers(consumers),
        )
    else:
        gl.warp_specialize(
            [
                (
                    _consumer,
                    (a_ring, b_ring, full, empty, turns, others, epilogue, 0, spec),
                ),
                (
                    _consumer,
                    (a_ring, b_ring, full, empty, turns, others, epilogue, 1, spec),
                ),
                (
                    _consumer,
                    (a_ring, b_ring, full, empty, turns, others, epilogue, 2, spec),
                ),
                (
                    _producer,
                    (a, bs, a_ring, b_ring, full, empty, row_start, block_start, spec),
                ),
            ],
            [WARPGROUP_WARPS, WARPGROUP_WARPS, WARPGROUP_WARPS],
            registers(consumers),
        )


@gluon.jit
def _producer(
    a,
    bs,
    a_ring,
    b_ring,
    full,
    empty,
    row_start: gl.constexpr,
    block_start: gl.constexpr,
    spec: gl.constexpr,
):
    """Loads the blocks of all tiles into stages as the consumers release them."""
    mma_tiles: gl.constexpr = spec.block_m // MMA_M
    parts: gl.constexpr = spec.parts
    accumulators: gl.constexpr = spec.accumulators
    partial: gl.constexpr = _has_partial_tiles(spec)
    num_tiles: gl.constexpr = parts * _tiles(spec)[0] * _tiles(spec)[1]
    rows = gl.arange(0, MMA_M, layout=gl.SliceLayout(1, load_layout()))[:, None]
    columns = gl.arange(0, spec.block_n, layout=gl.SliceLayout(1, load_layout()))[:, None]
    columns = permuted_columns(columns)
    offs_k = gl.arange(0, BLOCK_K, layout=gl.SliceLayout(0, load_layout()))[None, :]
    stage = 0
    phase = 1
    for tile in range(gl.program_id(0), num_tiles, spec.num_ctas):
        part, pid_m, pid_n = _tile_coordinates(tile, spec)
        b = bs[0]
        last_b = bs[accumulators - 1]
        for other in gl.static_range(1, parts):
            if part == other:
                b = bs[other * accumulators]
                last_b = bs[other * accumulators + accumulators - 1]
        b += pid_n * (spec.block_n * spec.b_stride)
        last_b += pid_n * (spec.block_n * spec.b_stride)
        b_offsets = columns * spec.b_stride + offs_k
        starts = ()
        valid_taps = ()
        for block in gl.static_range(mma_tiles):
            offs_m = pid_m * spec.block_m + block * MMA_M + rows
            if partial:
                offs_m = gl.minimum(offs_m, spec.m - 1)
            start, valid = row_start(offs_m)
            # Triton has no other concatenation of tuples.
            starts = starts + (start,)  # noqa: RUF005
            valid_taps = valid_taps + (valid,)  # noqa: RUF005
        for index in range(spec.k // BLOCK_K):
            mbarrier.wait(empty.index(stage), phase)
            offset, tap = block_start(index)
            for block in gl.static_range(mma_tiles):
                pointers = a + offset + (starts[block] + offs_k)
                a_stage = a_ring.index(stage * mma_tiles + block)
                if spec.masked:
                    mask = ((valid_taps[block] >> tap) & 1) != 0
                    async_load(a_stage, pointers, mask=mask)
                else:
                    async_load(a_stage, pointers)
            b_stage = b_ring.index(stage)
            async_load(b_stage.slice(0, spec.block_n), b + b_offsets)
            if accumulators == 2:
                async_load(b_stage.slice(spec.block_n, spec.block_n), last_b + b_offsets)
            async_copy.mbarrier_arrive(full.index(stage), increment_count=False)
            b += BLOCK_K
            last_b += BLOCK_K
            stage += 1
            if stage == spec.num_stages:
                stage = 0
                phase ^= 1
    async_copy.wait_group(0)


@gluon.jit
def _consumer(
    a_ring,
    b_ring,
    full,
    empty,
    turns,
    others,
    epilogue: gl.constexpr,
    consumer: gl.constexpr,
    spec: gl.constexpr,
):
    """Computes the part of a warpgroup of all tiles, or, with ping-pong, every n-th tile."""
    blocks_k: gl.constexpr = spec.k // BLOCK_K
    first: gl.constexpr = consumer if spec.ping_pong else 0
    stride: gl.constexpr = spec.consumer_warpgroups if spec.ping_pong else 1
    mma_tiles: gl.constexpr = _mma_tiles(spec)
    block_n: gl.constexpr = spec.block_n * spec.accumulators
    first_mma: gl.constexpr = 0 if spec.ping_pong else consumer * mma_tiles
    num_tiles: gl.constexpr = spec.parts * _tiles(spec)[0] * _tiles(spec)[1]
    iteration = first * blocks_k
    round_ = 0 if first else 1
    for tile in range(
        gl.program_id(0) + first * spec.num_ctas,
        num_tiles,
        stride * spec.num_ctas,
    ):
        accumulators = ()
        for _ in gl.static_range(mma_tiles):
            zeros = gl.full([MMA_M, block_n], 0.0, gl.float32, accumulator_layout(block_n))
            accumulators = accumulators + (zeros,)  # noqa: RUF005
        if spec.ping_pong:
            # Else a warpgroup could take another's stages for its own, one round of the ring later.
            mbarrier.wait(turns.index(consumer), round_ & 1)
            round_ += 1
        previous = 0
        for index in range(blocks_k):
            stage = iteration % spec.num_stages
            mbarrier.wait(full.index(stage), (iteration // spec.num_stages) & 1)
            fence_async_shared()
            b = b_ring.index(stage).permute((1, 0))
            started = ()
            for block in gl.static_range(mma_tiles):
                a = a_ring.index(stage * (spec.block_m // MMA_M) + first_mma + block)
                accumulator = warpgroup_mma(
                    a, b, accumulators[block], use_acc=index > 0, is_async=True
                )
                started = started + (accumulator,)  # noqa: RUF005
            accumulators = _wait_mma(started, mma_tiles)
            mbarrier.arrive(empty.index(previous), count=1, pred=index > 0)
            previous = stage
            iteration += 1
        if spec.ping_pong:
            mbarrier.arrive(turns.index((consumer + 1) % spec.consumer_warpgroups), count=1)
        accumulators = _wait_mma(accumulators, 0)
        mbarrier.arrive(empty.index(previous), count=1)
        iteration += (stride - 1) * blocks_k
        part, pid_m, pid_n = _tile_coordinates(tile, spec)
        row = pid_m * spec.block_m + first_mma * MMA_M
        column = pid_n * spec.block_n
        for _ in range(mma_tiles):
            run_epilogue(
                accumulators[0],
                row,
                column,
                part,
                others,
                epilogue,
                spec.accumulators,
                spec.epilogue_n,
            )
            accumulators = accumulators[1:] + (accumulators[mma_tiles - 1],)  # noqa: RUF005
            row += MMA_M


@gluon.jit
def _wait_mma(accumulators, pending: gl.constexpr):
    """The accumulators once at most `pending` instructions are in flight."""
    done = warpgroup_mma_wait(pending, deps=accumulators)
    if len(accumulators) == 1:
        done = (done,)
    return done
