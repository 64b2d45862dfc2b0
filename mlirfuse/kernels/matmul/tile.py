"""One tile per CTA with `tl.dot`, for operands in memory: the general kernel."""

from __future__ import annotations

from mlirfuse.kernels.codegen.dot_precision import precision_argument
from mlirfuse.kernels.codegen.element_types import TYPES
from mlirfuse.kernels.matmul import aligned_copies
from mlirfuse.kernels.matmul.analysis import Accumulator, MatmulAnalysis, Part
from mlirfuse.kernels.matmul.problem import MatmulConfig
from mlirfuse.kernels.matmul.tile_program import plan_tiles
from mlirfuse.kernels.matmul.tile_space import KernelTiles, M, N, kernel_tiles, precision_of
from mlirfuse.kernels.plan import Plan
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import Target


def can_run(analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> bool:
    """Whether the kernel computes a region: operands in memory, one accumulator per tile."""
    kinds = {ops.element_type(v) for v in ops.inputs(analysis.contraction)}
    return not analysis.prologue and analysis.accumulators == 1 and kinds == {analysis.operand_type}


def plan(analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> Plan:
    """Plans the kernel, with the one that copies operands where the configuration has copies."""
    precision = precision_of(analysis, config, target)
    copies = aligned_copies.copies_of(analysis, config)
    kernel = kernel_tiles(analysis, config, precision=precision, copies=copies)
    read = [*copies.values()]
    text = aligned_copies.text_with(before=aligned_copies.arguments(read))
    return aligned_copies.reading(read, plan_tiles(kernel, _accumulate, text=text))


def _accumulate(kernel: KernelTiles, part: Part) -> None:
    (accumulator,) = part
    config, kind = kernel.config, TYPES[kernel.analysis.accumulator_type]
    kernel.tiles.body.writer.line(
        f"accumulator0 = matmul.tile({operands(kernel, accumulator)}, "
        f"{masks(kernel, accumulator)}, {bounds(kernel, accumulator)}, {config.block_m}, "
        f"{config.block_n}, {config.block_k}, {kind}{precision_argument(kernel.precision)})"
    )


def masks(kernel: KernelTiles, accumulator: Accumulator) -> str:
    """The masks of the rows of A and of the columns of B, as arguments.

    Where these are the innermost dimension of a copy, the zeros behind them are loaded, too: a mask
    that ends between two vectors would make all loads narrow.
    """
    found = []
    for index, group in ((accumulator.a, M), (accumulator.b, N)):
        copy, mask = kernel.copies.get(index), kernel.mask(group)
        index_map, inner_k = kernel.analysis.maps[index], kernel.analysis.loops.inner_k
        if copy is not None and copy.ordered(index_map)[-1] != inner_k:
            flat = kernel.tiles.space.groups[group].flat
            mask = f"{flat} < {copy.pitch}" if mask != "None" else mask
        found.append(mask)
    return ", ".join(found)


def bounds(kernel: KernelTiles, accumulator: Accumulator) -> str:
    """The contracted elements, and those that A and B have along K, as arguments."""
    analysis, copies = kernel.analysis, kernel.copies
    known = [aligned_copies.bound_of_k(analysis, copies, n) for n in (accumulator.a, accumulator.b)]
    return ", ".join(map(str, (analysis.k, *known)))


def operands(kernel: KernelTiles, accumulator: Accumulator) -> str:
    """Pointers to the first elements along K of A and B, and their K strides, as arguments."""
    analysis, tiles, k_loop = kernel.analysis, kernel.tiles, kernel.analysis.loops.inner_k
    pointers, strides = [], []
    for index in (accumulator.a, accumulator.b):
        value, index_map = analysis.operand(index), analysis.maps[index]
        axes = tuple(None if n is None or n == k_loop else kernel.axes[n] for n in index_map)
        # A vector is the first row of a tile.
        vector = " + offs_m * 0" if index == accumulator.a and analysis.loops.m is None else ""
        copy = kernel.copies.get(index)
        if copy is None:
            pointers.append(tiles.element_pointers(value, axes) + vector)
            strides.append(tiles.stride(value, index_map.index(k_loop)))
        else:
            pointers.append(copy.pointers(tiles.space, axes) + vector)
            strides.append(copy.stride(index_map.index(k_loop)))
    return ", ".join([*pointers, *strides])
