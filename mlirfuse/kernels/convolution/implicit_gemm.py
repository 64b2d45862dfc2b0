"""Implicit GEMM with one tile per CTA, in Triton: any layout, number of channels and target.

Masked loads give the zeros around the image.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from mlirfuse.kernels.codegen.dot_precision import (
    dot_precision,
    of_convolution,
    precision_argument,
    uses_warpgroups,
)
from mlirfuse.kernels.codegen.iteration_space import (
    MAX_INDEX,
    known_product,
    power_of_two,
    product_text,
)
from mlirfuse.kernels.codegen.tile_writer import Launch
from mlirfuse.kernels.convolution.analysis import Analysis, problem_of
from mlirfuse.kernels.convolution.positions import class_sizes, write_positions
from mlirfuse.kernels.convolution.problem import ConvolutionConfig
from mlirfuse.kernels.convolution.residues import CLASS, Residues
from mlirfuse.kernels.convolution.taps import Taps
from mlirfuse.kernels.convolution.tile import ENTRY, M, N, Tile, position_strides, tile_of
from mlirfuse.kernels.matmul.aligned_copies import AlignedCopy, arguments, reading, text_with
from mlirfuse.kernels.matmul.placement import tile_placement
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import convolutions
from mlirfuse.targets.base import Target

MIN_BLOCK_K = 16
"""K of a matrix instruction of 16-bit operands."""


@dataclasses.dataclass(frozen=True, slots=True)
class Products:
    """How blocks are multiplied.

    Attributes:
      precision: input precision of `tl.dot`; empty where it has no choice.
      rounded: whether both operands are rounded to TF32 before, in registers.
    """

    precision: str
    rounded: bool


def products_of(analysis: Analysis, config: ConvolutionConfig, target: Target) -> Products:
    """How a kernel multiplies blocks; a contraction, as of a filter of 1x1, may be one of matmuls.

    Warpgroups read operands in shared memory, where they are as they are in memory: those of TF32
    are rounded where they are computed, by `tf32_rounding_rewrite`.
    """
    word = ""
    if convolutions.is_from_convolution(analysis.op):
        word = of_convolution(convolutions.operations(analysis.op), target)
    precision = dot_precision(ops.element_type(analysis.image), target, word=word)
    in_registers = not uses_warpgroups(config.block_m, config.num_warps, target)
    return Products(precision, precision == "tf32" and in_registers and target.name == "cuda")


def plan(analysis: Analysis, config: ConvolutionConfig, target: Target) -> Plan:
    """Plans the kernel of a convolution.

    Raises:
      Unsupported, Conflict: the region has an op that the kernel cannot compute.
    """
    tile = tile_of(analysis, config)
    wide = analysis.is_dynamic or analysis.max_elements >= MAX_INDEX
    places = write_placement(tile, wide=wide)
    products = products_of(analysis, config, target)
    write_accumulation(tile, places, products, f"0, {class_blocks(analysis, config)}")
    tile.write_outputs()
    made = tile.tiles.plan(
        ENTRY,
        tile.tiles.body.writer.lines,
        analysis.results,
        tile.note,
        launch=Launch(
            grid=grid(analysis, config),
            first=(M, 0),
            num_warps=config.num_warps,
            num_stages=config.num_stages,
        ),
        problem=problem_of(analysis),
        text=text_with(before=arguments(copies_of(analysis))),
    )
    return reading(copies_of(analysis), made)


def copies_of(analysis: Analysis) -> list[AlignedCopy]:
    """The copies that the kernel reads."""
    return [copy for copy in (analysis.filter_copy, analysis.image_copy) if copy is not None]


def grid(analysis: Analysis, config: ConvolutionConfig) -> tuple[Extent, Extent, Extent]:
    """The CTAs: tiles of the result, along y groups of channels."""
    return (
        Extent(
            known_product(class_sizes(analysis.pixels, position_strides(analysis))),
            config.block_m,
            (0,) if analysis.is_dynamic else (),
            -(-analysis.out_channels // config.block_n) * Residues.of(analysis).count,
        ),
        Extent(known_product(analysis.groups)),
        Extent(1),
    )


def k_blocks(analysis: Analysis, config: ConvolutionConfig) -> int:
    """The number of blocks of K."""
    taps = Taps.of(analysis)
    return _blocks_of_span(taps, config) * taps.k_spans


def class_blocks(analysis: Analysis, config: ConvolutionConfig) -> str:
    """The number of blocks of K of the residue class of a CTA, as source."""
    taps = Taps.of(analysis)
    if taps.packed or not taps.residues.dims:
        return str(k_blocks(analysis, config))
    blocks = _blocks_of_span(taps, config)
    return taps.class_spans if blocks == 1 else f"{blocks} * {taps.class_spans}"


def _blocks_of_span(taps: Taps, config: ConvolutionConfig) -> int:
    """The number of blocks of a span of K."""
    return -(-taps.k_span // _block_k(taps, config))


def _block_k(taps: Taps, config: ConvolutionConfig) -> int:
    """Elements of a block of K."""
    return min(config.block_k, max(MIN_BLOCK_K, power_of_two(taps.k_span)))


def write_placement(tile: Tile, *, wide: bool) -> dict[int, str]:
    """Writes the indices of a CTA's tile, and returns those of positions in a residue class."""
    analysis, config, space, writer = tile.analysis, tile.config, tile.space, tile.tiles.body.writer
    if analysis.groups:
        writer.line(f"group = tl.program_id(1){'.to(tl.int64)' if wide else ''}")
    strides, residues = position_strides(analysis), Residues.of(analysis)
    if not strides:
        writer.write(tile_placement(space, M, N, config, wide=wide))
        return {}
    # CTAs of all classes of the same positions run together: they write parts of the same lines.
    writer.line(f"{CLASS} = tl.program_id(0) % {residues.count}")
    residues.write(writer)
    size = product_text(class_sizes(analysis.pixels, strides))
    tiles_n = -(-analysis.out_channels // config.block_n)
    writer.line(
        f"pid_m, pid_n = library.swizzle_tile(tl.program_id(0) // {residues.count},"
        f" tl.cdiv({size}, {config.block_m}), {tiles_n}, {config.group_m})"
    )
    cast = ".to(tl.int64)" if wide else ""
    block = f"tl.arange(0, {config.block_m})"
    ordinals = f"(pid_m * {config.block_m} + {block}){cast}[:, None]"
    places = write_positions(writer, space, M, ordinals, strides)
    offs_n = space.groups[N].flat
    writer.line(f"{offs_n} = (pid_n * {config.block_n} + tl.arange(0, {config.block_n}))[None, :]")
    writer.write(space.inside(N))
    return {analysis.loops.m_loops[axis]: name for axis, name in places.items()}


def write_accumulation(
    tile: Tile, places: Mapping[int, str], products: Products, blocks_of_k: str
) -> None:
    """Writes the loop over blocks of K.

    Args:
      tile: the tile of a CTA.
      places: loop that residue classes divide -> the name of its place in the class.
      products: how blocks are multiplied.
      blocks_of_k: the first block and the end, as arguments of a range.
    """
    config, writer, groups = tile.config, tile.tiles.body.writer, tile.space.groups
    taps = Taps.of(tile.analysis)
    block_k = _block_k(taps, config)
    in_image = taps.write_origins(writer, tile.space, tile.axes, places)
    parts = [
        (tile.axes[loop], known_product(tile.analysis.filter_shape[dim + 1 :]))
        for dim, loop in enumerate(tile.analysis.filter_loops)
        if loop is not None and loop in tile.axes
    ]
    # Without output channels the filter is the first column of B.
    writer.line(f"filter_offset = {tile.space.linear_index(parts) or groups[N].flat}")
    writer.line(f"accumulator0 = tl.zeros([{config.block_m}, {config.block_n}], tl.float32)")
    # Unrolled, each block knows at compile time which elements of a row of taps it has.
    blocks = "range" if taps.row is None else "tl.static_range"
    with writer.indented(f"for k_block in {blocks}({blocks_of_k}):"):
        taps.write_k(writer, block_k)
        mask_k = f"(offs_k < {taps.k_span})" if taps.k_span % block_k else ""
        of_a = _mask_of_k(tile.analysis.image_copy, mask_k, "[None, :]")
        of_b = _mask_of_k(tile.analysis.filter_copy, mask_k, "[:, None]")
        mask_a, mask_b = [groups[M].mask, *in_image, of_a], [groups[N].mask, of_b]
        mask_a += taps.tap_masks("[None, :]", "offs_m")
        mask_b += taps.tap_masks("[:, None]", "offs_n")
        offset = taps.image_offset("[None, :]")
        writer.line(f"a = tl.load({tile.image} + (image_offset + {offset}){_mask(mask_a)})")
        if taps.row is not None and taps.row.loaded != taps.row.elements:
            # An element next to the taps, loaded with a pair, may be NaN or infinite.
            writer.line("a = tl.where(mask_row[None, :], a, 0)")
            mask_b.append("mask_row[:, None]")
        offset = taps.filter_offset("[:, None]")
        writer.line(f"b = tl.load({tile.filter} + (filter_offset + {offset}){_mask(mask_b)})")
        a, b = ("library.nearest_tf32(a)", "library.nearest_tf32(b)") if products.rounded else "ab"
        precision = precision_argument(products.precision)
        writer.line(f"accumulator0 = tl.dot({a}, {b}, accumulator0{precision})")


def _mask_of_k(copy: AlignedCopy | None, mask_k: str, suffix: str) -> str:
    """The condition that an element of K is in an operand, or in the zeros behind a copied row.

    Args:
      copy: the copy of the operand.
      mask_k: the condition without one; empty where it always holds.
      suffix: makes a tile of it.
    """
    inside = mask_k if copy is None else f"(offs_k < {copy.pitch})"
    return f"{inside}{suffix}" if mask_k else ""


def _mask(conditions: Sequence[str]) -> str:
    """The mask arguments of a load; an empty condition always holds."""
    found = " & ".join(condition for condition in conditions if condition)
    return f", mask={found}, other=0" if found else ""
