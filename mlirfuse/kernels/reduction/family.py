"""The family of kernels that reduce rows."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.reduction import planner
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
        return planner.supports(region, target, config)

    def problem(self, region: ir.Operation, target: Target) -> ReductionProblem | NoMatch | None:
        """The problem of a region; None for another kind of region."""
        plan = self.plan(region, target)
        if not isinstance(plan, Plan):
            return plan
        assert isinstance(plan.problem, ReductionProblem)
        return plan.problem

    def default_config(self, problem: ReductionProblem, target: Target) -> ReductionConfig:
        """The configuration computed from the problem and the device."""
        return planner.default_config(problem, target)

    def configs(self, problem: ReductionProblem, target: Target) -> list[ReductionConfig]:
        """The configurations that the tuner measures."""
        return planner.candidates(problem)


REDUCTION = ReductionFamily()
