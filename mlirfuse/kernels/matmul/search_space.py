"""The configurations of matmuls that the tuner measures.

Tiles are generated from block sizes: those whose accumulators fit the registers of a thread and
whose stages fit in shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.matmul import persistent_sm90
from mlirfuse.kernels.matmul.heuristics import MAX_STAGES, default_config, streaming_config
from mlirfuse.kernels.matmul.problem import (
    MAX_BUCKETED_M,
    MAX_STREAMED_M,
    MIN_DOT_M,
    MatmulConfig,
    MatmulProblem,
)
from mlirfuse.kernels.matmul.stages import MAX_ACCUMULATORS_PER_THREAD
from mlirfuse.kernels.matmul.tile_shapes import block_n_each
from mlirfuse.targets.base import Target

MIN_PERSISTENT_M = 128
"""The M below which a persistent kernel has too few tiles per CTA to overlap them."""

RESERVED_SHARED_MEMORY = 24 * 1024
"""Bytes of shared memory that a persistent kernel leaves to barriers and layout conversions."""

PERSISTENT_ACCUMULATORS = {2: 128, 3: 64}
"""Consumer warpgroups -> accumulators of a thread at most: its registers, less those of addresses
and of the epilogue."""

MIN_ACCUMULATORS_PER_THREAD = 64
"""Accumulators of a thread below which loads outweigh arithmetic in a persistent kernel."""

MIN_LOADED, MAX_LOADED = 6 * 1024, 32 * 1024
"""Elements of a stage: fewer leave memory idle, more leave no room for two stages."""


def configs(problem: MatmulProblem, target: Target) -> list[MatmulConfig]:
    """The configurations that the tuner measures, with the default first."""
    found = [default_config(problem, target)]
    if problem.m <= MAX_STREAMED_M and problem.streamed_bits:
        found += _weight_only_configs(problem)
    if problem.m == 1:
        found += _gemv_configs(target)
    if problem.m <= MAX_BUCKETED_M:
        found += _small_m_configs(problem, target)
    if problem.m > MIN_DOT_M:
        found += _tile_configs(problem, target)
    if problem.operand_bits == 16 and problem.a_k_contiguous and problem.b_k_contiguous:
        accumulators = 2 if problem.accumulators == 2 else 1
        found += persistent_configs(problem.m, problem.n, problem.k, accumulators, target)
    return list(dict.fromkeys(found))


def _weight_only_configs(problem: MatmulProblem) -> list[MatmulConfig]:
    """Narrow tiles whose warps split K, with one to four lines each."""
    return [
        streaming_config(problem, lines, num_warps, block_n)
        for block_n, lines, num_warps in (
            (16, 2, 4),
            (16, 1, 8),
            (16, 2, 8),
            (16, 4, 8),
            (32, 1, 8),
            (32, 2, 8),
        )
    ]


def _gemv_configs(target: Target) -> Iterator[MatmulConfig]:
    """Tiles with 32 to 64 elements of B per thread."""
    warp_size = gpu_of(target).warp_size
    for block_k in (512, 1024, 2048, 4096):
        for block_n in (2, 4, 8):
            for num_warps in (4, 8):
                if 32 <= block_n * block_k // (num_warps * warp_size) <= 64:
                    yield MatmulConfig(1, block_n, block_k, num_warps, 1 if block_k > 1024 else 3)


def _small_m_configs(problem: MatmulProblem, target: Target) -> Iterator[MatmulConfig]:
    """Tiles of small M with large blocks of K, which the warps of a CTA may split."""
    few = problem.m <= MIN_DOT_M
    plain = not problem.prologue and problem.accumulators == 1 and problem.operand_bits == 16
    num_warps = 4
    for block_m in (MIN_DOT_M,) if few else (MIN_DOT_M, 2 * MIN_DOT_M):
        for block_n in (16, 32, 64, 128):
            for block_k in (64, 128, 256, 512):
                loaded = (block_m + block_n) * block_k
                most = _max_stages(loaded, target)
                if not MIN_LOADED <= loaded <= MAX_LOADED or most < 2:
                    continue
                tile = block_m, block_n_each(block_n, problem.accumulators), block_k, num_warps
                if few:
                    for num_stages in sorted({min(most, 4), min(most, 5)}):
                        yield MatmulConfig(*tile, num_stages)
                if plain and block_k >= 256 and block_n <= 32:
                    yield MatmulConfig(*tile, min(most, 3), split_k=num_warps)
                    yield MatmulConfig(*tile, min(most, 4), split_k=num_warps)


def _tile_configs(problem: MatmulProblem, target: Target) -> Iterator[MatmulConfig]:
    """Larger tiles, with several depths of the pipeline."""
    large = problem.m >= MAX_BUCKETED_M
    for block_m, block_n, block_k, num_warps in _tiles(problem, target):
        most = _max_stages((block_m + block_n) * block_k, target)
        each = block_n_each(block_n, problem.accumulators)
        depths = {min(most, depth) for depth in ((3, 4) if large else (3, 4, 6, 8))}
        for num_stages in sorted(depths - {0, 1}):
            for group_m in (4, 8, 16) if large and block_m * block_n > 128 * 128 else (8,):
                yield MatmulConfig(block_m, each, block_k, num_warps, num_stages, group_m)


def _tiles(problem: MatmulProblem, target: Target) -> Iterator[tuple[int, int, int, int]]:
    """Tiles `block_m, block_n, block_k, num_warps`; of large M only those with high reuse."""
    warp_size, large = gpu_of(target).warp_size, problem.m >= MAX_BUCKETED_M
    for block_m in (64, 128, 256):
        for block_n in (32, 64, 128, 256):
            tile = block_m * block_n
            if block_m > max(64, problem.m) or tile < (64 * 64 if large else 64 * 32):
                continue
            for num_warps in (4, 8) if tile >= 128 * 128 else (4,):
                if tile // (num_warps * warp_size) > MAX_ACCUMULATORS_PER_THREAD:
                    continue
                for block_k in (64, 128) if tile <= 64 * 128 else (64,):
                    if (block_m + block_n) * block_k >= MIN_LOADED:
                        yield block_m, block_n, block_k, num_warps


def _max_stages(loaded: int, target: Target) -> int:
    """Stages of so many elements of 16 bits that fit in shared memory."""
    return min(MAX_STAGES, gpu_of(target).shared_memory_per_cta // (loaded * 2))


def persistent_configs(
    m: int, n: int, k: int, accumulators: int, target: Target
) -> list[MatmulConfig]:
    """The configurations of persistent kernels that the tuner measures.

    Tiles are multiples of an instruction whose accumulators fit the registers of the consumer
    warpgroups; the ring takes the shared memory that is left.

    Args:
      m: size along M.
      n: size along N.
      k: contracted elements.
      accumulators: results that a tile accumulates together.
      target: the target.
    """
    if m < MIN_PERSISTENT_M:
        return []
    small, found = m < MAX_BUCKETED_M, []
    for consumers, ping_pong in ((2, False), (3, False), (2, True), (3, True)):
        sharing = 1 if ping_pong else consumers
        for total_n in (64, 128, 256):
            block_n = total_n // accumulators
            if total_n < 128 and not small and n % (128 // accumulators) == 0:
                continue
            for mma_tiles in (1, 2):
                block_m = mma_tiles * sharing * persistent_sm90.MMA_M
                per_thread = mma_tiles * persistent_sm90.MMA_M * total_n // 128
                minimum = MIN_ACCUMULATORS_PER_THREAD // (2 if total_n < 128 else 1)
                if not minimum <= per_thread <= PERSISTENT_ACCUMULATORS[consumers]:
                    continue
                if not persistent_sm90.tiles_divide(block_n, n, k, accumulators):
                    continue
                num_stages = persistent_stages(block_m, total_n, target)
                found += [
                    MatmulConfig(
                        block_m,
                        block_n,
                        persistent_sm90.BLOCK_K,
                        persistent_sm90.WARPGROUP_WARPS,
                        num_stages,
                        group_m,
                        consumer_warpgroups=consumers,
                        ping_pong=ping_pong,
                    )
                    for group_m in ((4,) if small else (4, 8, 32))
                ]
    return found


def persistent_stages(block_m: int, block_n: int, target: Target) -> int:
    """Stages of the ring of a persistent kernel that fit in shared memory.

    Args:
      block_m: size of a tile along M.
      block_n: size of a tile along N, of all its accumulators.
      target: the target.
    """
    stage = (block_m + block_n) * persistent_sm90.BLOCK_K * 2
    return (gpu_of(target).shared_memory_per_cta - RESERVED_SHARED_MEMORY) // stage
