"""Configurations of elementwise kernels: computed from the device, or measured."""

from __future__ import annotations

import itertools

from mlirfuse.kernels.codegen.loop_nest import VECTOR
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.configs.device import gpu_of, thread_shape
from mlirfuse.kernels.pointwise.problem import PointwiseConfig, PointwiseProblem
from mlirfuse.targets.base import Target

TRANSPOSED_SIDE, SMALL_TRANSPOSED_SIDE = 64, 32
"""Rows and columns of a transposed tile: 128 bytes of f16 are a whole line on both sides."""

TRANSPOSED_WARPS = 8
"""Warps of such a tile. On an H200 transposes of 16 thousand to a million elements of f32 took 2 to
38 % longer in tiles of 32 by 32 with two warps than with eight, those of 64 by 64 10 to 60 %."""

SMALL_TRANSPOSED_TILES = 4
"""Tiles of the larger side for each SM below which the smaller one is faster: the longer side of
8x1024x1024 f32 took 17.0 us, the shorter one 18.2; of 4x512x512 4.2 and 3.5."""


def choose_config(problem: PointwiseProblem, target: Target) -> PointwiseConfig:
    """The nearest measured configuration, else the computed one."""
    return lookup.choose(target, problem, PointwiseConfig, default_config)


def default_config(problem: PointwiseProblem, target: Target) -> PointwiseConfig:
    """The configuration computed from the problem and the device.

    Threads have adjacent elements, also where these are loaded one by one: on an H100 a gather of
    19.5 million bf16 took 209 us with 16 of them, 111 with 8, 109 with 4.
    """
    gpu = gpu_of(target)
    if problem.family == "transpose":
        side = TRANSPOSED_SIDE
        if problem.elements < SMALL_TRANSPOSED_TILES * gpu.num_sms * side * side:
            side = SMALL_TRANSPOSED_SIDE
        return PointwiseConfig(side, side, TRANSPOSED_WARPS)
    shape = thread_shape(problem.elements, target, bits=problem.result_bits)
    return PointwiseConfig(1, shape.tile, shape.warps)


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
