"""Configurations of matmuls, computed from the problem and the device.

The default of large M minimizes a model of time: waves of CTAs over the SMs, times the work of a
tile and the bytes it loads. A small M is bound by the loads of B instead: its tiles keep enough
bytes in flight on every SM. Stages of software pipelines follow from shared memory.
"""

from __future__ import annotations

import dataclasses
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

LOAD_COST = {8: 64, 16: 64, 32: 48, 64: 16}
"""Width of the operands in bits -> cost of loading an element of a block, in multiply-adds of the
device. One of f32 is three products of TF32, at half the rate of f16, and splits its elements."""

MIN_SPLIT_K = 512
"""Elements of K that are worth a CTA of their own, at least."""

MIN_LONG_SPLIT_K = 4096
"""The same where small tiles fill the device without a split, which then allows larger ones."""

MAX_K_SPLITS = 64
"""Parts of K at most."""

MERGE_COST = 9 * 1000 * 1000
"""Multiply-adds of f16 of a multiprocessor in the time of one more kernel, about 5 us."""

F32_COST = 6
"""Multiply-adds of f16 in the time of one of f32: three products of TF32, at half the rate."""

PART_COST = 600
"""The same in the time of writing and reading an element of a part: 8 bytes at 13 bytes a clock."""

MAX_STAGES = 8
"""Stages of a software pipeline, beyond which latency is hidden."""

GEMV_BYTES_PER_THREAD = 64
"""Bytes of B that a thread of a GEMV has in flight: four vectorized loads."""

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
        per_thread <= max_accumulators(problem)
        and stage * config.num_stages <= gpu.shared_memory_per_cta
    )


def max_accumulators(problem: MatmulProblem) -> int:
    """Accumulators of a thread at most; products of wide operands need registers of their own."""
    return MAX_ACCUMULATORS_PER_THREAD // max(1, problem.operand_bits // 16)


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
    tiles = _tile_configs(problem, target)
    found = (split for config in tiles for split in _k_split_configs(config, problem, target))
    return min(found, key=lambda c: _cost(c, problem, target))


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
    bytes_in_flight = num_warps * gpu_of(target).warp_size * GEMV_BYTES_PER_THREAD
    elements = bytes_in_flight * 8 // max(16, problem.operand_bits)
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
    plain = not problem.prologue and accumulators == 1 and problem.operand_bits in (16, 32)
    contiguous = problem.a_k_contiguous and problem.b_k_contiguous
    split_k = num_warps if plain and contiguous and target.name == "cuda" else 1
    block_n = 32
    while block_n > 16 and not fills_device(-(-problem.n // block_n) * problem.batch, target):
        block_n //= 2
    block_k = (512 if split_k > 1 else 256) * 16 // max(16, problem.operand_bits)
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
            smallest_k = 32 if problem.operand_bits < 64 else 16
            block_k = min(block_k, max(smallest_k, power_of_two(problem.k)))
            while block_k > smallest_k and _stages(block_m, block_n, block_k, problem, target) < 3:
                block_k //= 2
            num_stages = _stages(block_m, block_n, block_k, problem, target)
            smallest = block_m == 64 and block_n * accumulators <= 32
            fits = elements // (num_warps * warp_size) <= max_accumulators(problem)
            if smallest or (fits and num_stages >= 2):
                most = 3 if problem.prologue else MAX_STAGES
                most = min(most, -(-problem.k // block_k))
                num_stages = max(2, min(num_stages, most))
                yield MatmulConfig(block_m, block_n, block_k, num_warps, num_stages)


def _stages(
    block_m: int, block_n: int, block_k: int, problem: MatmulProblem, target: Target
) -> int:
    """Stages that fit in two thirds of the shared memory; the rest is for layout conversions.

    The two parts of a block of B in TF32 are in shared memory, too.
    """
    block_n *= problem.accumulators
    stage = (block_m + block_n) * block_k * problem.operand_bits // 8
    split = 8 * block_n * block_k if problem.operand_bits == 32 else 0
    return (gpu_of(target).shared_memory_per_cta * 2 // 3 - split) // stage


def split_size(k: int, config: MatmulConfig) -> int:
    """Elements of K of each part of a split-K, whole blocks."""
    return -(-k // (config.k_splits * config.block_k)) * config.block_k


def _k_split_configs(
    config: MatmulConfig, problem: MatmulProblem, target: Target
) -> Iterator[MatmulConfig]:
    """A configuration, and those with parts of K that are long enough for a CTA each."""
    yield config
    plain = not problem.prologue and problem.accumulators == 1 and problem.operand_bits in (16, 32)
    few = num_ctas(problem, config) <= gpu_of(target).num_sms
    filled = fills_device(num_ctas(problem, MatmulConfig(64, 32, 64, 4, 1)), target)
    shortest = MIN_LONG_SPLIT_K if filled else MIN_SPLIT_K
    splits = 2
    while plain and few and splits <= MAX_K_SPLITS and problem.k >= splits * shortest:
        yield dataclasses.replace(config, k_splits=splits)
        splits *= 2


def _cost(config: MatmulConfig, problem: MatmulProblem, target: Target) -> int:
    """Time of a matmul in a simple model, in multiply-adds of a multiprocessor.

    Waves times multiply-adds and loads of a tile; parts of K are written and read once more, by one
    more kernel.
    """
    num_sms = gpu_of(target).num_sms
    block_m, block_n = config.block_m, config.block_n * problem.accumulators
    waves = -(-num_ctas(problem, config) * config.k_splits // num_sms)
    merge = 0
    if config.k_splits > 1:
        elements = problem.m * problem.n * problem.batch * config.k_splits
        merge = MERGE_COST + PART_COST * elements // num_sms
        merge //= F32_COST if problem.operand_bits == 32 else 1
    each = split_size(problem.k, config)
    load_cost = LOAD_COST[problem.operand_bits]
    return waves * each * (block_m * block_n + load_cost * (block_m + block_n)) + merge
