"""The kernels of the family: which one a configuration means.

weight_only        streamed weights of 4 or 8 bits, few rows
persistent_sm90    warp-specialized persistent kernel for Hopper
fused_loop         prologue in the loop over K, or several accumulators
gemv               one row without tensor cores
split_k            few rows, warps split K
tile               one tile per CTA, the general kernel
"""

from __future__ import annotations

from types import ModuleType

from mlirfuse.kernels.matmul import (
    fused_loop,
    gemv,
    persistent_sm90,
    split_k,
    tile,
    weight_only,
)
from mlirfuse.kernels.matmul.analysis import MatmulAnalysis
from mlirfuse.kernels.matmul.problem import MatmulConfig


def strategy(analysis: MatmulAnalysis, config: MatmulConfig) -> ModuleType:
    """The module whose `plan` makes the kernel of a region with a selected configuration."""
    if config.weight_streaming:
        return weight_only
    if config.consumer_warpgroups:
        return persistent_sm90
    if analysis.prologue or analysis.accumulators > 1:
        return fused_loop
    if config.block_m == 1:
        return gemv
    return split_k if config.split_k > 1 else tile
