"""Parts of K that are the rows of B with one alignment, which CTAs read in whole vectors.

    a row of 10513 elements of f16 starts 2 bytes behind a multiple of 16 bytes further than the one
    before; rows 0, 8, 16, ... start at multiples, rows 1, 9, 17, ... 2 bytes behind them, and so on

The rows of a class are a matrix whose rows are aligned, but for the first elements of its first
one. The tiles of a CTA begin at a multiple: they have some columns in front of the first one, which
belong to the row before and are not stored. Elements of a row that end it within a vector of other
columns are loaded with these, but for the last row of B, behind which there is nothing.

The time of few rows of A is that of the loads of B, which are narrow where rows are not aligned,
and a copy of B takes as long as three loads of it.
"""

from __future__ import annotations

import math

from mlirfuse.kernels.codegen.dot_precision import precision_argument
from mlirfuse.kernels.codegen.element_types import TYPES
from mlirfuse.kernels.codegen.iteration_space import known_product
from mlirfuse.kernels.matmul import tile
from mlirfuse.kernels.matmul.aligned_copies import is_copyable
from mlirfuse.kernels.matmul.analysis import MatmulAnalysis
from mlirfuse.kernels.matmul.cost_model import split_size
from mlirfuse.kernels.matmul.problem import VECTOR_BYTES, MatmulConfig
from mlirfuse.kernels.matmul.tile_space import KernelTiles, M
from mlirfuse.structured.ir import ops


def can_run(analysis: MatmulAnalysis) -> bool:
    """Whether B is a whole tensor in memory, contiguous along N, whose matrices are aligned."""
    if analysis.prologue or analysis.accumulators != 1 or analysis.grouped:
        return False
    value, index_map = analysis.operand(analysis.first.b), analysis.maps[analysis.first.b]
    if not is_copyable(value) or index_map[-2:] != (analysis.loops.inner_k, analysis.loops.n):
        return False
    matrices = known_product(ops.shape(value)[:-2])
    return matrices == 1 or analysis.k * analysis.n % vector_elements(analysis) == 0


def vector_elements(analysis: MatmulAnalysis) -> int:
    """Elements of B in the widest load."""
    return VECTOR_BYTES * 8 // ops.element_bits(analysis.operand(analysis.first.b))


def tiles_along_n(analysis: MatmulAnalysis, config: MatmulConfig) -> int:
    """Tiles along N, with the columns in front of the first one."""
    before = vector_elements(analysis) - math.gcd(vector_elements(analysis), analysis.n)
    return -(-(analysis.n + before) // config.block_n)


def placement(kernel: KernelTiles) -> list[str]:
    """The lines that compute the batch, the part, and the indices of a CTA's tile."""
    analysis, config = kernel.analysis, kernel.config
    (block_m, block_n), n = (config.block_m, config.block_n), analysis.n
    return [
        "batch = tl.program_id(1)",
        f"pid_m, pid_n = library.swizzle_tile(tl.program_id(0), {-(-(analysis.m or 1) // block_m)},"
        f" {tiles_along_n(analysis, config)}, {config.group_m})",
        f"offs_m = (pid_m * {block_m} + tl.arange(0, {block_m}))[:, None]",
        f"offs_n = (pid_n * {block_n} + tl.arange(0, {block_n}))[None, :]",
        *kernel.tiles.space.inside(M),
        "split = tl.program_id(2)",
        f"row_class = split % {config.row_classes}",
        f"before = row_class * {n} % {vector_elements(analysis)}",
    ]


def write_part(kernel: KernelTiles) -> None:
    """Writes the accumulator of a part, and its store."""
    analysis, config = kernel.analysis, kernel.config
    writer, size, n = kernel.tiles.body.writer, split_size(analysis.k, config), analysis.n
    mask = kernel.mask(M)
    writer.line(
        f"accumulator = matmul.part_of_class({tile.operands(kernel, analysis.first)}, {mask}, "
        f"offs_n, {n}, {analysis.k}, row_class, before, {config.row_classes}, "
        f"{vector_elements(analysis)}, split // {config.row_classes} * {size}, {size}, "
        f"{config.block_m}, {config.block_n}, {config.block_k}, "
        f"{TYPES['f32']}{precision_argument(kernel.precision)})"
    )
    rows = "" if mask == "None" else f" & {mask}"
    batches = known_product(analysis.batch)
    writer.line(
        f"tl.store(y0 + ((split * {batches} + batch) * {analysis.m} + offs_m) * {n} + offs_n"
        f" - before, accumulator, mask=(offs_n >= before) & (offs_n < {n} + before){rows})"
    )
