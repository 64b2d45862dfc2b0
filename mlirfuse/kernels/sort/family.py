"""The family of sorts: the indices that sort a dimension, or those of its first elements.

  %i = flow.dispatch.region { ranks by comparing all pairs, and the index of each rank }
becomes
  sort_kernel: rows in registers, by a bitonic network
or, for rows that registers do not hold,
  sort_chunks_kernel: chunks of rows in registers, or for few elements
  sort_selection_kernel: chunks of any length, tile by tile;
  then sort_merge_kernel, until one run is left
"""

from __future__ import annotations

from mlirfuse.kernels.family import KernelFamily
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.sort import bitonic, heuristics, merges, selection
from mlirfuse.kernels.sort.analysis import SortAnalysis, analyze, problem_of
from mlirfuse.kernels.sort.problem import SortConfig, SortProblem
from mlirfuse.kernels.sort.runs import runs_of_chunks
from mlirfuse.targets.base import Target


def plan_sort(analysis: SortAnalysis, target: Target, config: SortConfig | None = None) -> Plan:
    """Plans the kernels of a sort.

    Args:
      analysis: the sort.
      target: the target.
      config: a given configuration; else the nearest measured, or the computed one.
    """
    problem = problem_of(analysis)
    chosen = config or heuristics.choose_config(problem, target)
    if 0 < analysis.columns <= chosen.chunk_columns:
        # Measured for longer rows: no kernel would merge the only chunk into results.
        chosen = heuristics.default_config(problem, target)
    if not chosen.chunk_columns:
        return bitonic.plan(analysis, chosen)
    runs = runs_of_chunks(analysis.columns, chosen.chunk_columns, analysis.order.count)
    first_elements = selection.plan if chosen.tile_columns else bitonic.chunks_plan
    before = first_elements(analysis, chosen, runs)
    return merges.plan(analysis, chosen, target, runs, before)


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
