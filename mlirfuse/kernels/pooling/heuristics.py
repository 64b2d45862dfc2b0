"""Configurations of pooling kernels: computed from the device, or measured."""

from __future__ import annotations

from mlirfuse.kernels.codegen.loop_nest import VECTOR
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.configs.device import gpu_of, loads_and_warps
from mlirfuse.kernels.pooling.problem import PoolingConfig, PoolingProblem
from mlirfuse.targets.base import Target

MAX_COLUMNS = 128
"""Columns of a tile: the rows of a tile are then neighbours, whose windows overlap."""


def choose_config(problem: PoolingProblem, target: Target) -> PoolingConfig:
    """The nearest measured configuration, else the computed one."""
    return lookup.choose(target, problem, PoolingConfig, default_config)


def default_config(problem: PoolingProblem, target: Target) -> PoolingConfig:
    """The configuration computed from the problem and the device."""
    loads, warps = loads_and_warps(problem.pixels * problem.columns, VECTOR, target)
    return PoolingConfig(VECTOR * loads * gpu_of(target).warp_size * warps, MAX_COLUMNS, warps)


def configs(problem: PoolingProblem, target: Target) -> list[PoolingConfig]:
    """The configurations that the tuner measures, with the default first."""
    found = [
        PoolingConfig(elements, MAX_COLUMNS, warps)
        for elements in (1024, 2048, 4096)
        for warps in (4, 8)
    ]
    return list(dict.fromkeys([default_config(problem, target), *found]))
