"""The family of matmul kernels: regions of one contraction and the elementwise ops around it.

    %y = flow.dispatch.region { prologue; contraction; epilogue }
  becomes
    matmul_kernel: the prologue in the loop over K, the epilogue on accumulators in registers

Operands are read as they are in memory, transposed or not. Several results that share A are
computed by one CTA where one op of the epilogue needs them (gated units), else each by its own.
"""

from __future__ import annotations

from mlirfuse.core import NoMatch
from mlirfuse.kernels.codegen.tile_writer import attempted
from mlirfuse.kernels.family import KernelFamily
from mlirfuse.kernels.matmul import heuristics, search_space, selection, strategies
from mlirfuse.kernels.matmul.analysis import MatmulAnalysis, analyze, problem_of
from mlirfuse.kernels.matmul.problem import MatmulConfig, MatmulProblem
from mlirfuse.kernels.plan import Plan
from mlirfuse.targets.base import Target


def _plan(
    analysis: MatmulAnalysis, target: Target, config: MatmulConfig | None
) -> Plan | NoMatch | None:
    selected = selection.select_config(analysis, target, config)
    return attempted(lambda: strategies.plan(analysis, selected, target), "M and N")


MATMUL = KernelFamily(
    name="matmul",
    problem_type=MatmulProblem,
    config_type=MatmulConfig,
    analyze=analyze,
    problem_of=problem_of,
    plan_analysis=_plan,
    default_config=heuristics.default_config,
    configs=search_space.configs,
    alone=MatmulConfig.alone,
    portable=heuristics.dot_config,
)
