"""The family of elementwise kernels."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.pointwise import planner
from mlirfuse.kernels.pointwise.problem import PointwiseConfig, PointwiseProblem
from mlirfuse.targets.base import Target


@dataclasses.dataclass(frozen=True, slots=True)
class PointwiseFamily:
    """Implements `mlirfuse.kernels.family.KernelFamily`."""

    name: str = "pointwise"
    problem_type: type[PointwiseProblem] = PointwiseProblem
    config_type: type[PointwiseConfig] = PointwiseConfig

    def plan(
        self, region: ir.Operation, target: Target, config: PointwiseConfig | None = None
    ) -> Plan | NoMatch | None:
        """Plans the kernel of a region; None for another kind of region."""
        return planner.supports(region, target, config)

    def problem(self, region: ir.Operation, target: Target) -> PointwiseProblem | NoMatch | None:
        """The problem of a region; None for another kind of region."""
        plan = self.plan(region, target)
        if not isinstance(plan, Plan):
            return plan
        assert isinstance(plan.problem, PointwiseProblem)
        return plan.problem

    def default_config(self, problem: PointwiseProblem, target: Target) -> PointwiseConfig:
        """The configuration computed from the problem and the device."""
        return planner.default_config(problem, target)

    def configs(self, problem: PointwiseProblem, target: Target) -> list[PointwiseConfig]:
        """The configurations that the tuner measures."""
        return planner.candidates(problem)


POINTWISE = PointwiseFamily()
