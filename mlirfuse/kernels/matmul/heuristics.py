"""Configurations of matmuls, computed from the problem and the device."""

from __future__ import annotations

from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.matmul import persistent_sm90
from mlirfuse.kernels.matmul.problem import MatmulConfig
from mlirfuse.targets.base import Target

DEFAULT_DYNAMIC_M = 512
"""The M that a dynamic M counts as: between the one row and the thousands that it may be."""

MIN_LARGE_M = 1024
"""The M from which tiles are chosen for throughput alone."""

MIN_PERSISTENT_M = 128
"""The M below which a persistent kernel has too few tiles per CTA to overlap them."""

RESERVED_SHARED_MEMORY = 24 * 1024
"""Bytes of shared memory that a persistent kernel leaves to barriers and layout conversions."""

MAX_ACCUMULATORS_PER_THREAD = {2: 128, 3: 64}
"""Consumer warpgroups -> accumulators of a thread: the registers it has, less those of addresses
and of the epilogue."""

MIN_ACCUMULATORS_PER_THREAD = {True: 32, False: 64}
"""Whether M is small -> accumulators of a thread below which loads outweigh the arithmetic."""

_OPERAND_BYTES = 2


def fills_device(num_ctas: int, target: Target) -> bool:
    """Whether CTAs occupy at least three quarters of the SMs."""
    return 4 * num_ctas >= 3 * gpu_of(target).num_sms


def persistent_configs(
    m: int, n: int, k: int, accumulators: int, target: Target
) -> list[MatmulConfig]:
    """The configurations of persistent kernels that the tuner measures.

    Tiles are multiples of an instruction whose accumulators fit the registers of the consumer
    warpgroups; the ring takes the shared memory that is left.

    Args:
      m: rows of the result.
      n: columns of the result.
      k: contracted elements.
      accumulators: results that a tile accumulates together.
      target: the target.
    """
    if m < MIN_PERSISTENT_M:
        return []
    small = m < MIN_LARGE_M
    found = []
    for consumers, ping_pong in ((2, False), (3, False), (2, True), (3, True)):
        sharing = 1 if ping_pong else consumers
        for block_n in (64, 128, 256):
            for mma_tiles in (1, 2):
                per_thread = mma_tiles * persistent_sm90.MMA_M * block_n // 128
                block_m = mma_tiles * sharing * persistent_sm90.MMA_M
                if (
                    (block_n >= 128 or small or n % (128 // accumulators))
                    and MIN_ACCUMULATORS_PER_THREAD[block_n < 128] <= per_thread
                    and per_thread <= MAX_ACCUMULATORS_PER_THREAD[consumers]
                    and persistent_sm90.tiles_divide(block_n // accumulators, n, k, accumulators)
                ):
                    found += [
                        MatmulConfig(
                            block_m,
                            block_n // accumulators,
                            persistent_sm90.BLOCK_K,
                            persistent_sm90.WARPGROUP_WARPS,
                            persistent_stages(block_m, block_n, target),
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
      block_m: rows of a tile.
      block_n: columns of a tile, of all its accumulators.
      target: the target.
    """
    stage = (block_m + block_n) * persistent_sm90.BLOCK_K * _OPERAND_BYTES
    return (gpu_of(target).shared_memory_per_cta - RESERVED_SHARED_MEMORY) // stage
