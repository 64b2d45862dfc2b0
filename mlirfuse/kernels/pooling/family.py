"""The family of pooling kernels: a pooling, its padding and its elementwise epilogue."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.codegen.tile_writer import attempted
from mlirfuse.kernels.plan import Plan
from mlirfuse.kernels.pooling import heuristics, tile
from mlirfuse.kernels.pooling.analysis import SHARED, PoolingAnalysis, analyze, problem_of
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
        analysis = analyze(region)
        if not isinstance(analysis, PoolingAnalysis):
            return analysis
        chosen = config or heuristics.choose_config(problem_of(analysis), target)
        return attempted(lambda: tile.plan(analysis, chosen), SHARED)

    def problem(self, region: ir.Operation, target: Target) -> PoolingProblem | NoMatch | None:
        """The problem of a region; None for another kind of region."""
        analysis = analyze(region)
        return problem_of(analysis) if isinstance(analysis, PoolingAnalysis) else analysis

    def default_config(self, problem: PoolingProblem, target: Target) -> PoolingConfig:
        """The configuration computed from the problem and the device."""
        return heuristics.default_config(problem, target)

    def configs(self, problem: PoolingProblem, target: Target) -> list[PoolingConfig]:
        """The configurations that the tuner measures."""
        return heuristics.configs(problem, target)


POOLING = PoolingFamily()
