"""Configurations of elementwise kernels: computed from the device, or measured."""

from __future__ import annotations

import itertools

from mlirfuse.kernels.codegen.loop_nest import VECTOR
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.configs.device import SMALL_VECTOR, gpu_of, thread_shape
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


SCATTERED = ("permuted", "swapped")
"""Traits of loads that no vector has."""

OVERLAPPED, OVERLAPPED_ELEMENTS, OVERLAPPED_WARPS = (
    ("functions", "error function", "gathered"),
    8,
    2,
)
"""Traits of functions and loads whose latencies overlap; elements of a thread, and warps of a CTA,
of many of f32.

Microseconds on an H200 with four and eight elements: five functions of 34.9 million 145 and 131, a
reciprocal root of 1.3 million 3.0 and 2.4, error functions of 31.7 million 117 and 112, the nearest
of 25.7 million 43 and 39. With four and two warps: a logarithm of 7.1 million 17.5 and 16.8."""

FUNCTIONS, FUNCTION_ELEMENTS = ("functions", "error function"), 16
"""The traits, and the elements, of functions whose results have 16 bits.

Microseconds on an H200 with eight elements and four warps, and with these: GELU of 40 million bf16
44.1 and 39.8, softplus of 20 million 31.9 and 29.9, `log1p` of 39 million 58.5 and 53.5, sines of
10 million f16 12.1 and 11.3, tanh of 33 million 32.4 and 32.5, SwiGLU of 20 million 28.7 and
29.2."""

MANY_GATHERS = 8
"""Elements that are read at computed places, of which a thread has those of four results at most.

Microseconds on an H200, with eight elements by four warps, eight and four by two: bilinear resizing
of f16 or bf16 to 13 million 42.5, 30.7 and 32.9, to 8 million 26.6, 18.6 and 21.3, to 17 million
34.9, 30.8 and 40.9, to 34 million from four times as many 147, 147 and 85; of f32 from as many more
34.6, 32.2 and 30.3; bicubic resizing to 4 million f16 33.9, 28.3 and 15.5, f32 34.3, 28.2 and
16.9."""

GATHERED_WARPS = 4
"""Warps of a CTA of few elements that are read at computed places, with `SMALL_VECTOR` of them in a
thread: on an H200 bilinear resizing to 393 thousand f32 took 2.2 us so, and 2.9 in CTAs of 1024
elements, to 221 thousand f16 1.8 and 2.1."""


def choose_config(problem: PointwiseProblem, target: Target) -> PointwiseConfig:
    """The nearest measured configuration, else the computed one."""
    return lookup.choose(target, problem, PointwiseConfig, default_config)


def default_config(problem: PointwiseProblem, target: Target) -> PointwiseConfig:
    """The configuration computed from the problem and the device.

    Threads have adjacent elements, also where these are loaded one by one: on an H100 a gather of
    19.5 million bf16 took 209 us with 16 of them, 111 with 8, 109 with 4; on an H200 one of 5
    million at indices of its own 28.4 us with eight by four warps, 21.8 and 17.7 with eight and
    four by two. Without a number of 64 bits for each element vectors pay: bilinear resizing to 26
    million f16 took 44 us with eight by four warps and 62 with four by two, nearest to 103 million
    bf16 126 and 243, rows of 768 of a table 7.4 and 16.3.
    """
    gpu = gpu_of(target)
    if problem.family == "transpose":
        side = TRANSPOSED_SIDE
        if problem.elements < SMALL_TRANSPOSED_TILES * gpu.num_sms * side * side:
            side = SMALL_TRANSPOSED_SIDE
        return PointwiseConfig(side, side, TRANSPOSED_WARPS)
    shape = thread_shape(problem.elements, target, bits=problem.result_bits)
    if problem.elements >= gpu.num_sms * gpu.max_threads_per_sm * SMALL_VECTOR:
        if problem.trait in FUNCTIONS and problem.result_bits == 16:
            tile = OVERLAPPED_WARPS * gpu.warp_size * FUNCTION_ELEMENTS
            return PointwiseConfig(1, tile, OVERLAPPED_WARPS)
        if problem.trait == "gathered" and (each := _elements_of_gathers(problem)):
            return PointwiseConfig(1, OVERLAPPED_WARPS * gpu.warp_size * each, OVERLAPPED_WARPS)
        if problem.trait in OVERLAPPED and problem.result_bits == 32:
            tile = OVERLAPPED_WARPS * gpu.warp_size * OVERLAPPED_ELEMENTS
            return PointwiseConfig(1, tile, OVERLAPPED_WARPS)
        if problem.trait in SCATTERED and problem.result_bits == 32:
            warps = shape.tile // (gpu.warp_size * OVERLAPPED_ELEMENTS)
            return PointwiseConfig(1, shape.tile, warps)
    elif problem.trait == "gathered":
        return PointwiseConfig(1, GATHERED_WARPS * gpu.warp_size * SMALL_VECTOR, GATHERED_WARPS)
    return PointwiseConfig(1, shape.tile, shape.warps)


def _elements_of_gathers(problem: PointwiseProblem) -> int:
    """Elements of a thread of `OVERLAPPED_WARPS` warps; 0 for those of other problems."""
    many = problem.gathers >= MANY_GATHERS or (problem.gathers > 1 and problem.spread)
    if many or (problem.result_bits == 16 and problem.wide_indices):
        return SMALL_VECTOR
    return OVERLAPPED_ELEMENTS if problem.gathers > 1 and problem.result_bits == 16 else 0


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
