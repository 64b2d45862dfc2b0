"""The family of convolution kernels."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.convolution import planner
from mlirfuse.kernels.convolution.problem import ConvolutionConfig, ConvolutionProblem
from mlirfuse.kernels.plan import Plan
from mlirfuse.targets.base import Target


@dataclasses.dataclass(frozen=True, slots=True)
class ConvolutionFamily:
    """Implements `mlirfuse.kernels.family.KernelFamily`."""

    name: str = "convolution"
    problem_type: type[ConvolutionProblem] = ConvolutionProblem
    config_type: type[ConvolutionConfig] = ConvolutionConfig

    def plan(
        self, region: ir.Operation, target: Target, config: ConvolutionConfig | None = None
    ) -> Plan | NoMatch | None:
        """Plans the kernel of a region; None for another kind of region."""
        return planner.supports(region, target, config)

    def problem(self, region: ir.Operation, target: Target) -> ConvolutionProblem | NoMatch | None:
        """The problem of a region; None for another kind of region."""
        plan = self.plan(region, target)
        if not isinstance(plan, Plan):
            return plan
        assert isinstance(plan.problem, ConvolutionProblem)
        return plan.problem

    def default_config(self, problem: ConvolutionProblem, target: Target) -> ConvolutionConfig:
        """The configuration computed from the problem and the device."""
        return planner.default_config(problem, target)

    def configs(self, problem: ConvolutionProblem, target: Target) -> list[ConvolutionConfig]:
        """The configurations that the tuner measures."""
        return planner.candidates(problem, target)


CONVOLUTION = ConvolutionFamily()
