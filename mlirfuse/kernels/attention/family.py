"""The family of attention kernels."""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import Match, NoMatch, PassContext
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.attention import heuristics, strategies
from mlirfuse.kernels.attention.analysis import AttentionAnalysis, analyze, problem_of
from mlirfuse.kernels.attention.problem import AttentionConfig, AttentionProblem
from mlirfuse.kernels.codegen.tile_writer import attempted
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
        analysis = analyze(region)
        if not isinstance(analysis, AttentionAnalysis):
            return analysis
        chosen = config or strategies.choose_config(analysis, target)
        return attempted(
            lambda: strategies.plan(analysis, chosen, target), "queries, keys and head sizes"
        )

    def problem(self, region: ir.Operation, target: Target) -> AttentionProblem | NoMatch | None:
        """The problem of a region; None for another kind of region."""
        analysis = analyze(region)
        return problem_of(analysis) if isinstance(analysis, AttentionAnalysis) else analysis

    def default_config(self, problem: AttentionProblem, target: Target) -> AttentionConfig:
        """The configuration computed from the problem and the device."""
        return heuristics.default_config(problem, target)

    def configs(self, problem: AttentionProblem, target: Target) -> list[AttentionConfig]:
        """The configurations that the tuner measures."""
        return heuristics.configs(problem, target)


ATTENTION = AttentionFamily()


def needs_provider(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses a dynamic number of keys, which IREE's code is slow for, without a provider."""
    if match.data.dynamic_keys and not ctx.options.dynamic_keys:
        return triton_compiler.missing()
    return None
