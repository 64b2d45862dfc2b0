"""The family of sorts: the indices that sort a dimension, or those of its first elements.

  %i = flow.dispatch.region { ranks by comparing all pairs, and the index of each rank }
becomes
  sort_kernel: rows in registers, by a bitonic network
"""

from __future__ import annotations

from mlirfuse.core import NoMatch
from mlirfuse.kernels.family import KernelFamily
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.sort import bitonic, heuristics
from mlirfuse.kernels.sort.analysis import SortAnalysis, analyze, problem_of
from mlirfuse.kernels.sort.problem import SortConfig, SortProblem
from mlirfuse.targets.base import Target


def plan_sort(
    analysis: SortAnalysis, target: Target, config: SortConfig | None = None
) -> Plan | NoMatch:
    """Plans the kernel of a sort.

    Args:
      analysis: the sort.
      target: the target.
      config: a given configuration; else the nearest measured, or the computed one.
    """
    chosen = config or heuristics.choose_config(problem_of(analysis), target)
    return bitonic.plan(analysis, chosen, target)


SORT = KernelFamily(
    name="sort",
    problem_type=SortProblem,
    config_type=SortConfig,
    analyze=analyze,
    problem_of=problem_of,
    plan_analysis=plan_sort,
    default_config=heuristics.default_config,
    configs=heuristics.configs,
)
