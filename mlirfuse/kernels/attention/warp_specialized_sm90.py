"""Flash attention on Hopper with warp specialization and ping-pong.

Two consumer warpgroups of 64 queries each take turns in starting matmuls, so that those of one run
under the softmax of the other; four producer warps load for both. CTAs are persistent. The kernel
is `device/attention_warp_specialized_sm90.py`.
"""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.attention import sm90_source
from mlirfuse.kernels.attention.analysis import AttentionAnalysis, problem_of
from mlirfuse.kernels.attention.heuristics import WARPGROUP_QUERIES
from mlirfuse.kernels.attention.problem import WARP_SPECIALIZED_SM90, AttentionConfig
from mlirfuse.kernels.codegen.tile_writer import returned
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.targets.base import Target

CONSUMER_WARPS = 2 * sm90_source.WARPS_PER_WARPGROUP


def can_run(analysis: AttentionAnalysis, config: AttentionConfig, target: Target) -> bool:
    """Whether the kernel can compute an attention with this configuration."""
    return (
        config.kernel == WARP_SPECIALIZED_SM90
        and config.block_m == 2 * WARPGROUP_QUERIES
        and config.num_warps == CONSUMER_WARPS
        and sm90_source.can_run(analysis, target)
    )


def plan(analysis: AttentionAnalysis, config: AttentionConfig, target: Target) -> Plan:
    """Plans the kernel of an attention that `can_run`: at most one CTA for each SM."""
    # The default partition has one warpgroup; the kernel starts the others.
    launched = dataclasses.replace(config, num_warps=sm90_source.WARPS_PER_WARPGROUP)
    program, operands = sm90_source.sm90_program(
        analysis, launched, "attention_warp_specialized_sm90"
    )
    dynamic = analysis.sizes.dynamic
    num_ctas = gpu_of(target).num_sms
    if not dynamic:
        num_ctas = min(num_ctas, analysis.query_tiles(config.block_m).count(()))
    return Plan(
        program,
        operands,
        tuple(returned(analysis.region)),
        (Extent(num_ctas), Extent(1), Extent(1)),
        analysis.dynamic_sizes,
        None if dynamic else problem_of(analysis),
    )
