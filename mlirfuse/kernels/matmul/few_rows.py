"""Configurations of matmuls of few rows, which are bound by the loads of B.

A row of a B that is contiguous along K is a GEMV; one that is contiguous along N is read in whole
lines, and CTAs have parts of K. Where its rows are not aligned, parts of K are its rows with one
alignment, or many CTAs wait for loads of single elements.
"""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.matmul.cost_model import fills_device, num_ctas, row_of_b, vector_bytes
from mlirfuse.kernels.matmul.problem import MIN_DOT_M, VECTOR_BYTES, MatmulConfig, MatmulProblem
from mlirfuse.targets.base import Target

MAX_K_SPLITS = 64
"""Parts of K at most."""

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


def config(problem: MatmulProblem, target: Target, *, whole: bool) -> MatmulConfig | None:
    """The configuration of few rows that are bound by B; None for other problems.

    Args:
      problem: the problem.
      target: the target.
      whole: whether B is a whole tensor in memory, so that it may be read in classes of rows.
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
    return None


def of_copy(copies: str, problem: MatmulProblem, target: Target) -> MatmulConfig:
    """The configuration of a small M whose B, contiguous along N, is copied to aligned rows."""
    return _wide_config(problem, target, dataclasses.replace(WIDE_TILE, aligned_copies=copies))


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


def _short_gemv_config(problem: MatmulProblem, target: Target) -> MatmulConfig:
    """M = 1, a short K, N-contiguous: a CTA has all of K, and as many columns as are in flight."""
    num_warps = 4
    bytes_in_flight = num_warps * gpu_of(target).warp_size * GEMV_BYTES_PER_THREAD
    block_k = power_of_two(problem.k)
    block_n = bytes_in_flight * 8 // (max(16, problem.operand_bits) * block_k)
    block_n = max(16, min(block_n // power_of_two(problem.accumulators), power_of_two(problem.n)))
    return MatmulConfig(1, block_n, block_k, num_warps, 1)


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
    return loaded >= MIN_LOADED_BYTES and along_n and problem.splits_k


def _row_classes(problem: MatmulProblem, target: Target) -> int:
    """Classes of the rows of B by their distance from a multiple of a vector, as parts of K.

    Returns:
      1 where the parts of K are adjacent rows.
    """
    bits, tile = problem.operand_bits, WIDE_TILE
    classes = VECTOR_BYTES // vector_bytes(row_of_b(problem), bits)
    aligned = problem.batch == 1 or problem.k % classes == 0
    if not aligned or not _has_rows_apart(problem) or not problem.splits_k:
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
        and problem.splits_k
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
