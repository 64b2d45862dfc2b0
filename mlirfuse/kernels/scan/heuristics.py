"""Configurations of scan kernels: computed from the device, or measured."""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.codegen.loop_nest import tile_width
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.scan.problem import ScanConfig, ScanProblem
from mlirfuse.targets.base import Target

TILE_ELEMENTS = 2048
"""Elements of a tile: 16 for each of 128 threads, of which each scans its own first."""

ELEMENTS_PER_THREAD = 16

LANE_BYTES = 128
"""Bytes of a tile along the dimensions after the scanned one: a line of the cache."""

CTAS_PER_SM = 4
"""CTAs on each SM that hide the latency from block to block of a scan; below, scans are split."""

MIN_BLOCKS_PER_SEGMENT = 4
"""Blocks of a part of a scan, at least: the totals of the parts take a launch of their own."""

MAX_SEGMENTS = 256
"""Parts of a scan, at most: each CTA scans the sums of all."""


def choose_config(problem: ScanProblem, target: Target) -> ScanConfig:
    """The nearest measured configuration, else the computed one."""
    return lookup.choose(target, problem, ScanConfig, default_config)


def default_config(problem: ScanProblem, target: Target) -> ScanConfig:
    """The configuration computed from the problem and the device.

    Tiles have a line of the cache along the contiguous dimension, and more of it where scans are
    short; scans that leave SMs idle are split.
    """
    gpu = gpu_of(target)
    if problem.inner == 1:
        columns = min(TILE_ELEMENTS, power_of_two(problem.columns))
        if problem.outer >= gpu.num_sms * CTAS_PER_SM:
            columns = tile_width(problem.columns, TILE_ELEMENTS)
        lanes = min(max(1, TILE_ELEMENTS // columns), power_of_two(problem.outer))
        while lanes > 1 and problem.outer < lanes * gpu.num_sms:
            lanes //= 2
        ctas = -(-problem.outer // lanes)
    else:
        wanted = LANE_BYTES * 8 // problem.element_bits
        longest = TILE_ELEMENTS // min(TILE_ELEMENTS, power_of_two(problem.columns))
        lanes = min(max(wanted, longest), power_of_two(problem.inner))
        busy = gpu.num_sms * CTAS_PER_SM
        while lanes > wanted and problem.outer * -(-problem.inner // lanes) < busy:
            lanes //= 2
        columns = min(TILE_ELEMENTS // lanes, power_of_two(problem.columns))
        ctas = problem.outer * -(-problem.inner // lanes)
    threads = columns * lanes // ELEMENTS_PER_THREAD
    warps = max(1, min(4, threads // gpu.warp_size))
    blocks = -(-problem.columns // columns)
    segments = min(
        -(-gpu.num_sms * CTAS_PER_SM // ctas), blocks // MIN_BLOCKS_PER_SEGMENT, MAX_SEGMENTS
    )
    return ScanConfig(columns, lanes, warps, max(1, segments))


def configs(problem: ScanProblem, target: Target) -> list[ScanConfig]:
    """The configurations that the tuner measures, with the default first."""
    default = default_config(problem, target)
    found = [default]
    for columns in (default.block_columns // 2, default.block_columns * 2):
        for warps in (2, 4, 8):
            if 16 <= columns <= 2 * power_of_two(problem.columns):
                found.append(dataclasses.replace(default, block_columns=columns, num_warps=warps))
    found += [dataclasses.replace(default, num_warps=warps) for warps in (1, 2, 4, 8)]
    return list(dict.fromkeys(found))
