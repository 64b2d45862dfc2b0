"""Rows, columns and warps of the tiles of a matmul that the model chooses from."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from mlirfuse.kernels.codegen.dot_precision import is_one_product, uses_warpgroups
from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.matmul.cost_model import num_ctas
from mlirfuse.kernels.matmul.problem import MIN_DOT_M, MatmulConfig, MatmulProblem
from mlirfuse.targets.base import Target

LONE_F32_TILES = ((16, 32, 4), (16, 64, 4))
"""M, N and warps of tiles of f32 that have an SM for themselves: every warp splits all of A."""

F32_TILES = (
    (32, 32, 2),
    (32, 64, 4),
    (32, 128, 4),
    (64, 32, 4),
    (64, 64, 4),
    (64, 128, 4),
    (128, 32, 4),
    (128, 64, 4),
    (128, 128, 8),
)
"""M, N and warps of tiles of f32. Those of 32 rows have no warpgroups."""

NARROW_F32_TILE, MIN_NARROW_K = (16, 32, 2), 512
"""The same of few columns and a long K: 7182x4096x17 took 78 us on an H200 so, and 115 in tiles of
32 by 64. Of 152538x16x8 a tile has one block of K, and its CTA is mostly its start."""

TF32_TILES = (*F32_TILES, (64, 64, 2))
"""The same of products of TF32. On an H200 a convolution of 4194240 pixels, 128 channels and K of
192 took 1198 us in tiles of 128 by 128 with four warps, and 1720 with eight; one of 1x1 of 501760
pixels with channels first, 192 channels and K of 480 took 661 us in tiles of 64 by 64 with two
warps, and 1049 in those of 32 by 64."""

TWO_WARPGROUPS, LEAST_SHARE = (128, 64, 8), 4
"""The same of 16 bits where one SM of so many has one at least, and none has two, so that two
warpgroups compute its epilogue. On an H200 two products of 745x512x4096 bf16 with a sine and a
SwiGLU took 26.7 us by one warpgroup and 20.3 by two, 512x1080x1080 f16 with GELU 11.1 and 10.4,
300x1500x700 9.3 and 8.4; where SMs have several, 2160x1024x256, 8.1 and 8.6."""

WHOLE_ROWS = (16, 32, 64, 128)
"""M of tiles that have all of N."""

TWO_WARPS = 2048
"""Elements of such a tile of f32 that two warps compute at most: 230890x74x19 with four functions
and a sum of its rows took 64 us on an H200 in tiles of 64 by 32 with two warps, 154 with four,
which are a warpgroup, and 72 and 110 in tiles of 32 by 32."""


def block_n_each(block_n: int, accumulators: int) -> int:
    """Size along N of each accumulator of a tile, a power of two."""
    return max(16, block_n // power_of_two(accumulators))


def f32_tiles(target: Target, *, a_k_contiguous: bool) -> list[tuple[int, int, int]]:
    """M, N and warps of tiles of f32.

    Warpgroups read A from shared memory along K alone. Where it is not contiguous along K, it is
    turned there: a 1x1 convolution of 2x512x64x64, channels first, took 85 us on an H200 in tiles
    of 128 by 128 with warpgroups, and 49 of 32 by 128 without.
    """
    return [
        (block_m, block_n, warps)
        for block_m, block_n, warps in (TF32_TILES if is_one_product(target) else F32_TILES)
        if a_k_contiguous or not uses_warpgroups(block_m, warps, target)
    ]


def lone_f32_tiles(problem: MatmulProblem, target: Target) -> list[tuple[int, int, int]]:
    """M, N and warps of the tiles of f32 of which no SM has two."""
    if is_one_product(target):
        return []
    return [tile for tile in LONE_F32_TILES if is_lone(problem, *tile[:2], target)]


def is_lone(problem: MatmulProblem, block_m: int, block_n: int, target: Target) -> bool:
    """Whether no SM has two CTAs of tiles of so many rows and columns."""
    tile = MatmulConfig(block_m, block_n, 64, 4, 1)
    return num_ctas(problem, tile) <= gpu_of(target).num_sms


def _suits_two_warpgroups(problem: MatmulProblem, target: Target) -> bool:
    """Whether tiles of two warpgroups have an SM each, and many SMs have one."""
    block_m, block_n, warps = TWO_WARPGROUPS
    each = block_n_each(block_n, problem.accumulators)
    ctas = num_ctas(problem, MatmulConfig(block_m, each, 64, warps, 1))
    return gpu_of(target).num_sms <= LEAST_SHARE * ctas <= LEAST_SHARE * gpu_of(target).num_sms


def tiles(problem: MatmulProblem, target: Target) -> Iterator[tuple[int, int, int]]:
    """M, N and warps of tiles."""
    if problem.whole_rows:
        block_n = max(MIN_DOT_M, power_of_two(problem.n))
        if is_narrow(problem, target):
            yield NARROW_F32_TILE
            return
        for rows in WHOLE_ROWS:
            few = problem.operand_bits == 32 and rows * block_n <= TWO_WARPS
            yield rows, block_n, 2 if few else 8 if rows * block_n >= 128 * 128 else 4
        return
    if is_narrow(problem, target):
        yield NARROW_F32_TILE
        return
    if problem.operand_bits == 32:
        yield from f32_tiles(target, a_k_contiguous=problem.a_k_contiguous)
        yield from lone_f32_tiles(problem, target)
        return
    if _suits_two_warpgroups(problem, target):
        yield TWO_WARPGROUPS
    for block_m, block_n in itertools.product((64, 128), (32, 64, 128, 256)):
        elements = block_m * block_n_each(block_n, problem.accumulators) * problem.accumulators
        yield block_m, block_n, 8 if elements >= 128 * 128 else 4


def is_narrow(problem: MatmulProblem, target: Target) -> bool:
    """Whether tiles of all of few columns of f32 fill the device, of which an SM has several."""
    rows, columns, _ = NARROW_F32_TILE
    few = problem.operand_bits == 32 and problem.n * problem.accumulators <= columns
    few = few and problem.k >= MIN_NARROW_K
    return few and not problem.b_k_contiguous and not is_lone(problem, rows, columns, target)
