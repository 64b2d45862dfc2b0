"""The family of matmul kernels."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.matmul import planner, tilings
from mlirfuse.kernels.matmul.problem import MatmulConfig, MatmulProblem
from mlirfuse.kernels.plan import Plan
from mlirfuse.targets.base import Target


@dataclasses.dataclass(frozen=True, slots=True)
class MatmulFamily:
    """Implements `mlirfuse.kernels.family.KernelFamily`."""

    name: str = "matmul"
    problem_type: type[MatmulProblem] = MatmulProblem
    config_type: type[MatmulConfig] = MatmulConfig

    def plan(
        self, region: ir.Operation, target: Target, config: MatmulConfig | None = None
    ) -> Plan | NoMatch | None:
        """Plans the kernel of a region; None for another kind of region."""
        return planner.supports(region, target, config)

    def problem(self, region: ir.Operation, target: Target) -> MatmulProblem | NoMatch | None:
        """The problem of a region; None for another kind of region."""
        plan = self.plan(region, target)
        if not isinstance(plan, Plan):
            return plan
        assert isinstance(plan.problem, MatmulProblem)
        return plan.problem

    def default_config(self, problem: MatmulProblem, target: Target) -> MatmulConfig:
        """The configuration computed from the problem and the device."""
        return tilings.default_config(problem, target)

    def configs(self, problem: MatmulProblem, target: Target) -> list[MatmulConfig]:
        """The configurations that the tuner measures."""
        return planner.candidates(problem, target)


MATMUL = MatmulFamily()
