"""Configurations of matmuls, computed from the problem and the device.

The default of large M minimizes a model of time: waves of CTAs over the SMs, times the work of a
tile and the bytes it loads. A small M is bound by the loads of B instead: its tiles keep enough
bytes in flight on every SM. Stages of software pipelines follow from shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.matmul.problem import (
    LINE_BYTES,
    MAX_STREAMED_M,
    MIN_DOT_M,
    MIN_STREAMED_M,
    MatmulConfig,
    MatmulProblem,
)
from mlirfuse.targets.base import Target

MAX_ACCUMULATORS_PER_THREAD = 128
"""Accumulators of a thread at most, of its 255 registers."""

LOAD_COST = 64
"""Cost of loading an element of a block, in multiply-adds of tensor cores."""

MAX_STAGES = 8
"""Stages of a software pipeline, beyond which latency is hidden."""

GEMV_ELEMENTS_PER_THREAD = 32
"""Elements of B that a thread of a GEMV has in flight: four vectorized loads of 16 bits."""

_BLOCK_BYTES = 128
"""Bytes along K of a block: a row of shared memory without bank conflicts."""


def fills_device(num_ctas: int, target: Target) -> bool:
    """Whether CTAs occupy at least three quarters of the SMs."""
    return 4 * num_ctas >= 3 * gpu_of(target).num_sms


def num_ctas(problem: MatmulProblem, config: MatmulConfig) -> int:
    """CTAs of one tile each."""
    return -(-problem.m // config.block_m) * -(-problem.n // config.block_n) * problem.batch


def has_room(config: MatmulConfig, problem: MatmulProblem, target: Target) -> bool:
    """Whether registers and shared memory hold the tiles of `tl.dot` of all accumulators."""
    gpu = gpu_of(target)
    if config.consumer_warpgroups or config.weight_streaming or config.block_m == 1:
        return True
    block_n = config.block_n * problem.accumulators
    per_thread = config.block_m * block_n
    per_thread //= config.num_warps * gpu.warp_size
    stage = (config.block_m + block_n) * config.block_k * problem.operand_bits // 8
    return (
        per_thread <= MAX_ACCUMULATORS_PER_THREAD
        and stage * config.num_stages <= gpu.shared_memory_per_cta
    )


def default_config(problem: MatmulProblem, target: Target) -> MatmulConfig:
    """The configuration computed from the problem and the device.

    With a small M quantized weights are streamed; where they cannot be, `dot_config` serves.
    """
    if problem.streamed_bits and problem.m <= MAX_STREAMED_M and target.name == "cuda":
        return streaming_config(problem, 2 if problem.m <= MIN_DOT_M else 1, num_warps=8)
    return dot_config(problem, target)


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


def dot_config(problem: MatmulProblem, target: Target) -> MatmulConfig:
    """The computed configuration of one tile per CTA, which any region can have."""
    if problem.m == 1 and problem.a_k_contiguous and problem.b_k_contiguous:
        return _gemv_config(problem, target)
    if problem.m <= MIN_DOT_M:
        return _small_m_config(problem, target)
    return min(_tile_configs(problem, target), key=lambda c: _cost(c, problem, target))


def block_n_each(block_n: int, accumulators: int) -> int:
    """Size along N of each accumulator of a tile, a power of two."""
    return max(16, block_n // power_of_two(accumulators))


def fills_with_small_tiles(problem: MatmulProblem, target: Target) -> bool:
    """Whether the smallest efficient tiles fill the device."""
    if problem.m <= MIN_DOT_M:
        smallest = MatmulConfig(16, 16, 64, 4, 1)
    else:
        smallest = MatmulConfig(64, block_n_each(64, problem.accumulators), 64, 4, 1)
    return fills_device(num_ctas(problem, smallest), target)


def _gemv_config(problem: MatmulProblem, target: Target) -> MatmulConfig:
    """M = 1, K-contiguous: a CTA streams a narrow tile of B with vectorized loads."""
    num_warps = 4
    elements = num_warps * gpu_of(target).warp_size * GEMV_ELEMENTS_PER_THREAD
    # A prologue keeps its operands in registers, too.
    longest = 512 if problem.prologue else 2048
    block_k = min(longest, max(32, power_of_two(problem.k)))
    block_n = max(2, elements // block_k // power_of_two(problem.accumulators))
    while block_n > 2 and not fills_device(-(-problem.n // block_n) * problem.batch, target):
        block_n //= 2
    return MatmulConfig(1, block_n, block_k, num_warps, 3 if problem.prologue else 1)


def _small_m_config(problem: MatmulProblem, target: Target) -> MatmulConfig:
    """Small M: narrow tiles and large blocks of K, which warps split for operands in memory."""
    num_warps, accumulators = 4, problem.accumulators
    plain = not problem.prologue and accumulators == 1 and problem.operand_bits == 16
    contiguous = problem.a_k_contiguous and problem.b_k_contiguous
    split_k = num_warps if plain and contiguous and target.name == "cuda" else 1
    block_n = 32
    while block_n > 16 and not fills_device(-(-problem.n // block_n) * problem.batch, target):
        block_n //= 2
    block_k = 512 if split_k > 1 else 256
    block_k = min(block_k, max(64, power_of_two(problem.k)))
    while block_k > 64 and _stages(MIN_DOT_M, block_n, block_k, problem, target) < 3:
        block_k //= 2
    num_stages = min(4, max(2, _stages(MIN_DOT_M, block_n, block_k, problem, target)))
    return MatmulConfig(MIN_DOT_M, block_n, block_k, num_warps, num_stages, split_k=split_k)


def _tile_configs(problem: MatmulProblem, target: Target) -> Iterator[MatmulConfig]:
    """One configuration per tile whose accumulators and stages fit."""
    accumulators, warp_size = problem.accumulators, gpu_of(target).warp_size
    for block_m in (64, 128):
        for block_n in (32, 64, 128, 256):
            block_n = block_n_each(block_n, accumulators)
            elements = block_m * block_n * accumulators
            num_warps = 8 if elements >= 128 * 128 else 4
            block_k = _BLOCK_BYTES * 8 // problem.operand_bits
            if block_m + block_n * accumulators <= 128:
                block_k *= 2
            block_k = min(block_k, max(32, power_of_two(problem.k)))
            while block_k > 32 and _stages(block_m, block_n, block_k, problem, target) < 3:
                block_k //= 2
            num_stages = _stages(block_m, block_n, block_k, problem, target)
            smallest = block_m == 64 and block_n * accumulators <= 32
            fits = elements // (num_warps * warp_size) <= MAX_ACCUMULATORS_PER_THREAD
            if smallest or (fits and num_stages >= 2):
                most = 3 if problem.prologue else MAX_STAGES
                most = min(most, -(-problem.k // block_k))
                num_stages = max(2, min(num_stages, most))
                yield MatmulConfig(block_m, block_n, block_k, num_warps, num_stages)


def _stages(
    block_m: int, block_n: int, block_k: int, problem: MatmulProblem, target: Target
) -> int:
    """Stages that fit in two thirds of the shared memory; the rest is for layout conversions."""
    loaded = block_m + block_n * problem.accumulators
    stage = loaded * block_k * problem.operand_bits // 8
    return gpu_of(target).shared_memory_per_cta * 2 // 3 // stage


def _cost(config: MatmulConfig, problem: MatmulProblem, target: Target) -> int:
    """Time of a matmul in a simple model: waves times multiply-adds and loads of a tile."""
    block_m, block_n = config.block_m, config.block_n * problem.accumulators
    waves = -(-num_ctas(problem, config) // gpu_of(target).num_sms)
    return waves * (block_m * block_n + LOAD_COST * (block_m + block_n))
