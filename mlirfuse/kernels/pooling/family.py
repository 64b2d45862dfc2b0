"""The family of pooling kernels."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.pooling import planner
from mlirfuse.kernels.pooling.problem import PoolingConfig, PoolingProblem
from mlirfuse.targets.base import Target


@dataclasses.dataclass(frozen=True, slots=True)
class PoolingFamily:
    """Implements `mlirfuse.kernels.family.KernelFamily`."""

    name: str = "pooling"
    problem_type: type[PoolingProblem] = PoolingProblem
    config_type: type[PoolingConfig] = PoolingConfig

    def plan(
        self, region: ir.Operation, target: Target, config: PoolingConfig | None = None
    ) -> Plan | NoMatch | None:
        """Plans the kernel of a region; None for another kind of region."""
        return planner.supports(region, target, config)

    def problem(self, region: ir.Operation, target: Target) -> PoolingProblem | NoMatch | None:
        """The problem of a region; None for another kind of region."""
        plan = self.plan(region, target)
        if not isinstance(plan, Plan):
            return plan
        assert isinstance(plan.problem, PoolingProblem)
        return plan.problem

    def default_config(self, problem: PoolingProblem, target: Target) -> PoolingConfig:
        """The configuration computed from the problem and the device."""
        return planner.default_config(problem, target)

    def configs(self, problem: PoolingProblem, target: Target) -> list[PoolingConfig]:
        """The configurations that the tuner measures."""
        return planner.candidates(problem)


POOLING = PoolingFamily()
