"""Flash attention on Hopper without warp specialization: matmuls run under the softmax.

One warpgroup computes 64 queries, and loads its own blocks with `cp.async`; several CTAs share an
SM. The kernel is `device/attention_overlapped_sm90.py`.
"""

from __future__ import annotations

from mlirfuse.kernels.attention import sm90_source
from mlirfuse.kernels.attention.analysis import AttentionAnalysis, problem_of
from mlirfuse.kernels.attention.heuristics import MAX_OVERLAPPED_HEAD, WARPGROUP_QUERIES
from mlirfuse.kernels.attention.problem import OVERLAPPED_SM90, AttentionConfig
from mlirfuse.kernels.codegen.tile_writer import returned
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.targets.base import Target


def can_run(analysis: AttentionAnalysis, config: AttentionConfig, target: Target) -> bool:
    """Whether the kernel can compute an attention with this configuration."""
    return (
        config.kernel == OVERLAPPED_SM90
        and config.block_m == WARPGROUP_QUERIES
        and config.num_warps == sm90_source.WARPS_PER_WARPGROUP
        and analysis.sizes.v_head_size <= MAX_OVERLAPPED_HEAD
        and sm90_source.can_run(analysis, target)
    )


def plan(analysis: AttentionAnalysis, config: AttentionConfig) -> Plan:
    """Plans the kernel of an attention that `can_run`."""
    program, operands = sm90_source.sm90_program(analysis, config, "attention_overlapped_sm90")
    return Plan(
        program,
        operands,
        tuple(returned(analysis.region)),
        (analysis.query_tiles(config.block_m), Extent(1), Extent(1)),
        analysis.dynamic_sizes,
        None if analysis.sizes.dynamic else problem_of(analysis),
    )
