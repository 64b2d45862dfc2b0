"""The kernels of the family, and the choice of one by a configuration.

weight_only        streamed weights of 4 or 8 bits, small M
persistent_sm90    warp-specialized persistent kernel for Hopper
gemv               M = 1, without tensor cores
split_k            small M, warps split K
parallel_split_k   long K and few tiles, CTAs split K
tile               one tile per CTA, the general kernel
fused_loop         prologue in the loop over K, or several accumulators

Those of operands in memory but for gemv may read copies of them with aligned rows (aligned_copies).
"""

from __future__ import annotations

from typing import Protocol

from mlirfuse.kernels.matmul import (
    fused_loop,
    gemv,
    parallel_split_k,
    persistent_sm90,
    split_k,
    tile,
    weight_only,
)
from mlirfuse.kernels.matmul.analysis import MatmulAnalysis
from mlirfuse.kernels.matmul.problem import MatmulConfig
from mlirfuse.kernels.plan import Plan
from mlirfuse.targets.base import Target


class Strategy(Protocol):
    """A module that plans one kind of kernel."""

    def can_run(self, analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> bool:
        """Whether the kernel computes a region."""

    def plan(self, analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> Plan:
        """Plans the kernel of a region that it `can_run`."""


def plan(analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> Plan:
    """Plans the kernel of a region with a selected configuration."""
    strategies = _strategies(config)
    found = next(each for each in strategies if each.can_run(analysis, config, target))
    return found.plan(analysis, config, target)


def _strategies(config: MatmulConfig) -> tuple[Strategy, ...]:
    """The kernels that a configuration may mean, in order; the first that can run is taken."""
    if config.weight_streaming:
        return (weight_only,)
    if config.consumer_warpgroups:
        return (persistent_sm90,)
    if config.k_splits > 1:
        return (parallel_split_k, tile, fused_loop)
    if config.block_m == 1:
        return (gemv, fused_loop)
    return (split_k, tile, fused_loop) if config.split_k > 1 else (tile, fused_loop)
