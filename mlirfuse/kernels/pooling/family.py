"""The family of pooling kernels: a pooling, its padding and its elementwise epilogue."""

from __future__ import annotations

from mlirfuse.core import NoMatch
from mlirfuse.kernels.codegen.tile_writer import attempted
from mlirfuse.kernels.family import KernelFamily
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.pooling import heuristics, tile
from mlirfuse.kernels.pooling.analysis import SHARED, PoolingAnalysis, analyze, problem_of
from mlirfuse.kernels.pooling.problem import PoolingConfig, PoolingProblem
from mlirfuse.targets.base import Target


def _plan(
    analysis: PoolingAnalysis, target: Target, config: PoolingConfig | None
) -> Plan | NoMatch | None:
    chosen = config or heuristics.choose_config(problem_of(analysis), target)
    return attempted(lambda: tile.plan(analysis, chosen), SHARED)


POOLING = KernelFamily(
    name="pooling",
    problem_type=PoolingProblem,
    config_type=PoolingConfig,
    analyze=analyze,
    problem_of=problem_of,
    plan_analysis=_plan,
    default_config=heuristics.default_config,
    configs=heuristics.configs,
)
