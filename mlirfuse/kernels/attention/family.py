"""The family of attention kernels."""

from __future__ import annotations

from mlirfuse.core import Match, NoMatch, PassContext
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.attention import heuristics, strategies
from mlirfuse.kernels.attention.analysis import AttentionAnalysis, analyze, problem_of
from mlirfuse.kernels.attention.problem import AttentionConfig, AttentionProblem
from mlirfuse.kernels.codegen.tile_writer import attempted
from mlirfuse.kernels.family import KernelFamily
from mlirfuse.kernels.plan import Plan
from mlirfuse.targets.base import Target


def _plan(
    analysis: AttentionAnalysis, target: Target, config: AttentionConfig | None
) -> Plan | NoMatch | None:
    chosen = config or strategies.choose_config(analysis, target)
    return attempted(
        lambda: strategies.plan(analysis, chosen, target), "queries, keys and head sizes"
    )


ATTENTION = KernelFamily(
    name="attention",
    problem_type=AttentionProblem,
    config_type=AttentionConfig,
    analyze=analyze,
    problem_of=problem_of,
    plan_analysis=_plan,
    default_config=heuristics.default_config,
    configs=heuristics.configs,
    portable=heuristics.portable_config,
)


def needs_provider(match: Match, ctx: PassContext) -> NoMatch | None:
    """Refuses a dynamic number of keys, which IREE's code is slow for, without a provider."""
    if match.data.dynamic_keys and not ctx.options.dynamic_keys:
        return triton_compiler.missing()
    return None
