"""Split-K over CTAs: each accumulates a part of K, and a second kernel adds the parts.

matmul_kernel     scratch[split] = A[:, part] * B[part, :]
matmul_kernel     the sum of the splits, and the epilogue

With a long K and few tiles of the result most of the device would be idle.
"""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.codegen.dot_precision import precision_argument
from mlirfuse.kernels.codegen.element_types import TYPES
from mlirfuse.kernels.codegen.iteration_space import MAX_INDEX, known_product
from mlirfuse.kernels.codegen.tile_writer import Launch
from mlirfuse.kernels.codegen.writer import Writer
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.matmul import aligned_copies, row_classes, tile
from mlirfuse.kernels.matmul.aligned_copies import ENTRY, text_with
from mlirfuse.kernels.matmul.analysis import MatmulAnalysis, Part
from mlirfuse.kernels.matmul.cost_model import num_splits, split_size
from mlirfuse.kernels.matmul.problem import MatmulConfig
from mlirfuse.kernels.matmul.tile_program import placement_of, plan_tiles
from mlirfuse.kernels.matmul.tile_space import KernelTiles, M, N, kernel_tiles, precision_of
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.targets.base import Target

MIN_MERGE_BLOCK_M, MAX_MERGE_BLOCK_M = 2, 16
"""Rows of a tile of the kernel that adds the parts."""

MERGE_BLOCK_N, MERGE_WARPS = 64, 4
"""Columns of such a tile and its warps; the kernel is bound by memory."""

PART = "*fp32"
"""Type of the scratch tensor of the parts."""

PARTS_IN_FLIGHT = 8
"""Parts that a thread of the second kernel loads before it adds them."""


def can_run(analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> bool:
    """Whether the kernels compute a region: as `tile`, one result in f32 of a static size."""
    return (
        tile.can_run(analysis, config, target)
        and analysis.accumulator_type == "f32"
        and len(analysis.parts) == 1
        and analysis.m is not None
        and analysis.loops.m is not None
        and _elements(analysis, config) < MAX_INDEX
        and (config.row_classes == 1 or row_classes.can_run(analysis))
    )


def plan(analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> Plan:
    """Plans both kernels."""
    rows, batches = analysis.m or 1, known_product(analysis.batch)
    block_m = merge_block_m(rows, batches * -(-analysis.n // MERGE_BLOCK_N), target)
    return _merge(analysis, config, block_m, _partial(analysis, config, target))


def merge_block_m(rows: int, columns: int, target: Target) -> int:
    """The rows of a tile of the kernel that adds the parts: fewer where tiles leave SMs idle.

    Args:
      rows: M.
      columns: tiles along the other dimensions.
      target: the target.
    """
    block = MAX_MERGE_BLOCK_M
    while block > MIN_MERGE_BLOCK_M and -(-rows // block) * columns < gpu_of(target).num_sms:
        block //= 2
    return block


def _elements(analysis: MatmulAnalysis, config: MatmulConfig) -> int:
    return known_product((config.k_splits, *analysis.batch, analysis.m, analysis.n))


def _row(analysis: MatmulAnalysis, split: str) -> str:
    """Offsets of a tile among the elements of all parts."""
    batches = known_product(analysis.batch)
    return f"(({split} * {batches} + batch) * {analysis.m} + offs_m) * {analysis.n} + offs_n"


def _mask(kernel: KernelTiles) -> str:
    masks = [mask for mask in (kernel.mask(M), kernel.mask(N)) if mask != "None"]
    return " & ".join(masks) or "None"


def _partial(analysis: MatmulAnalysis, config: MatmulConfig, target: Target) -> Plan:
    """The kernel whose CTAs have a part of K each."""
    precision = precision_of(analysis, config, target)
    copies = aligned_copies.copies_of(analysis, config)
    kernel = kernel_tiles(analysis, config, precision=precision, copies=copies)
    writer, size = kernel.tiles.body.writer, split_size(analysis.k, config)
    tiles_n = -(-analysis.n // config.block_n)
    if config.row_classes > 1:
        writer.write(row_classes.placement(kernel))
        row_classes.write_part(kernel)
        tiles_n = row_classes.tiles_along_n(analysis, config)
    else:
        writer.write(placement_of(kernel))
        writer.line("split = tl.program_id(2)")
        writer.line(
            f"accumulator = matmul.part_of_k({tile.operands(kernel, analysis.first)}, "
            f"{tile.masks(kernel, analysis.first)}, {tile.bounds(kernel, analysis.first)}, "
            f"split * {size}, {size}, {config.block_m}, {config.block_n}, {config.block_k}, "
            f"{TYPES['f32']}{precision_argument(precision)})"
        )
        writer.line(f"tl.store(y0 + {_row(analysis, 'split')}, accumulator, mask={_mask(kernel)})")
    splits = num_splits(analysis.k, config)
    batches = Extent(known_product(analysis.batch))
    made = kernel.tiles.plan(
        ENTRY,
        writer.lines,
        (),
        f"Matmul of parts of {size} of K = {analysis.k}.",
        launch=Launch(
            grid=(Extent(analysis.m or 1, config.block_m, repeat=tiles_n), batches, Extent(splits)),
            first=(M, 0),
            num_warps=config.num_warps,
            num_stages=config.num_stages,
        ),
        problem=None,
        text=text_with(before=aligned_copies.arguments([*copies.values()]), after=[("y0", PART)]),
    )
    rows = Extent(known_product((*analysis.batch, analysis.m)))
    program = dataclasses.replace(made.program, arguments=(*made.program.arguments, ("y0", PART)))
    made = dataclasses.replace(
        made, program=program, scratch=((Extent(splits), rows, Extent(analysis.n)),)
    )
    return aligned_copies.reading([*copies.values()], made)


def _merge(analysis: MatmulAnalysis, config: MatmulConfig, block_m: int, partial: Plan) -> Plan:
    """The kernel that adds the parts, and computes the epilogue."""
    merging = MatmulConfig(block_m, MERGE_BLOCK_N, config.block_k, MERGE_WARPS, 1)
    splits = num_splits(analysis.k, config)

    def accumulate(kernel: KernelTiles, part: Part) -> None:
        offsets = _row(analysis, "split")
        write_sum_of_parts(kernel.tiles.body.writer, block_m, splits, offsets, _mask(kernel))

    text = text_with(before=[("s0", PART)])
    made = plan_tiles(kernel_tiles(analysis, merging), accumulate, text=text)
    arguments = (("s0", PART), *made.program.arguments)
    program = dataclasses.replace(made.program, arguments=arguments)
    return dataclasses.replace(made, program=program, before=partial)


def write_sum_of_parts(writer: Writer, block_m: int, splits: int, offsets: str, mask: str) -> None:
    """Writes the sum of the parts of a tile, `accumulator0`.

    Args:
      writer: gets the lines.
      block_m: rows of the tile.
      splits: the number of parts.
      offsets: offsets of the tile in the part `split`.
      mask: its elements inside the result; `None` where all are.
    """
    writer.line(f"accumulator0 = tl.zeros([{block_m}, {MERGE_BLOCK_N}], tl.float32)")
    whole = splits // PARTS_IN_FLIGHT * PARTS_IN_FLIGHT
    addition = f"accumulator0 += library.load(s0 + {offsets}, {mask})"
    if whole:
        with (
            writer.indented(f"for first in range(0, {whole}, {PARTS_IN_FLIGHT}):"),
            writer.indented(f"for next in tl.static_range({PARTS_IN_FLIGHT}):"),
        ):
            writer.line("split = first + next")
            writer.line(addition)
    if whole < splits:
        with writer.indented(f"for split in tl.static_range({whole}, {splits}):"):
            writer.line(addition)
