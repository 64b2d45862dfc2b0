"""Configurations of elementwise kernels: computed from the device, or measured."""

from __future__ import annotations

import itertools

from mlirfuse.kernels.codegen.loop_nest import VECTOR
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.configs.device import gpu_of, thread_shape
from mlirfuse.kernels.pointwise.problem import PointwiseConfig, PointwiseProblem
from mlirfuse.targets.base import Target

MAX_TRANSPOSED_SIDE = 64
"""Rows and columns of a transposed tile: 128 bytes of f16 are a whole line on both sides."""

MIN_TRANSPOSED_SIDE = 32
"""The same for small problems: 64 bytes of f16 are two whole sectors."""

TRANSPOSED_ELEMENTS_PER_THREAD = 16


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
        side = MAX_TRANSPOSED_SIDE
        if problem.elements < gpu.num_sms * side * side:
            side = MIN_TRANSPOSED_SIDE
        threads = side * side // TRANSPOSED_ELEMENTS_PER_THREAD
        return PointwiseConfig(side, side, max(1, threads // gpu.warp_size))
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
