"""The family of data movement: concatenations of tensors that lie in memory."""

from __future__ import annotations

from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.configs.device import thread_shape
from mlirfuse.kernels.data_movement import concat
from mlirfuse.kernels.data_movement.analysis import ConcatAnalysis, analyze, problem_of
from mlirfuse.kernels.data_movement.problem import ConcatConfig, ConcatProblem
from mlirfuse.kernels.family import KernelFamily
from mlirfuse.kernels.plan import Plan
from mlirfuse.targets.base import Target


def default_config(problem: ConcatProblem, target: Target) -> ConcatConfig:
    """The configuration computed from the problem and the device."""
    shape = thread_shape(problem.elements, target, bits=problem.element_bits)
    return ConcatConfig(shape.tile, shape.warps)


def configs(problem: ConcatProblem, target: Target) -> list[ConcatConfig]:
    """The configurations that the tuner measures, with the default first."""
    found = [ConcatConfig(n, warps) for n in (1024, 2048, 4096, 8192) for warps in (4, 8)]
    return list(dict.fromkeys([default_config(problem, target), *found]))


def plan_concat(
    analysis: ConcatAnalysis, target: Target, config: ConcatConfig | None = None
) -> Plan:
    """Plans the kernel of a concatenation, of a region or before there is one.

    Args:
      analysis: the concatenation.
      target: the target.
      config: a given configuration; else the nearest measured, or the computed one.
    """
    problem = problem_of(analysis)
    if config is None:
        config = lookup.choose(target, problem, ConcatConfig, default_config)
    return concat.plan(analysis, config)


DATA_MOVEMENT = KernelFamily(
    name="data_movement",
    problem_type=ConcatProblem,
    config_type=ConcatConfig,
    analyze=analyze,
    problem_of=problem_of,
    plan_analysis=plan_concat,
    default_config=default_config,
    configs=configs,
    entries=("concat",),
)
