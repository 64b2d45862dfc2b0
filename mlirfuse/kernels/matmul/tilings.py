"""How workgroups share a product: what a tiling says, which one is chosen, what a search tries."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.configs.lookup import Entry
from mlirfuse.kernels.matmul.heuristics import fills_device
from mlirfuse.kernels.matmul.problem import MatmulConfig, MatmulProblem
from mlirfuse.targets.base import Target

# The first whose tiles fill the device; the large ones reach the most operations for each byte.
# Estimates from the sizes of registers and workgroup memory, for sizes far from all measured ones.
_ESTIMATES: Mapping[str, tuple[MatmulConfig, ...]] = {
    "sm_90": (
        MatmulConfig(128, 256, 64, 8, 3),
        MatmulConfig(128, 128, 64, 8, 4),
        MatmulConfig(64, 128, 64, 4, 4),
        MatmulConfig(64, 64, 64, 4, 4),
    ),
    "sm_80": (
        MatmulConfig(128, 256, 32, 8, 3),
        MatmulConfig(128, 128, 32, 4, 4),
        MatmulConfig(64, 128, 32, 4, 4),
        MatmulConfig(64, 64, 32, 4, 4),
    ),
}
_ESTIMATES_AMD: tuple[MatmulConfig, ...] = (
    MatmulConfig(128, 128, 32, 8, 2),
    MatmulConfig(64, 64, 64, 4, 2),
)
_LOW: tuple[MatmulConfig, ...] = (
    MatmulConfig(16, 64, 128, 4, 4),
    MatmulConfig(16, 32, 256, 4, 3),
    MatmulConfig(16, 16, 256, 4, 4),
)

_ROW = (
    (2, 2048, 4, 1),
    (2, 4096, 8, 1),
    (4, 2048, 4, 1),
    (4, 2048, 8, 1),
    (4, 1024, 4, 3),
    (8, 512, 4, 3),
)
"""Tiles of a single row: width, block, warps, stages."""

_SHARED = (
    (32, 512, 4, 3),
    (32, 256, 4, 4),
    (16, 512, 4, 4),
    (16, 256, 4, 4),
)
"""The same of few rows, whose warps share the terms."""

_FEW = (
    (64, 128, 4, 4),
    (64, 64, 4, 6),
    (128, 64, 4, 4),
    (32, 128, 4, 4),
    (32, 128, 4, 5),
    (32, 256, 4, 3),
    (16, 256, 4, 4),
    (16, 512, 4, 3),
    (32, 256, 4, 4),
    (32, 256, 8, 4),
    (64, 256, 8, 3),
)
"""The same of warps beside each other."""

_Shape = tuple[int, int, int, int, int] | tuple[int, int, int, int, int, int, int]

_SOME: tuple[_Shape, ...] = (
    (64, 32, 128, 4, 6),
    (64, 64, 128, 4, 6),
    (64, 128, 64, 4, 8),
    (64, 128, 128, 4, 4),
    (128, 128, 64, 8, 6),
    (16, 16, 512, 4, 4, 8, 4),
    (32, 16, 512, 4, 4, 8, 4),
    (32, 32, 256, 4, 4, 8, 4),
    (32, 32, 512, 4, 3, 8, 4),
)
"""Tiles of up to `SOME_ROWS`, beside those of more: many stages, so that one tile for each
multiprocessor keeps memory busy; warps share the terms of what has few columns, too."""

_STRAIGHT = ((16, 2, 4), (16, 2, 8), (16, 4, 8), (16, 1, 8), (32, 1, 8), (32, 2, 8))
"""The same where weights go straight to matrix units: width, lines of a warp, warps."""

LINE = 64
"""Bytes of a column that threads beside each other load at once, there."""

MOST_STRAIGHT = 128
"""Rows up to which that is faster than taking weights apart for large tiles."""

TALLEST = 4
"""Tiles above each other up to which a measured tile of few rows is one for more."""

LOWEST = 8
"""Rows of a tile that are the columns of a matrix instruction."""

FEW_ROWS = 16
"""Rows of the lowest tile of matrix units."""

SOME_ROWS = 1024
"""Up to which a power of two of rows counts: as many rows of tiles as the next one has."""

MOST_SUMS = 128
"""Of a thread, which has 255 registers."""

_BYTES = 2
"""Of the widest operands."""

_Entry = Entry[MatmulProblem, MatmulConfig]


def tiling(
    target: Target,
    problem: MatmulProblem,
    together: int,
    allowed: Callable[[MatmulConfig], bool] = lambda _: True,
) -> MatmulConfig:
    """The tiling for a product.

    Args:
      target: what is compiled for.
      problem: the problem that it is chosen by.
      together: sums that a workgroup holds.
      allowed: which measured tilings the kernel can have.
    """
    rows = problem.m

    def fits(entry: _Entry) -> bool:
        found = entry.config
        return (
            _is_high_enough(found.block_m, rows)
            and _tells(entry, problem)
            and _has_room(found, together, target)
            and allowed(found)
        )

    measured = lookup.nearest(
        target,
        problem,
        MatmulConfig,
        lambda entry: _is_filled(entry, problem, target) and fits(entry),
    )
    if measured is not None:
        return measured.config
    found, fills = _estimate(target, problem, together)
    measured = None if fills else lookup.nearest(target, problem, MatmulConfig, fits)
    return found if measured is None else measured.config


def default_config(problem: MatmulProblem, target: Target) -> MatmulConfig:
    """The configuration computed from the problem and the device."""
    return _estimate(target, problem, problem.accumulators)[0]


def _estimate(target: Target, problem: MatmulProblem, together: int) -> tuple[MatmulConfig, bool]:
    """A tiling without a measurement, and whether it fills the device."""
    tilings = _ESTIMATES["sm_90" if target.arch == "sm_90" else "sm_80"]
    if target.name == "rocm":
        tilings = _ESTIMATES_AMD
    if problem.m <= FEW_ROWS:
        tilings = _LOW
    for tiling in tilings:
        width = max(16, tiling.block_n // together)
        found = dataclasses.replace(tiling, block_n=width)
        if fills_device(_workgroups(found, problem.sizes), target):
            return found, True
    return found, False


def _is_high_enough(height: int, rows: int) -> bool:
    """Whether a measured tile is one for so many rows, too."""
    return height > FEW_ROWS or rows == 1 or (height > 1 and rows <= height * TALLEST)


def _tells(entry: _Entry, problem: MatmulProblem) -> bool:
    """Whether what was measured says something of weights that are taken apart, if they are.

    Of some rows these want tiles of their own: larger ones, or to go straight to matrix units.
    """
    apart = narrow_bits(problem) and entry.problem.traits != problem.traits
    return not apart or not FEW_ROWS < entry.problem.m < SOME_ROWS


def _has_room(tiling: MatmulConfig, sums: int, target: Target) -> bool:
    """Whether registers and workgroup memory hold the tiles of several sums.

    That of workgroups that stay is in `hopper_matmul.fits`.
    """
    if tiling.consumer_warpgroups or tiling.weight_streaming or tiling.block_m == 1 or sums == 1:
        return True
    held = (tiling.block_m + tiling.block_n * sums) * tiling.block_k * tiling.num_stages * _BYTES
    each = tiling.block_m * tiling.block_n * sums // (tiling.num_warps * 32)
    return each <= MOST_SUMS and held <= (target.shared_memory or held)


def _is_filled(entry: _Entry, problem: MatmulProblem, target: Target) -> bool:
    """Whether a measured tiling leaves less than half of the device idle, or of what it filled.

    Few rows, and weights that go straight to matrix units, want other things more.
    """
    found = entry.config
    if problem.m <= FEW_ROWS or found.weight_streaming:
        return True
    filled = min(gpu_of(target).num_sms, _workgroups(found, entry.problem.sizes))
    return 2 * _workgroups(found, problem.sizes) > filled


def _workgroups(tiling: MatmulConfig, sizes: tuple[int, ...]) -> int:
    rows, columns, _, batch = sizes
    return -(-rows // tiling.block_m) * -(-columns // tiling.block_n) * batch


def counted(rows: int) -> int:
    """What a number of rows counts as where tiles are chosen."""
    return 1 << (rows - 1).bit_length() if FEW_ROWS < rows <= SOME_ROWS else rows


def narrow_bits(problem: MatmulProblem) -> int:
    """Bits of weights that lie straight for matrix units; 0 for others."""
    lies = problem.a_k_contiguous and problem.b_k_contiguous and problem.accumulators == 1
    return problem.weight_bits if lies and problem.weight_bits in (4, 8) else 0


def lowered(tiling: MatmulConfig, rows: int) -> MatmulConfig:
    """The tiling without rows of a tile that no product of so many rows has."""
    least = max(LOWEST, 1 << (rows - 1).bit_length())
    return dataclasses.replace(tiling, block_m=min(tiling.block_m, least))


def candidates(problem: MatmulProblem) -> list[MatmulConfig]:
    """The tilings that a search measures."""
    rows = problem.m
    straight = []
    if rows <= MOST_STRAIGHT and (bits := narrow_bits(problem)):
        low = max(LOWEST, min(2 * FEW_ROWS, 1 << (rows - 1).bit_length()))
        straight = [
            MatmulConfig(
                low,
                width,
                lines * warps * LINE * 8 // bits,
                warps,
                1,
                8,
                warps,
                weight_streaming=True,
            )
            for width, lines, warps in _STRAIGHT
        ]
    if rows <= FEW_ROWS:
        found = [MatmulConfig(1, *numbers) for numbers in _ROW] if rows == 1 else []
        shared = [MatmulConfig(16, *numbers, split_k=numbers[2]) for numbers in _SHARED]
        return straight + found + shared + [MatmulConfig(16, *numbers) for numbers in _FEW]
    shapes: list[_Shape] = [
        (64, 64, 64, 4, 4),
        (64, 64, 128, 4, 3),
        (64, 128, 64, 4, 4),
        (128, 64, 64, 4, 4),
        (128, 128, 64, 8, 4),
        (128, 128, 64, 8, 3),
        (128, 128, 64, 4, 4),
    ]
    if rows <= SOME_ROWS:
        shapes += _SOME
    if rows > 64:
        shapes += [(128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (256, 128, 64, 8, 3)]
    found = [MatmulConfig(*numbers) for numbers in shapes if numbers[0] <= max(64, rows)]
    if rows >= SOME_ROWS:
        found += [MatmulConfig(128, 256, 64, 8, 3, 4), MatmulConfig(128, 256, 64, 8, 3, 16)]
    return straight + found


def passing(tiling: MatmulConfig, sums: int) -> MatmulConfig:
    """The tiling of workgroups with one tile each, instead of one whose workgroups stay."""
    return MatmulConfig(128, max(tiling.block_n, 128) // sums, 64, 8, 3, tiling.group_m)
