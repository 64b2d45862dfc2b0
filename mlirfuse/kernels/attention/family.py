"""The family of attention kernels."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.attention import planner
from mlirfuse.kernels.attention.problem import AttentionConfig, AttentionProblem
from mlirfuse.kernels.plan import Plan
from mlirfuse.targets.base import Target


@dataclasses.dataclass(frozen=True, slots=True)
class AttentionFamily:
    """Implements `mlirfuse.kernels.family.KernelFamily`."""

    name: str = "attention"
    problem_type: type[AttentionProblem] = AttentionProblem
    config_type: type[AttentionConfig] = AttentionConfig

    def plan(
        self, region: ir.Operation, target: Target, config: AttentionConfig | None = None
    ) -> Plan | NoMatch | None:
        """Plans the kernel of a region; None for another kind of region."""
        return planner.supports(region, target, config)

    def problem(self, region: ir.Operation, target: Target) -> AttentionProblem | NoMatch | None:
        """The problem of a region; None for another kind of region."""
        plan = self.plan(region, target)
        if not isinstance(plan, Plan):
            return plan
        assert isinstance(plan.problem, AttentionProblem)
        return plan.problem

    def default_config(self, problem: AttentionProblem, target: Target) -> AttentionConfig:
        """The configuration computed from the problem and the device."""
        return planner.default_config(problem, target)

    def configs(self, problem: AttentionProblem, target: Target) -> list[AttentionConfig]:
        """The configurations that the tuner measures."""
        return planner.candidates(problem)


ATTENTION = AttentionFamily()
