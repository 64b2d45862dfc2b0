"""Split-K of an implicit GEMM: each CTA accumulates some blocks of K, a second kernel adds them.

conv_kernel     scratch[split] = the taps and channels of a part of K
conv_kernel     the sum of the splits, and the epilogue

A small image with many channels has a long K and few tiles: most of the device would be idle.
"""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.codegen.iteration_space import MAX_INDEX, known_product
from mlirfuse.kernels.codegen.tile_writer import Launch
from mlirfuse.kernels.convolution import implicit_gemm
from mlirfuse.kernels.convolution.analysis import Analysis, problem_of
from mlirfuse.kernels.convolution.implicit_gemm import k_blocks, write_accumulation
from mlirfuse.kernels.convolution.problem import ConvolutionConfig
from mlirfuse.kernels.convolution.taps import Taps
from mlirfuse.kernels.convolution.tile import ENTRY, M, N, Tile, tile_of
from mlirfuse.kernels.matmul.aligned_copies import arguments, reading, text_with
from mlirfuse.kernels.matmul.parallel_split_k import (
    MERGE_BLOCK_N,
    MERGE_WARPS,
    PART,
    merge_block_m,
    write_sum_of_parts,
)
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.targets.base import Target


def can_run(analysis: Analysis, config: ConvolutionConfig) -> bool:
    """Whether the kernels compute a convolution: static, K in equal blocks."""
    return (
        config.k_splits > 1
        and not analysis.is_dynamic
        and Taps.of(analysis).row is None
        and config.k_splits * _elements(analysis) < MAX_INDEX
    )


def plan(analysis: Analysis, config: ConvolutionConfig, target: Target) -> Plan:
    """Plans both kernels.

    Raises:
      Unsupported, Conflict: the region has an op that the kernels cannot compute.
    """
    blocks = k_blocks(analysis, config)
    each = -(-blocks // config.k_splits)
    groups, pixels = known_product(analysis.groups), known_product(analysis.pixels)
    columns = groups * -(-analysis.out_channels // MERGE_BLOCK_N)
    block_m = merge_block_m(pixels, columns, target)
    partial = _partial(analysis, config, each, target)
    return _merge(analysis, -(-blocks // each), block_m, partial)


def _elements(analysis: Analysis) -> int:
    """Elements of the result."""
    sizes = (*analysis.pixels, *analysis.groups, analysis.out_channels)
    return known_product(sizes)


def _offsets(tile: Tile, split: str) -> str:
    """Offsets of a tile among the elements of all parts."""
    analysis = tile.analysis
    groups, pixels = known_product(analysis.groups), known_product(analysis.pixels)
    row = f"({split} * {groups} + group)" if analysis.groups else split
    return f"({row} * {pixels} + offs_m) * {analysis.out_channels} + offs_n"


def _mask(tile: Tile) -> str:
    masks = [mask for group in (M, N) if (mask := tile.space.groups[group].mask)]
    return " & ".join(masks) or "None"


def _partial(analysis: Analysis, config: ConvolutionConfig, each: int, target: Target) -> Plan:
    """The kernel whose CTAs have `each` blocks of K at most."""
    tile = tile_of(analysis, config)
    writer, blocks = tile.tiles.body.writer, k_blocks(analysis, config)
    places = implicit_gemm.write_placement(tile, wide=analysis.max_elements >= MAX_INDEX)
    writer.line("split = tl.program_id(2)")
    end = implicit_gemm.class_blocks(analysis, config)
    span = f"split * {each}, tl.minimum(split * {each} + {each}, {end})"
    write_accumulation(tile, places, implicit_gemm.products_of(analysis, config, target), span)
    writer.line(f"tl.store(y0 + {_offsets(tile, 'split')}, accumulator0, mask={_mask(tile)})")
    x, groups, _ = implicit_gemm.grid(analysis, config)
    splits, copies = Extent(-(-blocks // each)), implicit_gemm.copies_of(analysis)
    made = tile.tiles.plan(
        ENTRY,
        writer.lines,
        (),
        tile.note,
        launch=Launch(
            grid=(x, groups, splits),
            first=(M, 0),
            num_warps=config.num_warps,
            num_stages=config.num_stages,
        ),
        problem=None,
        text=text_with(before=arguments(copies), after=[("y0", PART)]),
    )
    program = dataclasses.replace(made.program, arguments=(*made.program.arguments, ("y0", PART)))
    scratch = ((splits, Extent(_elements(analysis))),)
    return reading(copies, dataclasses.replace(made, program=program, scratch=scratch))


def _merge(analysis: Analysis, splits: int, block_m: int, partial: Plan) -> Plan:
    """The kernel that adds the parts, and computes the epilogue."""
    config = ConvolutionConfig(block_m, MERGE_BLOCK_N, 1, MERGE_WARPS, 1)
    tile = tile_of(analysis, config)
    writer = tile.tiles.body.writer
    implicit_gemm.write_placement(tile, wide=analysis.max_elements >= MAX_INDEX)
    write_sum_of_parts(writer, block_m, splits, _offsets(tile, "split"), _mask(tile))
    tile.write_outputs()
    made = tile.tiles.plan(
        ENTRY,
        writer.lines,
        analysis.results,
        "Sum of the parts of K of a convolution.",
        launch=Launch(
            grid=implicit_gemm.grid(analysis, config), first=(M, 0), num_warps=MERGE_WARPS
        ),
        problem=problem_of(analysis),
        text=text_with(before=[("s0", PART)]),
    )
    program = dataclasses.replace(made.program, arguments=(("s0", PART), *made.program.arguments))
    return dataclasses.replace(made, program=program, before=partial)
