"""Implicit GEMM with one tile per CTA, in Triton: any layout, number of channels and target.

Masked loads give the zeros around the image.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirfuse.kernels.codegen.iteration_space import MAX_INDEX, known_product, power_of_two
from mlirfuse.kernels.codegen.tile_writer import Launch
from mlirfuse.kernels.convolution.analysis import Analysis, problem_of
from mlirfuse.kernels.convolution.problem import ConvolutionConfig
from mlirfuse.kernels.convolution.taps import Taps
from mlirfuse.kernels.convolution.tile import ENTRY, M, N, Tile, tile_of
from mlirfuse.kernels.matmul.placement import tile_placement
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.structured.ir import ops

MIN_BLOCK_K = 16
"""K of a matrix instruction of 16-bit operands."""


def plan(analysis: Analysis, config: ConvolutionConfig) -> Plan:
    """Plans the kernel of a convolution.

    Raises:
      Unsupported, Conflict: the region has an op that the kernel cannot compute.
    """
    tile = tile_of(analysis, config)
    wide = analysis.is_dynamic or analysis.max_elements >= MAX_INDEX
    tile.tiles.body.writer.write(tile_placement(tile.space, M, N, config, wide=wide))
    _write_accumulation(tile)
    tile.write_epilogue()
    return tile.tiles.plan(
        ENTRY,
        tile.tiles.body.writer.lines,
        analysis.results,
        tile.note,
        launch=Launch(
            grid=(
                Extent(
                    known_product(analysis.pixels),
                    config.block_m,
                    (0,) if analysis.is_dynamic else (),
                    -(-analysis.out_channels // config.block_n),
                ),
                Extent(1),
                Extent(1),
            ),
            first=(M, 0),
            num_warps=config.num_warps,
            num_stages=config.num_stages,
        ),
        problem=problem_of(analysis),
    )


def _write_accumulation(tile: Tile) -> None:
    """Writes the loop over K."""
    config, writer, groups = tile.config, tile.tiles.body.writer, tile.space.groups
    taps = Taps.of(tile.analysis)
    block_k = min(config.block_k, max(MIN_BLOCK_K, power_of_two(taps.k_span)))
    k_blocks = -(-taps.k_span // block_k) * taps.k_spans
    in_image = taps.write_origins(writer, tile.space, tile.axes)
    writer.line(f"filter_offset = offs_n * {_filter_stride(tile.analysis)}")
    writer.line(f"accumulator0 = tl.zeros([{config.block_m}, {config.block_n}], tl.float32)")
    # Unrolled, each block knows at compile time which elements of a row of taps it has.
    blocks = "range" if taps.row is None else "tl.static_range"
    with writer.indented(f"for k_block in {blocks}(0, {k_blocks}):"):
        taps.write_k(writer, block_k)
        mask_k = f"(offs_k < {taps.k_span})" if taps.k_span % block_k else ""
        mask_a = [groups[M].mask, *in_image, f"{mask_k}[None, :]" if mask_k else ""]
        mask_b = [groups[N].mask, f"{mask_k}[:, None]" if mask_k else ""]
        offset = taps.image_offset("[None, :]")
        writer.line(f"a = tl.load({tile.image} + (image_offset + {offset}){_mask(mask_a)})")
        if taps.row is not None and taps.row.loaded != taps.row.elements:
            # An element next to the taps, loaded with a pair, may be NaN or infinite.
            writer.line("a = tl.where(mask_row[None, :], a, 0)")
            mask_b.append("mask_row[:, None]")
        offset = taps.filter_offset("[:, None]")
        writer.line(f"b = tl.load({tile.filter} + (filter_offset + {offset}){_mask(mask_b)})")
        writer.line("accumulator0 = tl.dot(a, b, accumulator0)")


def _filter_stride(analysis: Analysis) -> int:
    """Elements from one output channel of the filter to the next."""
    dim = analysis.filter_loops.index(analysis.loops.n_loop)
    return known_product(ops.shape(analysis.filter)[dim + 1 :])


def _mask(conditions: Sequence[str]) -> str:
    """The mask arguments of a load; an empty condition always holds."""
    found = " & ".join(condition for condition in conditions if condition)
    return f", mask={found}, other=0" if found else ""
