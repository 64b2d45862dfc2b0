"""Configurations of matmuls, computed from the problem and the device.

The default of large M minimizes a model of time, `cost_model`. A small M is bound by the loads of B
instead: its tiles keep enough bytes in flight on every SM. Stages of software pipelines follow from
shared memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import TypeVar

from mlirfuse.kernels.codegen.dot_precision import uses_warpgroups
from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.matmul import tile_shapes
from mlirfuse.kernels.matmul.cost_model import (
    LAUNCH_COST,
    num_ctas,
    row_of_a,
    row_of_b,
    stage_bytes,
    time,
    vector_bytes,
)
from mlirfuse.kernels.matmul.problem import (
    LINE_BYTES,
    MAX_STREAMED_M,
    MIN_DOT_M,
    MIN_STREAMED_M,
    VECTOR_BYTES,
    MatmulConfig,
    MatmulProblem,
)
from mlirfuse.kernels.matmul.stages import (
    MAX_ACCUMULATORS_PER_THREAD,
    shared_stages,
    shares_sm,
    stages_that_fit,
)
from mlirfuse.targets.base import Target

C = TypeVar("C", bound=MatmulConfig)

SHORT_K = 64
"""K up to which the epilogue takes longer than the products; half of the accumulators leave its
functions enough registers: on an H200 `log1p(x @ w)` of 28x1120x32 and 32x256 bf16 took 34 us with
128 of them in a thread, and 16 with 64. Half of these where rows of the result are not aligned, so
that each element is an access of its own: 2x3392x1651x16 f16 with a gate took 55 us with 64, and 44
with 32."""

MIN_SPLIT_BYTES = 512
"""Bytes of a row of an operand along K that are worth a CTA of their own, at least: four blocks,
which fill a pipeline."""

MIN_LONG_SPLIT_K, MIN_F32_SPLIT_K = 1024, 256
"""The same where small tiles fill the device without a split, which then allows larger ones: on an
H200 304x5000x704 f16 took 20.7 us in tiles of 64 by 32, and 10.8 in four parts of tiles of 64 by
128; 1000x8192x1000 59 in those of 64 by 128, and 39 in four parts of those of 128 by 256. And of
f32 with a longer K, where those of a tile leave SMs idle: 512x1200x512 took 21.0 us in parts of
1024 or more, and 17.9, 300x1500x700 28.3 and 22.4, 3x3 over 256 channels of 16x16 pixels 21.6 and
17.2, over 81 of 8x15x15 51 and 26, a transposed 7x7 over 81 of 8x8x8 67 and 24; but 200x900x1000
17.9, and 24.9 in parts."""

MIN_SAVED, MIN_SAVED_OF_16 = 0.2, 0.25
"""Share of the modelled time that one more kernel has to save: the model's error, an estimate. Of
operands of 16 bits the model has 23 % for 768x3072x768 in parts of K, which took longer."""

MIN_SAVED_BY_COPIES = 4 * LAUNCH_COST
"""Modelled time that a copy of operands saves at least: the latency of narrow loads, which is most
of it, was measured for operands in memory alone."""

LARGEST_OF_WARPGROUP = 128 * 128
"""Elements of a tile of which a warpgroup holds 128 in each thread."""

SMALLEST_TILE = MatmulConfig(64, 32, 64, 4, 1)
"""The smallest tile that is efficient."""

MAX_K_SPLITS = 64
"""Parts of K at most."""

MAX_STAGES = 8
"""Stages of a software pipeline, beyond which latency is hidden."""

FEW_BLOCKS = 4
"""Blocks of K up to which the elements that the last one masks count: on an H200 844x1664x84 f32
took 12 us in tiles of 64 by 64 with blocks of 32, which are 96 of K."""

MAX_SHARED_STAGES = 4
"""Stages of tiles of which an SM has several, so that they all have room."""

GEMV_BYTES_PER_THREAD = 64
"""Bytes of B that a thread of a GEMV has in flight: four vectorized loads."""

GEMV_ROW_BYTES = 4096
"""Bytes of a row of B at a time, at most. On an H200 2048x8192 f32 took 16.5 us so and 20.1 with
twice as many, 4096x14336 52.4 and 57.7."""

GEMV_LOOP, GEMV_CTAS_PER_SM = MatmulConfig(1, 2, 512, 2, 1), 8
"""Tile of a GEMV whose K is not one or two blocks, which are unrolled; CTAs for each SM from which
it is that. In a loop its threads have 47 registers, those of 2048 elements 70. On an H200,
microseconds with either: 4096x3000 of 16 bits 7.9 and 8.6, 5000x3000 8.9 and 9.6, 5120x5120 14.1
and 14.6, 4096x6144 13.8 and 13.7, 18432x7168 61.6 and 63.4, 8192x8192 34.2 and 34.7, 3072x9216 15.9
and 16.2, 4096x11008 23.0 and 25.8, 8192x12288 48.4 and 49.3, 4096x14336 28.9 and 31.9, 8192x28672
108.2 and 111.7; but 1024x16384 18.8 and 11.2, and of two blocks 14336x4096 29.1 and 27.7,
32000x4096 61.7 and 58.8."""

SHORT_GEMV_K = 32
"""K up to which a GEMV of a B that is contiguous along N has no tensor cores: of a tile of 16 by 32
that they compute one row is used, and a part of a block of K. On an H200 16384 products of 1x3 and
3x1024 f32 took 1503 us so, for 200 MB of B."""

WIDE_TILE = MatmulConfig(16, 128, 64, 4, 3)
"""Tile of a small M whose B is contiguous along N: whole lines of B, and parts of K for each CTA.

On an H200 12x16384x2048 f32 took 35 us so, and 115 in tiles of 16 columns; in f16 19 and 37;
5x4096x4096 f32 21 and 33; 1x4096x4096 f16 10.7 and, without parts of K, 20.1."""

NARROW_TILE = MatmulConfig(16, 64, 32, 4, 4)
"""The same where elements of B are loaded one by one: each load has a pointer of its own, of which
registers hold fewer. Where tiles of 64 columns fill the device, those of 128 take no longer. On an
H200 133x16x401x155 f32 took 26 us so, 32 in tiles of 128 columns, and 46 in those of `WIDE_TILE`;
4x777x3001 8.7, 10.1 and 12.6; 14x14777x11077 357, 266 and 265. Loads of two elements of 16 bits are
as fast in either: 12x8192x2050 f16 took 14.3, 14.3 and 13.9."""

WIDE_CTAS_PER_SM, MAX_WHOLE_K = 2, 512
"""CTAs of such tiles for each SM, and elements of K up to which they are not split: 8x768x3072 f16
took 4.8 us in four parts and 6.0 in one; the kernel that adds parts takes 1.1."""

THIN_TILE, MAX_THIN_N, MAX_THIN_K = MatmulConfig(64, 16, 128, 4, 1), 32, 224
"""Tiles of one or two blocks of a short K, whose N is that of B: no loop of one, and no pipeline.
On an H200 130368x72x8 bf16 took 9.7 us so, 10.8 in tiles of 128 rows by four warps, 11.1 in those
of 128x32, and 20.1 in three blocks of 32; torch.compile's kernel 15.3. 200000x64x16 f16 took 9.1 us
so, and 10.8 as before; 500000x33x5 26.2, 43.3 as before, and 37.4 with a copy of A; 118448x136x8
15.7 in two blocks, 16.2 in one, and 22.8 in tiles of 128x32 with five of 32; 40000x200x16 7.0 and
11.8, but 100000x256x8 26.6 and 20.3."""

MIN_BLOCKS_OF_CLASSES = 32
"""Blocks of B of f32 for each SM from which the parts of K are rows of B with one alignment, where
elements are loaded alone otherwise; of 16 bits one for each part. On an H200 1x4096x11007 f16 took
28 us so, and 81 without; 16x2048x50257 93 and 187, 8x4096x5001 bf16 20 and 41, 5x1024x1001 f16 4.6
and 5.9; 1x3957x12403 f32 60 and 101, 14x14777x11077 219 and 270, but 1x12000x301 13.0 and 11.0,
4x777x3001 9.8 and 9.1. Of loads of two elements 8x4096x5002 f32 took 29.4 and 27.9, 12x8192x2050
f16 18.8 and 14.3: those of A are apart, which also makes 64x4096x4097 f16 slower, 98 us for 31."""

ALONE_TILE, MAX_ALONE_M = MatmulConfig(32, 64, 64, 4, 4), 64
ALONE_CTAS_PER_SM, MIN_ALONE_K = 8, 512
"""Tile and largest M of a B of 16 bits whose elements along N are loaded alone: so many CTAs wait
for loads, with parts of K of so many elements, and a copy of B takes longer. On an H200
31x8192x10513 f16 took 82 us in eight parts, 89 in four and in twelve, and 144 with a copy;
40x3000x20001 84 in four, 89 in eight, and 123; 64x4096x4097 23.5 in eight, 27 in four, and 31; but
100x8192x3001 54 in four parts of tiles of 64 rows, and 48 with a copy."""

MIN_LOADED_BYTES = 4
"""Bytes that a load of such a B has, at least; narrower ones are not asynchronous."""

_BLOCK_BYTES = 128
"""Bytes along K of a block: a row of shared memory without bank conflicts."""


def fills_device(num_ctas: int, target: Target) -> bool:
    """Whether CTAs occupy at least three quarters of the SMs."""
    return 4 * num_ctas >= 3 * gpu_of(target).num_sms


def has_room(config: MatmulConfig, problem: MatmulProblem, target: Target) -> bool:
    """Whether registers and shared memory hold the tiles of `tl.dot` of all accumulators."""
    gpu = gpu_of(target)
    if config.consumer_warpgroups or config.weight_streaming or config.block_m == 1:
        return True
    per_thread = config.block_m * config.block_n * problem.accumulators
    per_thread //= config.num_warps * gpu.warp_size
    shared = stage_bytes(config, problem) * config.num_stages
    return per_thread <= max_accumulators(problem) and shared <= gpu.shared_memory_per_cta


def leaves_registers(config: MatmulConfig, problem: MatmulProblem, target: Target) -> bool:
    """Whether a tile of `tl.dot` leaves the epilogue of a problem enough registers."""
    if not problem.wide_epilogue or config.consumer_warpgroups or config.weight_streaming:
        return True
    threads = config.num_warps * gpu_of(target).warp_size
    elements = config.block_m * config.block_n * problem.accumulators
    return elements <= max_accumulators(problem) * threads


def max_accumulators(problem: MatmulProblem) -> int:
    """Accumulators of a thread at most; products of wide operands need registers of their own."""
    short = problem.k <= SHORT_K
    most = MAX_ACCUMULATORS_PER_THREAD // (2 if short or problem.wide_epilogue else 1)
    if short and vector_bytes(problem.n, problem.operand_bits) < VECTOR_BYTES:
        most //= 2
    return most // max(1, problem.operand_bits // 16)


def default_config(problem: MatmulProblem, target: Target) -> MatmulConfig:
    """The configuration computed from the problem and the device.

    With a small M quantized weights are streamed; where they cannot be, `dot_config` serves.
    """
    if problem.streamed_bits and problem.m <= MAX_STREAMED_M and target.name == "cuda":
        return streaming_config(problem, 2 if problem.m <= MIN_DOT_M else 1, num_warps=8)
    return dot_config(problem, target, whole=True)


def streaming_config(
    problem: MatmulProblem, lines: int, num_warps: int, block_n: int = 0
) -> MatmulConfig:
    """A configuration that streams weights of 4 or 8 bits, whose warps split K.

    Args:
      problem: the problem.
      lines: pieces of `LINE_BYTES` along K per warp.
      num_warps: warps of a CTA.
      block_n: size of a tile along N; depends on M when left out.
    """
    block_m = max(MIN_STREAMED_M, min(2 * MIN_DOT_M, power_of_two(problem.m)))
    return MatmulConfig(
        block_m,
        block_n or max(16, block_m),
        lines * num_warps * LINE_BYTES * 8 // problem.streamed_bits,
        num_warps,
        1,
        split_k=num_warps,
        weight_streaming=True,
    )


def dot_config(problem: MatmulProblem, target: Target, *, whole: bool = False) -> MatmulConfig:
    """The computed configuration of one tile per CTA, which any region can have.

    Args:
      problem: the problem.
      target: the target.
      whole: whether operands are whole tensors in memory, so that they may be copied to aligned
        rows, or read in classes of rows.
    """
    if problem.m == 1 and problem.a_k_contiguous and problem.b_k_contiguous:
        return _gemv_config(problem, target)
    if problem.m == 1 and problem.k <= SHORT_GEMV_K and not problem.b_k_contiguous:
        return _short_gemv_config(problem, target)
    if problem.m <= MIN_DOT_M and whole and (classes := _row_classes(problem, target)) > 1:
        return _in_classes(problem, target, classes)
    if problem.m <= MIN_DOT_M and _has_wide_rows(problem, target):
        return _wide_config(problem, target, _wide_tile(problem, target))
    if MIN_DOT_M < problem.m <= MAX_ALONE_M and _is_loaded_alone(problem):
        return _alone_config(problem, target)
    tiles = (
        [*tile_configs(problem, target)]
        if problem.m > MIN_DOT_M or problem.whole_rows
        else _small_m_configs(problem, target)
    )
    splits = [split for config in tiles for split in k_split_configs(config, problem, target)]
    # Each element of A is loaded once where B is few columns of a short K.
    copied = whole and not _is_thin(problem, target)
    copying = [c for one in (*tiles, *splits) if copied for c in copy_configs(one, problem)]
    found = min(tiles, key=lambda c: time(c, problem, target))
    found = _with_one_warpgroup(cheaper(found, splits, problem, target), problem, target)
    most = time(found, problem, target) - MIN_SAVED_BY_COPIES
    copying = [config for config in copying if time(config, problem, target) < most]
    found = cheaper(found, copying, problem, target)
    if problem.m <= MIN_DOT_M and "b" in found.aligned_copies and not problem.b_k_contiguous:
        tile = dataclasses.replace(WIDE_TILE, aligned_copies=found.aligned_copies)
        return _wide_config(problem, target, tile)
    return found


def cheaper(config: C, others: Iterable[C], problem: MatmulProblem, target: Target) -> C:
    """A configuration, or the best of others with one more kernel if that saves `MIN_SAVED`."""
    best = min(others, key=lambda c: time(c, problem, target), default=config)
    saved = MIN_SAVED_OF_16 if problem.operand_bits == 16 else MIN_SAVED
    saves = time(best, problem, target) <= time(config, problem, target) * (1 - saved)
    return best if saves else config


def _small_m_configs(problem: MatmulProblem, target: Target) -> list[MatmulConfig]:
    """The configuration of a small M; where its CTAs are few, the tile whose CTAs split K, too."""
    config = _small_m_config(problem, target)
    if problem.m == 1 or fills_device(num_ctas(problem, config), target):
        return [config]
    wider = MatmulConfig(MIN_DOT_M, 64, 2 * _BLOCK_BYTES * 8 // problem.operand_bits, 4, 2)
    num_stages = min(4, max(2, stages_that_fit(wider, problem, target)))
    return [config, dataclasses.replace(wider, num_stages=num_stages)]


def _has_wide_rows(problem: MatmulProblem, target: Target) -> bool:
    """Whether B is contiguous along N, in rows of whole vectors, and CTAs may have parts of K.

    So it is in the L2 cache where the batch is innermost. On an H200 64 products of 16x608x7104 f32
    took 7.6 ms so, 0.9 with a copy.
    Loads of 4 bytes do: on an H200 14x14777x11078 f32 took 243 us, and 440 in tiles of 32 columns;
    8x4096x5002 28 and 47; 12x8192x2050 f16 13 us, and 37 with a copy of B.
    """
    loaded = vector_bytes(row_of_b(problem), problem.operand_bits)
    size = problem.n * problem.k * problem.batch * problem.operand_bits // 8
    along_n = "b" not in problem.batch_innermost or size <= gpu_of(target).l2_bytes
    along_n = along_n and not problem.b_k_contiguous
    return loaded >= MIN_LOADED_BYTES and along_n and splits_k(problem)


def _row_classes(problem: MatmulProblem, target: Target) -> int:
    """Classes of the rows of B by their distance from a multiple of a vector, as parts of K.

    Returns:
      1 where the parts of K are adjacent rows.
    """
    bits, tile = problem.operand_bits, WIDE_TILE
    classes = VECTOR_BYTES // vector_bytes(row_of_b(problem), bits)
    aligned = problem.batch == 1 or problem.k % classes == 0
    if not aligned or not _has_rows_apart(problem) or not splits_k(problem):
        return 1
    blocks = problem.k // tile.block_k
    busy = blocks * num_ctas(problem, tile) >= MIN_BLOCKS_OF_CLASSES * gpu_of(target).num_sms
    return classes if blocks >= classes and (bits == 16 or busy) else 1


def _has_rows_apart(problem: MatmulProblem) -> bool:
    """Whether B is contiguous along N, in rows whose elements are loaded one by one."""
    loaded = vector_bytes(row_of_b(problem), problem.operand_bits)
    along_n = not problem.b_k_contiguous and not problem.batch_innermost
    return along_n and 8 * loaded == problem.operand_bits


def _is_loaded_alone(problem: MatmulProblem) -> bool:
    """Whether B of 16 bits has such rows, and K is long enough for parts."""
    return (
        problem.operand_bits == 16
        and _has_rows_apart(problem)
        and splits_k(problem)
        and problem.k >= 2 * MIN_ALONE_K
    )


def _alone_config(problem: MatmulProblem, target: Target) -> MatmulConfig:
    """Few rows whose B is loaded element by element: many CTAs, which have parts of K."""
    tile = dataclasses.replace(ALONE_TILE, block_m=power_of_two(problem.m))
    wanted = ALONE_CTAS_PER_SM * gpu_of(target).num_sms // num_ctas(problem, tile)
    splits = min(wanted, problem.k // MIN_ALONE_K, MAX_K_SPLITS)
    return dataclasses.replace(tile, k_splits=max(1, splits))


def _in_classes(problem: MatmulProblem, target: Target, classes: int) -> MatmulConfig:
    """A small M whose parts of K are so many classes of the rows of B."""
    config = _wide_config(problem, target, WIDE_TILE)
    splits = -(-config.k_splits // classes) * classes
    return dataclasses.replace(config, k_splits=splits, row_classes=classes)


def _wide_tile(problem: MatmulProblem, target: Target) -> MatmulConfig:
    """The tile of a small M, N-contiguous: whole lines."""
    if vector_bytes(row_of_b(problem), problem.operand_bits) * 8 > problem.operand_bits:
        return WIDE_TILE
    few = problem.n < NARROW_TILE.block_n * gpu_of(target).num_sms
    return NARROW_TILE if few else dataclasses.replace(NARROW_TILE, block_n=WIDE_TILE.block_n)


def _wide_config(problem: MatmulProblem, target: Target, tile: MatmulConfig) -> MatmulConfig:
    """A tile of a small M, no wider than N, and parts of K that fill the device."""
    while tile.block_n > MIN_DOT_M and problem.n <= tile.block_n // 2:
        tile = dataclasses.replace(tile, block_n=tile.block_n // 2)
    blocks = -(-problem.k // tile.block_k)
    wanted = WIDE_CTAS_PER_SM * gpu_of(target).num_sms // num_ctas(problem, tile)
    splits = min(wanted, blocks, MAX_K_SPLITS)
    if problem.k <= MAX_WHOLE_K or splits <= 1:
        return tile
    return dataclasses.replace(tile, k_splits=splits)


def _with_one_warpgroup(
    config: MatmulConfig, problem: MatmulProblem, target: Target
) -> MatmulConfig:
    """A configuration whose CTAs have an SM and a part of K each, by one warpgroup.

    It has twice the accumulators of two. On an H200 512x65536x376 bf16 took 52 us so, and 66 by
    two; 640x30000x640 f16 50 and 63; without parts of K times differ by 10 % in both directions.
    """
    largest = config.block_m * config.block_n == LARGEST_OF_WARPGROUP and config.num_warps == 8
    lone = num_ctas(problem, config) * config.k_splits <= gpu_of(target).num_sms
    if config.k_splits == 1 or not largest or not lone or problem.wide_epilogue:
        return config
    return dataclasses.replace(config, num_warps=config.num_warps // 2)


def fills_with_small_tiles(problem: MatmulProblem, target: Target) -> bool:
    """Whether the smallest efficient tiles fill the device."""
    if problem.m <= MIN_DOT_M:
        smallest = MatmulConfig(16, 16, 64, 4, 1)
    else:
        smallest = MatmulConfig(64, tile_shapes.block_n_each(64, problem.accumulators), 64, 4, 1)
    return fills_device(num_ctas(problem, smallest), target)


def _gemv_config(problem: MatmulProblem, target: Target) -> MatmulConfig:
    """M = 1, K-contiguous: a CTA streams a narrow tile of B with vectorized loads."""
    num_warps, gpu = 4, gpu_of(target)
    bytes_in_flight = num_warps * gpu.warp_size * GEMV_BYTES_PER_THREAD
    elements = bytes_in_flight * 8 // max(16, problem.operand_bits)
    # A prologue keeps its operands in registers, too.
    longest = 512 if problem.prologue else GEMV_ROW_BYTES * 8 // max(16, problem.operand_bits)
    block_k = min(longest, max(32, power_of_two(problem.k)))
    plain = not problem.prologue and problem.accumulators == 1
    loops = problem.k > longest and (problem.k > 2 * longest or problem.k % longest)
    if plain and loops and problem.n * problem.batch >= 2 * GEMV_CTAS_PER_SM * gpu.num_sms:
        return GEMV_LOOP
    block_n = max(2, elements // block_k // power_of_two(problem.accumulators))
    while block_n > 2 and not fills_device(-(-problem.n // block_n) * problem.batch, target):
        block_n //= 2
    return MatmulConfig(1, block_n, block_k, num_warps, 3 if problem.prologue else 1)


def _small_m_config(problem: MatmulProblem, target: Target) -> MatmulConfig:
    """Small M: narrow tiles and large blocks of K, which warps split for operands in memory."""
    num_warps, accumulators = 4, problem.accumulators
    plain = not problem.prologue and accumulators == 1 and problem.operand_bits in (16, 32)
    contiguous = problem.a_k_contiguous and problem.b_k_contiguous
    split_k = num_warps if plain and contiguous and target.name == "cuda" else 1
    block_n = 32
    while block_n > 16 and not fills_device(-(-problem.n // block_n) * problem.batch, target):
        block_n //= 2
    block_k = (512 if split_k > 1 else 256) * 16 // max(16, problem.operand_bits)
    block_k = min(block_k, max(64, power_of_two(problem.k)))
    config = MatmulConfig(MIN_DOT_M, block_n, block_k, num_warps, 2, split_k=split_k)
    while config.block_k > 64 and stages_that_fit(config, problem, target) < 3:
        config = dataclasses.replace(config, block_k=config.block_k // 2)
    num_stages = min(4, max(2, stages_that_fit(config, problem, target)))
    return dataclasses.replace(config, num_stages=num_stages)


def tile_configs(problem: MatmulProblem, target: Target) -> Iterator[MatmulConfig]:
    """One configuration per tile whose accumulators and stages fit."""
    accumulators, warp_size = problem.accumulators, gpu_of(target).warp_size
    if _is_thin(problem, target):
        block_n, block_k = (max(MIN_DOT_M, power_of_two(n)) for n in (problem.n, problem.k))
        block_k = min(block_k, THIN_TILE.block_k)
        stages = min(2, -(-problem.k // block_k))
        yield dataclasses.replace(THIN_TILE, block_n=block_n, block_k=block_k, num_stages=stages)
        return
    for block_m, block_n, num_warps in tile_shapes.tiles(problem, target):
        block_n = tile_shapes.block_n_each(block_n, accumulators)
        elements = block_m * block_n * accumulators
        by_warps = problem.operand_bits == 32 and not uses_warpgroups(block_m, num_warps, target)
        block_k = _BLOCK_BYTES * 8 // problem.operand_bits
        lone = tile_shapes.is_lone(problem, block_m, block_n, target)
        narrow = (block_m, block_n, num_warps) == tile_shapes.NARROW_F32_TILE
        if block_m + block_n * accumulators <= 128 and (lone or narrow or not by_warps):
            block_k *= 2
        smallest_k = 32 if problem.operand_bits < 64 else 16
        block_k = min(block_k, max(smallest_k, power_of_two(problem.k)))
        tile = MatmulConfig(block_m, block_n, block_k, num_warps, 2)
        while tile.block_k > smallest_k and (
            stages_that_fit(tile, problem, target) < 3 or _masks_much(tile, problem)
        ):
            tile = dataclasses.replace(tile, block_k=tile.block_k // 2)
        num_stages = stages_that_fit(tile, problem, target)
        if shares_sm(tile, problem, target):
            num_stages = min(num_stages, shared_stages(tile, problem, target))
        smallest = block_m == 64 and block_n * accumulators <= 32
        fits = elements // (num_warps * warp_size) <= max_accumulators(problem)
        if smallest or (fits and num_stages >= 2):
            most = 3 if problem.prologue else MAX_STAGES
            most = min(most, MAX_SHARED_STAGES if by_warps else MAX_STAGES)
            most = min(most, -(-problem.k // tile.block_k))
            yield dataclasses.replace(tile, num_stages=max(2, min(num_stages, most)))


def _is_thin(problem: MatmulProblem, target: Target) -> bool:
    """Whether B is a few columns of a short K, and A has rows for all SMs: a copy of A, nearly."""
    small = problem.n <= MAX_THIN_N and problem.k <= MAX_THIN_K and problem.operand_bits == 16
    many = problem.m * problem.batch >= THIN_TILE.block_m * gpu_of(target).num_sms
    return small and many and problem.accumulators == 1 and not problem.prologue


def _masks_much(config: MatmulConfig, problem: MatmulProblem) -> bool:
    """Whether the last of few blocks of K has half of its elements or fewer."""
    blocks = -(-problem.k // config.block_k)
    return 1 < blocks <= FEW_BLOCKS and 2 * (blocks * config.block_k - problem.k) >= config.block_k


def _short_gemv_config(problem: MatmulProblem, target: Target) -> MatmulConfig:
    """M = 1, a short K, N-contiguous: a CTA has all of K, and as many columns as are in flight."""
    num_warps = 4
    bytes_in_flight = num_warps * gpu_of(target).warp_size * GEMV_BYTES_PER_THREAD
    block_k = power_of_two(problem.k)
    block_n = bytes_in_flight * 8 // (max(16, problem.operand_bits) * block_k)
    block_n = max(16, min(block_n // power_of_two(problem.accumulators), power_of_two(problem.n)))
    return MatmulConfig(1, block_n, block_k, num_warps, 1)


def k_split_configs(
    config: C, problem: MatmulProblem, target: Target, *, smallest: MatmulConfig = SMALLEST_TILE
) -> Iterator[C]:
    """The configurations with parts of K that are long enough for a CTA each.

    Powers of two, the numbers that fill all SMs once and twice, and the largest one.

    Args:
      config: a tile.
      problem: the matmul.
      target: the machine.
      smallest: the smallest tile that the kernel may have: where it fills the device, only long
        parts are worth a CTA.
    """
    num_sms, ctas = gpu_of(target).num_sms, num_ctas(problem, config)
    if not splits_k(problem) or ctas > num_sms or config.split_k > 1:
        return
    filled = fills_device(num_ctas(problem, smallest), target)
    shortest = MIN_SPLIT_BYTES * 8 // problem.operand_bits
    if filled:
        is_long = problem.operand_bits == 32 and problem.k >= MIN_LONG_SPLIT_K
        idle = is_long and not fills_device(ctas, target)
        shortest = MIN_F32_SPLIT_K if idle else MIN_LONG_SPLIT_K
    most = min(MAX_K_SPLITS, problem.k // shortest)
    powers = (1 << exponent for exponent in range(1, most.bit_length()))
    for splits in sorted({*powers, num_sms // ctas, 2 * num_sms // ctas, most}):
        if 1 < splits <= most:
            yield dataclasses.replace(config, k_splits=splits)


def copy_configs(config: C, problem: MatmulProblem) -> Iterator[C]:
    """The configurations that copy operands whose rows are not aligned, or along a batch."""
    if not _is_plain(problem):
        return
    rows = {"a": row_of_a(problem), "b": row_of_b(problem)}
    unaligned = [
        operand
        for operand, row in rows.items()
        if vector_bytes(row, problem.operand_bits) < VECTOR_BYTES
        or operand in problem.batch_innermost
    ]
    for copied in {*unaligned, "".join(unaligned)} - {""}:
        yield dataclasses.replace(config, aligned_copies=copied)


def splits_k(problem: MatmulProblem) -> bool:
    """Whether CTAs may have parts of K."""
    return _is_plain(problem) and not problem.whole_rows


def _is_plain(problem: MatmulProblem) -> bool:
    """Whether the operands are floating-point numbers in memory, of one result."""
    floats = problem.operand_bits in (16, 32)
    return floats and not problem.prologue and problem.accumulators == 1
