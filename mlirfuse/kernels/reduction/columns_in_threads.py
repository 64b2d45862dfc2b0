"""Kernels of rows with few columns, all of which one thread holds.

    first, second = load(x + row), load(x + row + stride)      [rows, 1] each
    total = first + second
    store(y + row, first / total), store(y + row + stride, second / total)

Each column has a tile of rows of its own and is written out, so nothing is exchanged between
threads, whatever is reduced first, and no operand is read twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen import row_reductions
from mlirfuse.kernels.codegen.combiners import combined_with_init
from mlirfuse.kernels.codegen.element_types import HIDING, WIDE
from mlirfuse.kernels.codegen.iteration_space import MAX_INDEX, Group, Space, power_of_two
from mlirfuse.kernels.codegen.row_reductions import reduces
from mlirfuse.kernels.codegen.tile_writer import Launch, written_axes
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.kernels.reduction.analysis import COLUMN, ROW, ReductionAnalysis
from mlirfuse.kernels.reduction.problem import ReductionConfig
from mlirfuse.kernels.reduction.region_problem import problem_of
from mlirfuse.kernels.reduction.row_blocks import RowBlocks, row_blocks
from mlirfuse.kernels.reduction.row_tiles import RowTiles, compares_values
from mlirfuse.kernels.reduction.turned_rows import TurnedRows, turned_rows
from mlirfuse.structured.ir import ops

ENTRY = "column_kernel"


def plan(analysis: ReductionAnalysis, config: ReductionConfig) -> Plan:
    """Plans the kernel of a region.

    Raises:
      Unsupported: an op has no translation.
    """
    height = config.block_rows
    if not analysis.num_dynamic:
        height = min(height, power_of_two(analysis.rows))
    written = [written_axes(analysis.loops, value) for value in analysis.results]
    turned = turned_rows(analysis, height, written)
    blocks = turned or row_blocks(analysis, height)
    columns = _columns(analysis, blocks)
    first = columns[0]
    writer = first.body.writer
    wide = analysis.num_dynamic > 0 or analysis.rows * analysis.columns >= MAX_INDEX
    writer.write(blocks.indices("tl.program_id(0)", ".to(tl.int64)" if wide else ""))
    if turned is None:
        writer.write(first.space.inside(ROW))
    for number, tiles in enumerate(columns):
        writer.line(f"{tiles.space.groups[COLUMN].flat} = tl.full([1, 1], {number}, tl.int32)")
    for op in analysis.group:
        if reduces(op):
            _reduce(columns, op, analysis)
        else:
            for tiles in columns:
                tiles.elementwise(op)
    for number, (value, axes) in enumerate(zip(analysis.results, written, strict=True)):
        if turned is not None:
            turned.store(first, f"y{number}", value, axes)
            continue
        spans = any(axis is not None and axis[0] == COLUMN for axis in axes)
        for tiles in columns if spans else columns[:1]:
            tiles.store(f"y{number}", value, axes)
    return first.plan(
        ENTRY,
        writer.lines,
        analysis.results,
        f"Rows of {analysis.columns}, {blocks.height} at a time.",
        launch=Launch(
            grid=(blocks.extent(), Extent(1), Extent(1)),
            first=(ROW, 0),
            num_warps=config.num_warps,
        ),
        problem=problem_of(analysis),
    )


def _columns(analysis: ReductionAnalysis, blocks: RowBlocks | TurnedRows) -> Sequence[RowTiles]:
    """The tiles of each column, which write the same lines and read the same operands."""
    found: list[RowTiles] = []
    short = all(ops.element_type(value) in HIDING for value in analysis.results)
    for column in range(analysis.columns):
        space = Space((blocks.group(), Group(f"column_{column}", analysis.column_sizes)))
        tiles = RowTiles(space, analysis.loops, WIDE, short=short)
        tiles.rounds = compares_values(analysis)
        if found:
            tiles.operands, tiles.axes = found[0].operands, found[0].axes
            tiles.body.writer = found[0].body.writer
        found.append(tiles)
    found[0].body.writer.reuses = True
    return found


def _reduce(columns: Sequence[RowTiles], op: ir.Operation, analysis: ReductionAnalysis) -> None:
    """Combines the terms of all columns."""
    reduction, element = analysis.reductions[op], ops.element_type(op.results[0])
    combiner, total = reduction.combiner, ""
    for tiles in columns:
        term = row_reductions.term(tiles, op, reduction)
        total = tiles.body.name(combiner.pair.format(total, term) if total else term)
    types = columns[0].body.types
    text = combined_with_init(combiner, reduction.init, total, element, types)
    name = columns[0].body.name(text)
    for tiles in columns:
        tiles.define(op.results[0], name)
