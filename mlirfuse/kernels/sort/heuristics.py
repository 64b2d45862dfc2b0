"""Configurations of sort kernels: computed from the device, or measured."""

from __future__ import annotations

from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.configs.device import MAX_WARPS, gpu_of
from mlirfuse.kernels.sort.analysis import block_columns, packed_bits
from mlirfuse.kernels.sort.problem import SortConfig, SortProblem
from mlirfuse.targets.base import Target

ELEMENTS_PER_THREAD = 8
"""Elements that a thread exchanges with itself: the last three steps of a merge."""

COPIES = 4
"""Values in registers for each element: it, its partner, and halves of 64 bits of both."""

REGISTER_BYTES = 4

MAX_COLUMNS = 2048
"""Longest row of a network, whose steps are unrolled: building this one takes tens of seconds (226
kB of PTX), one of twice the length minutes."""


def max_columns(key_bits: int, target: Target) -> int:
    """The elements of a row that the registers of an SM hold in a tile, at most `MAX_COLUMNS`.

    Args:
      key_bits: width of an element.
      target: the machine that is compiled for.
    """
    held = gpu_of(target).registers_per_sm * REGISTER_BYTES
    columns = 2
    while (
        columns < MAX_COLUMNS
        and columns * 2 * COPIES * packed_bits(key_bits, columns * 2) // 8 <= held
    ):
        columns *= 2
    return columns


def choose_config(problem: SortProblem, target: Target) -> SortConfig:
    """The nearest measured configuration, else the computed one."""
    return lookup.choose(target, problem, SortConfig, default_config)


def default_config(problem: SortProblem, target: Target) -> SortConfig:
    """The configuration computed from the problem and the device.

    Short rows share a CTA, as far as each SM has one.
    """
    gpu = gpu_of(target)
    columns = block_columns(problem.columns)
    tile = gpu.warp_size * ELEMENTS_PER_THREAD * MAX_WARPS
    rows = min(max(1, tile // columns), power_of_two(problem.rows))
    while rows > 1 and problem.rows < rows * gpu.num_sms:
        rows //= 2
    threads = rows * columns // ELEMENTS_PER_THREAD
    most = gpu.max_threads_per_sm // gpu.warp_size // 2
    return SortConfig(rows, max(1, min(most, threads // gpu.warp_size)))


def configs(problem: SortProblem, target: Target) -> list[SortConfig]:
    """The configurations that the tuner measures, with the default first."""
    default = default_config(problem, target)
    found = [default]
    for rows in (1, default.block_rows, 2 * default.block_rows):
        found += [SortConfig(rows, warps) for warps in (1, 2, 4, 8, 16)]
    return list(dict.fromkeys(found))
