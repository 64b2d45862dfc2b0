"""Intra-CTA split-K for a small M: each warp accumulates a part of every block of K.

A small M fits one matrix instruction: warps that split N instead would each execute all of K
serially.
"""

from __future__ import annotations

from mlirfuse.kernels.codegen.dot_precision import dot_precision, precision_argument
from mlirfuse.kernels.matmul import tile
from mlirfuse.kernels.matmul.analysis import MatmulAnalysis, Part
from mlirfuse.kernels.matmul.problem import MatmulConfig
from mlirfuse.kernels.matmul.tile_program import plan_tiles
from mlirfuse.kernels.matmul.tile_space import KernelTiles, M, N, kernel_tiles
from mlirfuse.kernels.plan import Plan
from mlirfuse.targets.base import Target


def can_run(analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> bool:
    """Whether the kernel computes a region: as `tile`, with accumulators of f32."""
    return tile.can_run(analysis, config, target) and analysis.accumulator_type == "f32"


def plan(analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> Plan:
    """Plans the kernel."""
    precision = dot_precision(analysis.operand_type, target)
    return plan_tiles(kernel_tiles(analysis, config, precision=precision), _accumulate)


def _accumulate(kernel: KernelTiles, part: Part) -> None:
    (accumulator,) = part
    a, b, a_stride, b_stride = tile.operands(kernel, accumulator)
    config = kernel.config
    kernel.tiles.body.writer.line(
        f"accumulator0 = matmul.split_k({a}, {b}, {a_stride}, {b_stride}, {kernel.mask(M)}, "
        f"{kernel.mask(N)}, {kernel.analysis.k}, {config.block_m}, {config.block_n}, "
        f"{config.block_k}, {config.split_k}{precision_argument(kernel.precision)})"
    )
