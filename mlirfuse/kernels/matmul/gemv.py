"""GEMV without tensor cores: threads accumulate elementwise and reduce at the end."""

from __future__ import annotations

from mlirfuse.kernels.codegen.element_types import TYPES
from mlirfuse.kernels.matmul import tile
from mlirfuse.kernels.matmul.analysis import MatmulAnalysis, Part
from mlirfuse.kernels.matmul.problem import MatmulConfig
from mlirfuse.kernels.matmul.tile_program import plan_tiles
from mlirfuse.kernels.matmul.tile_space import KernelTiles, N, kernel_tiles
from mlirfuse.kernels.plan import Plan
from mlirfuse.targets.base import Target


def can_run(analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> bool:
    """Whether the kernel computes a region: as `tile`; each CTA has one row of A."""
    return tile.can_run(analysis, config, target)


def plan(analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> Plan:
    """Plans the kernel."""
    return plan_tiles(kernel_tiles(analysis, config), _accumulate)


def _accumulate(kernel: KernelTiles, part: Part) -> None:
    (accumulator,) = part
    config, kind = kernel.config, TYPES[kernel.analysis.accumulator_type]
    kernel.tiles.body.writer.line(
        f"accumulator0 = matmul.gemv({tile.operands(kernel, accumulator)}, {kernel.mask(N)}, "
        f"{kernel.analysis.k}, {config.block_n}, {config.block_k}, {config.num_stages}, {kind})"
    )
