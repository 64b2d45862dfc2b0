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

SCALAR_BITS = 128
"""Bits of the results of a thread that loads elements one by one. On an H100 a gather of 19.5
million bf16 took 209 us with 256 of them, 111 with 128, 109 with 64; a bilinear resize of f32 took
200 us with 512, 143 with 256, 149 with 128; a concatenation of odd rows of f32 50, 35 and 30 us."""

LINE_BITS = 1024
"""A line of the caches, 128 bytes: the lanes of a warp that read one of it each use it whole."""


def choose_config(problem: PointwiseProblem, target: Target) -> PointwiseConfig:
    """The nearest measured configuration, else the computed one."""
    return lookup.choose(target, problem, PointwiseConfig, default_config)


def default_config(problem: PointwiseProblem, target: Target) -> PointwiseConfig:
    """The configuration computed from the problem and the device.

    A thread has one vectorized load of 16 bytes per row of an operand of f16, so that a tensor that
    all rows share needs no other layout of the tile. Rows and columns of a tile are as many as
    leave each SM a tile, and threads of fewer elements compute few elements: 32 bits at least,
    with which the loads of a warp are whole lines.
    """
    gpu = gpu_of(target)
    if problem.family == "transpose":
        side = MAX_TRANSPOSED_SIDE
        if problem.elements < gpu.num_sms * side * side:
            side = MIN_TRANSPOSED_SIDE
        threads = side * side // TRANSPOSED_ELEMENTS_PER_THREAD
        return PointwiseConfig(side, side, max(1, threads // gpu.warp_size))
    least = max(1, LINE_BITS // gpu.warp_size // problem.result_bits)
    if problem.scalar_accesses:
        vector = max(least, min(VECTOR, SCALAR_BITS // problem.result_bits))
        shape = thread_shape(problem.elements, target, vector=vector, least=least, loads=1)
    else:
        shape = thread_shape(problem.elements, target, vector=VECTOR, least=least)
    return PointwiseConfig(shape.loads, shape.vector * gpu.warp_size * shape.warps, shape.warps)


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
