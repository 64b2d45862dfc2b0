"""The family of matmul kernels: regions of one contraction and the elementwise ops around it.

    %y = flow.dispatch.region { prologue; contraction; epilogue }
  becomes
    matmul_kernel: the prologue in the loop over K, the epilogue on accumulators in registers

Operands are read as they are in memory, transposed or not. Several results that share A are
computed by one CTA where one op of the epilogue needs them (gated units), else each by its own.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.codegen.tile_writer import attempted
from mlirfuse.kernels.matmul import heuristics, search_space, selection, strategies
from mlirfuse.kernels.matmul.analysis import MatmulAnalysis, analyze, problem_of
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
        analysis = analyze(region)
        if not isinstance(analysis, MatmulAnalysis):
            return analysis
        selected = selection.select_config(analysis, target, config)
        return attempted(lambda: strategies.plan(analysis, selected, target), "M and N")

    def problem(self, region: ir.Operation, target: Target) -> MatmulProblem | NoMatch | None:
        """The problem of a region; None for another kind of region."""
        analysis = analyze(region)
        return problem_of(analysis) if isinstance(analysis, MatmulAnalysis) else analysis

    def default_config(self, problem: MatmulProblem, target: Target) -> MatmulConfig:
        """The configuration computed from the problem and the device."""
        return heuristics.default_config(problem, target)

    def configs(self, problem: MatmulProblem, target: Target) -> list[MatmulConfig]:
        """The configurations that the tuner measures."""
        return search_space.configs(problem, target)


MATMUL = MatmulFamily()
