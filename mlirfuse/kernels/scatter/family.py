"""The family of scatters: updates of a tensor at computed indices, in place.

  %y = flow.dispatch.region { ops that compute updates and indices; iree_linalg_ext.scatter }
becomes
  scatter_kernel: an element of an update in each lane; stores, atomic ops, compare-and-swap
"""

from __future__ import annotations

from mlirfuse.core import NoMatch
from mlirfuse.kernels.family import KernelFamily
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.scatter import heuristics, tile
from mlirfuse.kernels.scatter.analysis import ScatterAnalysis, analyze, problem_of
from mlirfuse.kernels.scatter.problem import ScatterConfig, ScatterProblem
from mlirfuse.targets.base import Target


def plan_scatter(
    analysis: ScatterAnalysis, target: Target, config: ScatterConfig | None = None
) -> Plan | NoMatch:
    """Plans the kernel of a scatter.

    Args:
      analysis: the scatter.
      target: the target.
      config: a given configuration; else the nearest measured, or the computed one.
    """
    chosen = config or heuristics.choose_config(problem_of(analysis), target)
    return tile.plan(analysis, chosen, target)


SCATTER = KernelFamily(
    name="scatter",
    problem_type=ScatterProblem,
    config_type=ScatterConfig,
    analyze=analyze,
    problem_of=problem_of,
    plan_analysis=plan_scatter,
    default_config=heuristics.default_config,
    configs=heuristics.configs,
)
