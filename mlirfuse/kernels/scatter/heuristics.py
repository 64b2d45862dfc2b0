"""Configurations of scatter kernels: computed from the device, or measured."""

from __future__ import annotations

from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.codegen.loop_nest import VECTOR, tile_width
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.configs.device import gpu_of, loads_and_warps
from mlirfuse.kernels.scatter.problem import ScatterConfig, ScatterProblem
from mlirfuse.targets.base import Target


def choose_config(problem: ScatterProblem, target: Target) -> ScatterConfig:
    """The nearest measured configuration, else the computed one."""
    return lookup.choose(target, problem, ScatterConfig, default_config)


def default_config(problem: ScatterProblem, target: Target) -> ScatterConfig:
    """The configuration computed from the problem and the device.

    Tiles have the elements that a thread loads at once, fewer where that leaves an SM without a
    CTA, and at least one element for each thread.
    """
    loads, warps = loads_and_warps(problem.windows * problem.elements, VECTOR, target)
    lanes = gpu_of(target).warp_size * warps
    return _tile(problem, VECTOR * lanes * loads, lanes, warps)


def _tile(problem: ScatterProblem, tile: int, lanes: int, warps: int) -> ScatterConfig:
    contiguous = problem.windows if problem.elements == 1 else problem.elements
    columns = tile_width(contiguous, tile)
    rows = 1 if problem.elements == 1 else min(tile // columns, power_of_two(problem.windows))
    return ScatterConfig(rows, max(columns, lanes // rows), warps)


def configs(problem: ScatterProblem, target: Target) -> list[ScatterConfig]:
    """The configurations that the tuner measures, with the default first."""
    found = [default_config(problem, target)]
    for warps in (1, 2, 4, 8):
        lanes = gpu_of(target).warp_size * warps
        found += [_tile(problem, lanes * each, lanes, warps) for each in (1, 2, 4, 8)]
    return list(dict.fromkeys(found))
