"""The family of elementwise kernels: several results, halves, gathers, transposed operands."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.pointwise import heuristics, tile
from mlirfuse.kernels.pointwise.analysis import PointwiseAnalysis, analyze, problem_of
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
        analysis = analyze(region)
        if not isinstance(analysis, PointwiseAnalysis):
            return analysis
        return tile.plan(analysis, config or heuristics.choose_config(problem_of(analysis), target))

    def problem(self, region: ir.Operation, target: Target) -> PointwiseProblem | NoMatch | None:
        """The problem of a region; None for another kind of region."""
        analysis = analyze(region)
        return problem_of(analysis) if isinstance(analysis, PointwiseAnalysis) else analysis

    def default_config(self, problem: PointwiseProblem, target: Target) -> PointwiseConfig:
        """The configuration computed from the problem and the device."""
        return heuristics.default_config(problem, target)

    def configs(self, problem: PointwiseProblem, target: Target) -> list[PointwiseConfig]:
        """The configurations that the tuner measures."""
        return heuristics.configs(problem, target)


POINTWISE = PointwiseFamily()
