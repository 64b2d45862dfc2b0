"""Choice of the configuration and the strategy of an attention kernel.

portable                   flash attention in Triton
split_kv                   the same, with CTAs that split the keys, and a merge
overlapped_sm90            one warpgroup of Hopper, asynchronous matmuls
warp_specialized_sm90      producer warps and two consumer warpgroups in ping-pong
"""

from __future__ import annotations

import dataclasses

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.attention import (
    heuristics,
    overlapped_sm90,
    portable,
    split_kv,
    warp_specialized_sm90,
)
from mlirfuse.kernels.attention.analysis import AttentionAnalysis, problem_of
from mlirfuse.kernels.attention.heuristics import (
    MAX_QUERY_PADDING,
    MIN_QUERIES_SM90,
    WARPGROUP_QUERIES,
)
from mlirfuse.kernels.attention.problem import (
    OVERLAPPED_SM90,
    PORTABLE,
    WARP_SPECIALIZED_SM90,
    AttentionConfig,
)
from mlirfuse.kernels.attention.sizes import padded_head
from mlirfuse.kernels.codegen.iteration_space import MAX_INDEX
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.plan import Plan
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import Target


def choose_config(analysis: AttentionAnalysis, target: Target) -> AttentionConfig:
    """The configuration of the nearest measured problem, fitted, or the computed default."""
    problem = problem_of(analysis)
    if analysis.sizes.is_static and heuristics.is_small(problem, target):
        return heuristics.portable_config(problem, target)
    config = lookup.choose(
        target,
        problem,
        AttentionConfig,
        heuristics.default_config,
        lambda entry: (
            entry.problem.operand_bits == problem.operand_bits
            and padded_head(entry.problem.head_size) == padded_head(problem.head_size)
        ),
    )
    return _fitted(config, analysis, target)


def _fitted(
    config: AttentionConfig, analysis: AttentionAnalysis, target: Target
) -> AttentionConfig:
    """A configuration that runs, with tiles that the queries fill."""
    problem = problem_of(analysis)
    plain = heuristics.portable_config(problem, target)
    if config.kernel == PORTABLE:
        block_m = min(config.block_m, heuristics.query_block(problem.queries))
        block_m = heuristics.filling_block(problem, block_m, target)
        return dataclasses.replace(config, block_m=block_m)
    if problem.queries < MIN_QUERIES_SM90 or not triton_compiler.has_gluon():
        return plain
    if _splits(analysis, plain, target) > 1:
        return plain
    specialized = config.kernel == WARP_SPECIALIZED_SM90
    if specialized and (
        _pads_too_much(analysis.sizes.queries) or _is_partial(analysis.sizes.keys, config)
    ):
        if problem.head_size > heuristics.MAX_OVERLAPPED_HEAD:
            return plain
        return dataclasses.replace(
            config, kernel=OVERLAPPED_SM90, block_m=WARPGROUP_QUERIES, block_n=64, num_warps=4
        )
    return config


def _pads_too_much(queries: int | None) -> bool:
    """Whether tiles of two warpgroups have too many empty rows."""
    if queries is None:
        return False
    two, one = (-(-queries // n) * n for n in (2 * WARPGROUP_QUERIES, WARPGROUP_QUERIES))
    return two > one * MAX_QUERY_PADDING


def _is_partial(keys: int | None, config: AttentionConfig) -> bool:
    """Whether the keys are less than one block: Triton 3.6 dies where there is no whole one."""
    return keys is not None and keys < config.block_n


def _splits(analysis: AttentionAnalysis, config: AttentionConfig, target: Target) -> int:
    return heuristics.num_kv_splits(analysis.sizes, config.block_m, analysis.causal, target)


def plan(analysis: AttentionAnalysis, config: AttentionConfig, target: Target) -> Plan | NoMatch:
    """Plans the kernel of a configuration, or the portable one where that cannot run.

    Raises:
      Unsupported: an op has no form in Triton.
      Conflict: prologue or epilogue have loops that the attention has not.
    """
    found = _plan(analysis, config, target)
    tensors = [v for kernel in found.kernels() for v in (*kernel.operands, *kernel.results)]
    largest = max(ops.num_elements(x) for x in tensors)
    if largest >= MAX_INDEX:
        return NoMatch(Reason.NOT_PROFITABLE, f"a tensor of {largest} elements")
    return found


def _plan(analysis: AttentionAnalysis, config: AttentionConfig, target: Target) -> Plan:
    if warp_specialized_sm90.can_run(analysis, config, target):
        return warp_specialized_sm90.plan(analysis, config, target)
    if overlapped_sm90.can_run(analysis, config, target):
        return overlapped_sm90.plan(analysis, config)
    if config.kernel != PORTABLE:
        config = heuristics.portable_config(problem_of(analysis), target)
    splits = _splits(analysis, config, target)
    if splits > 1:
        return split_kv.plan(analysis, config, splits, target)
    return portable.plan(analysis, config, target)
