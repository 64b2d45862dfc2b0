"""The family of reductions: softmax, norms, losses, and the elementwise ops around them.

  %y = flow.dispatch.region { reductions over the same dimensions, elementwise ops }
becomes
  row_kernel: whole rows in registers, of a CTA or, on Hopper, of a thread block cluster
or
  column_kernel: all columns of a row in one thread, of rows that have few
or
  reduction_kernel: loops over columns; several kernels where CTAs share the columns of a row
"""

from __future__ import annotations

from mlirfuse.core import NoMatch
from mlirfuse.kernels.codegen.tile_writer import attempted
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.family import KernelFamily
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.reduction import columns_in_threads, heuristics, looped, rows_in_registers
from mlirfuse.kernels.reduction.analysis import SHARED, ReductionAnalysis, analyze
from mlirfuse.kernels.reduction.problem import ReductionConfig, ReductionProblem
from mlirfuse.kernels.reduction.region_problem import problem_of
from mlirfuse.targets.base import Target


def _plan(
    analysis: ReductionAnalysis, target: Target, config: ReductionConfig | None
) -> Plan | NoMatch | None:
    chosen = config or heuristics.choose_config(problem_of(analysis), target)
    if chosen.block_columns == 1 and chosen.splits == 1:
        return attempted(lambda: columns_in_threads.plan(analysis, chosen), SHARED)
    if chosen.block_columns:
        return attempted(lambda: looped.plan(analysis, chosen, target), SHARED)
    refusal = rows_in_registers.can_run(analysis, chosen, target)
    if refusal is not None:
        return refusal
    return attempted(lambda: rows_in_registers.plan(analysis, chosen, target), SHARED)


REDUCTION = KernelFamily(
    name="reduction",
    problem_type=ReductionProblem,
    config_type=ReductionConfig,
    analyze=analyze,
    problem_of=problem_of,
    plan_analysis=_plan,
    default_config=heuristics.default_config,
    configs=heuristics.configs,
    alone=ReductionConfig.alone,
)


def profitable(plan: Plan, target: Target) -> NoMatch | None:
    """Leaves a region with IREE where its code was measured to be as fast."""
    assert plan.problem is not None
    found = lookup.baseline(target, plan.problem)
    return None if found is None else lookup.refusal(found, plan.problem)
