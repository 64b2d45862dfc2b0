"""One tile per CTA with `tl.dot`, for operands in memory: the general kernel."""

from __future__ import annotations

from mlirfuse.kernels.codegen.dot_precision import dot_precision, precision_argument
from mlirfuse.kernels.codegen.element_types import TYPES
from mlirfuse.kernels.matmul.analysis import Accumulator, MatmulAnalysis, Part
from mlirfuse.kernels.matmul.problem import MatmulConfig
from mlirfuse.kernels.matmul.tile_program import plan_tiles
from mlirfuse.kernels.matmul.tile_space import KernelTiles, M, N, kernel_tiles
from mlirfuse.kernels.plan import Plan
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import Target


def can_run(analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> bool:
    """Whether the kernel computes a region: operands in memory, one accumulator per tile."""
    kinds = {ops.element_type(v) for v in ops.inputs(analysis.contraction)}
    return not analysis.prologue and analysis.accumulators == 1 and kinds == {analysis.operand_type}


def plan(analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> Plan:
    """Plans the kernel."""
    precision = dot_precision(analysis.operand_type, target)
    return plan_tiles(kernel_tiles(analysis, config, precision=precision), _accumulate)


def _accumulate(kernel: KernelTiles, part: Part) -> None:
    (accumulator,) = part
    a, b, a_stride, b_stride = operands(kernel, accumulator)
    config, kind = kernel.config, TYPES[kernel.analysis.accumulator_type]
    kernel.tiles.body.writer.line(
        f"accumulator0 = matmul.tile({a}, {b}, {a_stride}, {b_stride}, {kernel.mask(M)}, "
        f"{kernel.mask(N)}, {kernel.analysis.k}, {config.block_m}, {config.block_n}, "
        f"{config.block_k}, {kind}{precision_argument(kernel.precision)})"
    )


def operands(kernel: KernelTiles, accumulator: Accumulator) -> tuple[str, str, str, str]:
    """Expressions of pointers to the first elements along K of A and B, and of their K strides."""
    analysis, tiles, k_loop = kernel.analysis, kernel.tiles, kernel.analysis.loops.inner_k
    pointers, strides = [], []
    for index in (accumulator.a, accumulator.b):
        value, index_map = analysis.operand(index), analysis.maps[index]
        axes = tuple(None if n is None or n == k_loop else kernel.axes[n] for n in index_map)
        # A vector is the first row of a tile.
        vector = index == accumulator.a and analysis.loops.m is None
        pointers.append(tiles.element_pointers(value, axes) + (" + offs_m * 0" if vector else ""))
        strides.append(tiles.stride(value, index_map.index(k_loop)))
    return pointers[0], pointers[1], strides[0], strides[1]
