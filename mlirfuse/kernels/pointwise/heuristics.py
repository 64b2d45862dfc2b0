"""Configurations of elementwise kernels: computed from the device, or measured."""

from __future__ import annotations

import itertools

from mlirfuse.kernels.codegen.loop_nest import VECTOR
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.pointwise.problem import PointwiseConfig, PointwiseProblem
from mlirfuse.targets.base import Target

NUM_WARPS = 4

ROWS_PER_TILE = 2
"""Rows that share a load of a bias."""

TRANSPOSED_SIDE = 64
"""Rows and columns of a transposed tile: 128 bytes of f16 are a whole line on both sides."""


def choose_config(problem: PointwiseProblem, target: Target) -> PointwiseConfig:
    """The nearest measured configuration, else the computed one."""
    return lookup.choose(target, problem, PointwiseConfig, default_config)


def default_config(problem: PointwiseProblem, target: Target) -> PointwiseConfig:
    """The configuration computed from the problem and the device.

    A thread has one vectorized load of 16 bytes per row of an operand of f16, so that a tensor that
    all rows share needs no other layout of the tile.
    """
    if problem.family == "transpose":
        return PointwiseConfig(TRANSPOSED_SIDE, TRANSPOSED_SIDE, 2 * NUM_WARPS)
    columns = VECTOR * gpu_of(target).warp_size * NUM_WARPS
    return PointwiseConfig(ROWS_PER_TILE, columns, NUM_WARPS)


def configs(problem: PointwiseProblem, target: Target) -> list[PointwiseConfig]:
    """The configurations that the tuner measures, with the default first."""
    if problem.family == "transpose":
        shapes = [(32, 64), (64, 64), (64, 32), (128, 32), (32, 128), (64, 128), (128, 64)]
        found = [PointwiseConfig(*shape, warps) for shape in shapes for warps in (4, 8)]
    else:
        warp_size = gpu_of(target).warp_size
        found = [
            PointwiseConfig(height, VECTOR * warp_size * warps, warps)
            for height, warps in itertools.product((1, 2, 4, 8), (1, 2, 4, 8))
        ]
    return list(dict.fromkeys([default_config(problem, target), *found]))
