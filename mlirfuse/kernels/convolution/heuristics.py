"""Configurations of convolutions, computed from the problem and the device.

A tile of M output pixels by N output channels reads blocks of K, input channels of taps. The
default is the largest tile whose CTAs fill the device, with blocks of K that leave few masked
elements, and stages that two CTAs of an SM can hold.
"""

from __future__ import annotations

import dataclasses
import itertools

from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.convolution.problem import (
    PACKED_CHANNELS,
    ConvolutionConfig,
    ConvolutionProblem,
)
from mlirfuse.kernels.matmul.heuristics import fills_device
from mlirfuse.kernels.matmul.search_space import persistent_configs
from mlirfuse.targets.base import Target

DEFAULT_TILES = ((128, 128), (128, 64), (64, 64))
"""M and N of default tiles: the larger ones load fewer bytes for each operation."""

TILES = ((64, 64), (64, 128), (128, 64), (128, 128), (128, 256), (256, 64), (256, 128))
"""M and N of the tiles that the tuner measures."""

BLOCK_KS = (64, 32)
"""K of a block: 128 bytes of 16-bit elements, as wide as a swizzle in shared memory, or half."""

LONG_BLOCK_K = 128
"""K of a block of the small tiles that the tuner measures, too."""

MIN_BLOCK_N = 16
"""N of the smallest tile."""

WARPS = (4, 8)
"""Warps of a CTA."""

DEFAULT_ACCUMULATORS_PER_THREAD = 64
"""Accumulators of a thread above which a default tile takes more warps."""

MIN_ACCUMULATORS_PER_THREAD = 64
"""Accumulators of a thread below which a measured tile does not take more warps."""

MAX_ACCUMULATORS_PER_THREAD = 128
"""Accumulators of a thread, which has 255 registers."""

MIN_STAGES, MAX_STAGES = 3, 4
"""Stages of the software pipeline of loads."""

ROCM_STAGES = 2
"""Stages on AMD GPUs, whose loads go through registers to the LDS."""

_OPERAND_BYTES = 2


def default_config(problem: ConvolutionProblem, target: Target) -> ConvolutionConfig:
    """The configuration of one tile per CTA for a problem."""
    block_k = _block_k(problem)
    for block_m, block_n in DEFAULT_TILES:
        width = _clamp_n(block_n, problem.out_channels)
        threads = WARPS[0] * gpu_of(target).warp_size
        wide = block_m * width > DEFAULT_ACCUMULATORS_PER_THREAD * threads
        found = ConvolutionConfig(
            block_m,
            width,
            block_k,
            WARPS[1] if wide else WARPS[0],
            _stages(_stage_bytes(block_m, width, block_k), target),
        )
        if fills_device(_num_ctas(found, problem), target):
            break
    return found


def configs(problem: ConvolutionProblem, target: Target) -> list[ConvolutionConfig]:
    """The configurations that the tuner measures."""
    found = []
    for block_m, block_n in TILES:
        smallest = (block_m, block_n) == TILES[0]
        tile = ConvolutionConfig(block_m, block_n, BLOCK_KS[0], WARPS[0], MIN_STAGES)
        half_filled = 2 * _num_ctas(tile, problem) >= gpu_of(target).num_sms
        if block_n <= max(TILES[0][1], problem.out_channels) and (smallest or half_filled):
            found += _pipelines(tile, problem, target)
    if problem.k_contiguous:
        k = problem.in_channels * problem.taps
        persistent = persistent_configs(problem.pixels, problem.out_channels, k, 1, target)
        found += [ConvolutionConfig.from_dict(config.to_dict()) for config in persistent]
    return found


def clamp_block_n(config: ConvolutionConfig, out_channels: int) -> ConvolutionConfig:
    """A configuration with `block_n` limited by the output channels."""
    return dataclasses.replace(config, block_n=_clamp_n(config.block_n, out_channels))


def _clamp_n(block_n: int, out_channels: int) -> int:
    return min(block_n, max(MIN_BLOCK_N, power_of_two(out_channels)))


def _pipelines(
    tile: ConvolutionConfig, problem: ConvolutionProblem, target: Target
) -> list[ConvolutionConfig]:
    """The configurations of a tile, with as many warps, stages and blocks of K as it may have."""
    gpu, area = gpu_of(target), tile.block_m * tile.block_n
    block_ks = {BLOCK_KS[0], _block_k(problem)}
    if area <= TILES[1][0] * TILES[1][1] and problem.in_channels >= LONG_BLOCK_K:
        block_ks.add(LONG_BLOCK_K)
    warps = [
        count
        for count in WARPS
        if area <= MAX_ACCUMULATORS_PER_THREAD * count * gpu.warp_size
        and (count == WARPS[0] or area >= MIN_ACCUMULATORS_PER_THREAD * count * gpu.warp_size)
    ]
    stages = (ROCM_STAGES,) if target.name == "rocm" else range(MIN_STAGES, MAX_STAGES + 1)
    return [
        dataclasses.replace(tile, block_k=block_k, num_warps=num_warps, num_stages=num_stages)
        for block_k, num_warps, num_stages in itertools.product(sorted(block_ks), warps, stages)
        if (num_stages - _stages_in_registers(target))
        * _stage_bytes(tile.block_m, tile.block_n, block_k)
        <= gpu.shared_memory_per_cta
    ]


def _block_k(problem: ConvolutionProblem) -> int:
    """K of a block: the one with the fewest masked elements, of those the longer one."""
    packed = problem.in_channels < PACKED_CHANNELS
    k = problem.in_channels * (problem.taps if packed else 1)
    return min(BLOCK_KS, key=lambda block_k: -(-k // block_k) * block_k)


def _stages(stage_bytes: int, target: Target) -> int:
    """Stages that fit twice in the shared memory of an SM, or once where these are too few."""
    if target.name == "rocm":
        return ROCM_STAGES
    gpu, more = gpu_of(target), _stages_in_registers(target)
    twice = min(MAX_STAGES, gpu.shared_memory_per_sm // 2 // stage_bytes + more)
    once = min(MIN_STAGES, gpu.shared_memory_per_cta // stage_bytes + more)
    return max(twice, once, 1)


def _stages_in_registers(target: Target) -> int:
    """Stages that need no shared memory: the last one, except where instructions read it there."""
    return 0 if target.arch == triton_compiler.HOPPER else 1


def _stage_bytes(block_m: int, block_n: int, block_k: int) -> int:
    """Bytes of shared memory of a stage."""
    return (block_m + block_n) * block_k * _OPERAND_BYTES


def _num_ctas(config: ConvolutionConfig, problem: ConvolutionProblem) -> int:
    """CTAs of one tile each."""
    return -(-problem.pixels // config.block_m) * -(-problem.out_channels // config.block_n)
