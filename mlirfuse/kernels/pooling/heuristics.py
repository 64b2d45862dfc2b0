"""Configurations of pooling kernels: computed from the device, or measured."""

from __future__ import annotations

from mlirfuse.kernels.codegen.loop_nest import VECTOR
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.configs.device import CTA_ELEMENTS, gpu_of
from mlirfuse.kernels.pooling.problem import PoolingConfig, PoolingProblem
from mlirfuse.targets.base import Target

MAX_COLUMNS = 128
"""Columns of a tile: the rows of a tile are then neighbours, whose windows overlap."""

MAX_BYTES_PER_THREAD = 8
"""Bytes of the result of a thread that loads elements one by one: the loads of so many overlap, and
lanes are so far apart. On an H200 the mean over windows of 3x3 of 32x96x82x82 f32 took 67 us with
two elements of a thread, 103 with four, and 82 with one; the largest of 3x3 of 64x64x112x112 f16
47 us with four, and 48 with two."""

WARPS = 8
"""Warps of a CTA of few elements: a CTA more takes half a nanosecond."""


def choose_config(problem: PoolingProblem, target: Target) -> PoolingConfig:
    """The nearest measured configuration, else the computed one."""
    return lookup.choose(target, problem, PoolingConfig, default_config)


def default_config(problem: PoolingProblem, target: Target) -> PoolingConfig:
    """The configuration computed from the problem and the device.

    Where the window moves along the last dimension no load is vectorized, and rows of the result
    are as short as 4 elements: a tile has adjacent elements, of which a thread has few.
    """
    gpu, elements = gpu_of(target), problem.pixels * problem.columns
    single = max(1, MAX_BYTES_PER_THREAD * 8 // problem.element_bits)
    each, least = (single, 1) if problem.strided_columns else (VECTOR, 2)
    while each > least and elements < gpu.num_sms * gpu.max_threads_per_sm // 2 * each:
        each //= 2
    warps = min(WARPS, max(1, CTA_ELEMENTS // (each * gpu.warp_size)))
    tile = each * warps * gpu.warp_size
    return PoolingConfig(tile, 0 if problem.strided_columns else MAX_COLUMNS, warps)


def configs(problem: PoolingProblem, target: Target) -> list[PoolingConfig]:
    """The configurations that the tuner measures, with the default first."""
    found = [
        PoolingConfig(elements, MAX_COLUMNS, warps)
        for elements in (1024, 2048, 4096)
        for warps in (4, 8)
    ]
    if problem.strided_columns:
        found = [
            PoolingConfig(elements, 0, warps) for elements in (128, 256, 512) for warps in (4, 8)
        ]
    return list(dict.fromkeys([default_config(problem, target), *found]))
