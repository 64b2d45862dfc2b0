"""The family of row reductions: softmax, norms, and the elementwise ops around them.

  %y = flow.dispatch.region { reductions over rows, elementwise ops }
becomes
  row_kernel: whole rows in registers, of a CTA or, on Hopper, of a thread block cluster
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.codegen.tile_writer import attempted
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.reduction import heuristics, rows_in_registers
from mlirfuse.kernels.reduction.analysis import SHARED, ReductionAnalysis, analyze, problem_of
from mlirfuse.kernels.reduction.problem import ReductionConfig, ReductionProblem
from mlirfuse.targets.base import Target


@dataclasses.dataclass(frozen=True, slots=True)
class ReductionFamily:
    """Implements `mlirfuse.kernels.family.KernelFamily`."""

    name: str = "reduction"
    problem_type: type[ReductionProblem] = ReductionProblem
    config_type: type[ReductionConfig] = ReductionConfig

    def plan(
        self, region: ir.Operation, target: Target, config: ReductionConfig | None = None
    ) -> Plan | NoMatch | None:
        """Plans the kernel of a region; None for another kind of region."""
        analysis = analyze(region)
        if not isinstance(analysis, ReductionAnalysis):
            return analysis
        chosen = config or heuristics.choose_config(problem_of(analysis), target)
        refusal = rows_in_registers.can_run(analysis, chosen, target)
        if refusal is not None:
            return refusal
        return attempted(lambda: rows_in_registers.plan(analysis, chosen, target), SHARED)

    def problem(self, region: ir.Operation, target: Target) -> ReductionProblem | NoMatch | None:
        """The problem of a region; None for another kind of region."""
        analysis = analyze(region)
        return problem_of(analysis) if isinstance(analysis, ReductionAnalysis) else analysis

    def default_config(self, problem: ReductionProblem, target: Target) -> ReductionConfig:
        """The configuration computed from the problem and the device."""
        return heuristics.default_config(problem, target)

    def configs(self, problem: ReductionProblem, target: Target) -> list[ReductionConfig]:
        """The configurations that the tuner measures."""
        return heuristics.configs(problem, target)


REDUCTION = ReductionFamily()


def profitable(plan: Plan, target: Target) -> NoMatch | None:
    """Leaves a region with IREE where its code was measured to be as fast."""
    assert plan.problem is not None
    found = lookup.baseline(target, plan.problem)
    return None if found is None else lookup.refusal(found, plan.problem)
