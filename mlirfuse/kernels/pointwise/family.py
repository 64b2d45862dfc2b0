"""The family of elementwise kernels: several results, halves, gathers, transposed operands."""

from __future__ import annotations

from mlirfuse.core import NoMatch
from mlirfuse.kernels.family import KernelFamily
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.pointwise import heuristics, tile
from mlirfuse.kernels.pointwise.analysis import PointwiseAnalysis, analyze, problem_of
from mlirfuse.kernels.pointwise.problem import PointwiseConfig, PointwiseProblem
from mlirfuse.targets.base import Target


def _plan(
    analysis: PointwiseAnalysis, target: Target, config: PointwiseConfig | None
) -> Plan | NoMatch | None:
    return tile.plan(
        analysis, config or heuristics.choose_config(problem_of(analysis), target), target
    )


POINTWISE = KernelFamily(
    name="pointwise",
    problem_type=PointwiseProblem,
    config_type=PointwiseConfig,
    analyze=analyze,
    problem_of=problem_of,
    plan_analysis=_plan,
    default_config=heuristics.default_config,
    configs=heuristics.configs,
    entries=("transpose",),
)
