"""Intra-CTA split-K for a small M: each warp accumulates a part of every block of K.

A small M fits one matrix instruction: warps that split N instead would each execute all of K
serially.
"""

from __future__ import annotations

from mlirfuse.kernels.codegen.dot_precision import dot_precision, precision_argument
from mlirfuse.kernels.matmul import aligned_copies, tile
from mlirfuse.kernels.matmul.analysis import MatmulAnalysis, Part
from mlirfuse.kernels.matmul.problem import MatmulConfig
from mlirfuse.kernels.matmul.tile_program import plan_tiles
from mlirfuse.kernels.matmul.tile_space import KernelTiles, kernel_tiles, word_of
from mlirfuse.kernels.plan import Plan
from mlirfuse.targets.base import Target


def can_run(analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> bool:
    """Whether the kernel computes a region: as `tile`, with accumulators of f32."""
    return tile.can_run(analysis, config, target) and analysis.accumulator_type == "f32"


def plan(analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> Plan:
    """Plans the kernel."""
    precision = dot_precision(analysis.operand_type, target, word=word_of(analysis, target))
    copies = aligned_copies.copies_of(analysis, config)
    kernel = kernel_tiles(analysis, config, precision=precision, copies=copies)
    read = [*copies.values()]
    text = aligned_copies.text_with(before=aligned_copies.arguments(read))
    return aligned_copies.reading(read, plan_tiles(kernel, _accumulate, text=text))


def _accumulate(kernel: KernelTiles, part: Part) -> None:
    (accumulator,) = part
    config = kernel.config
    kernel.tiles.body.writer.line(
        f"accumulator0 = matmul.split_k({tile.operands(kernel, accumulator)}, "
        f"{tile.masks(kernel, accumulator)}, {tile.bounds(kernel, accumulator)}, "
        f"{config.block_m}, {config.block_n}, {config.block_k}, "
        f"{config.split_k}{precision_argument(kernel.precision)})"
    )
