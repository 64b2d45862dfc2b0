"""Elementwise kernels of tiles with rows and columns, one tile per CTA.

The axes of the result split into rows and columns where indices are computed, or functions of a
bias or a table, which are then computed once for all rows of a tile, and where rows share a large
operand; other tiles are flat. With a transposed operand the columns are the innermost axes of the
result and the rows those of the operand, so that loads and stores are coalesced.

A tile of one row has one dimension. With two, Triton 3.6 gives the lanes of a warp to the row where
elements are loaded one by one: on an H200 a reflecting pad to 21.6 million f16 took 38.7 us so,
and takes 27.6.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

from iree.compiler import ir

from mlirfuse.core import NoMatch
from mlirfuse.kernels.codegen.demand_writer import Demand
from mlirfuse.kernels.codegen.element_types import HIDING, TYPES, WIDE, with_constants_of
from mlirfuse.kernels.codegen.iteration_space import (
    MAX_INDEX,
    Axis,
    Group,
    Space,
    known_product,
    power_of_two,
)
from mlirfuse.kernels.codegen.loop_nest import VECTOR, sharing_rows, tile_width
from mlirfuse.kernels.codegen.tile_writer import Launch, Tiles, attempted
from mlirfuse.kernels.configs.device import gpu_of
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.kernels.pointwise.analysis import SHARED, PointwiseAnalysis, problem_of
from mlirfuse.kernels.pointwise.problem import PointwiseConfig
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import Target

ENTRY = "elementwise_kernel"

BATCH, ROWS, COLUMNS = 0, 1, 2
"""The groups of the iteration space."""

_NAMES = ("batch", "row", "column")

SHARED_L2 = 8
"""L2 over the bytes of an operand from which the rows that share it are next to each other: on an
H200 six rows of 6800384 f16, all of which share one operand of 13.6 MB and pairs of which another,
took 75 us by columns first, and 55 by rows first; eight that share 21 MB 116, of 87 for the
bytes."""


def plan(
    analysis: PointwiseAnalysis,
    config: PointwiseConfig,
    target: Target,
    scratch: Mapping[ir.Value, str] = MappingProxyType({}),
) -> Plan | NoMatch:
    """Plans the kernel of a region, or the reason why there is none.

    Args:
      analysis: the region.
      config: the tiles.
      target: the target.
      scratch: tensors that a kernel before it stores -> their names, its first arguments.
    """
    made = attempted(lambda: _planned(analysis, config, target, scratch), SHARED)
    if isinstance(made, NoMatch):
        return made
    operands = tuple(value for value in made.operands if value not in scratch)
    return dataclasses.replace(made, operands=operands)


@dataclasses.dataclass(frozen=True, slots=True)
class _Grid:
    """The tiling of the axes.

    Attributes:
      sizes: sizes of the axes of each group.
      first: the first group that has axes; only its first axis may be dynamic.
      block_rows: rows of a tile.
      block_columns: columns of a tile.
      wide: whether indices have 64 bits.
      has_lines: whether tiles have one dimension, that of their columns.
      rows_first: whether CTAs with the next number have the next rows, and not the next columns.
    """

    sizes: tuple[tuple[int | None, ...], ...]
    first: int
    block_rows: int
    block_columns: int
    wide: bool
    has_lines: bool
    rows_first: bool

    @property
    def dynamic(self) -> bool:
        """Whether the first axis is dynamic."""
        return self.sizes[self.first][0] is None

    @property
    def blocks(self) -> tuple[int, int, int]:
        """Iterations of a tile along each group."""
        return 1, self.block_rows, self.block_columns

    def counts(self) -> tuple[int, ...]:
        """Tiles along each group, those of dynamic sizes left out."""
        known = map(known_product, self.sizes)
        return tuple(-(-size // block) for size, block in zip(known, self.blocks, strict=True))

    def is_masked(self, group: int) -> bool:
        """Whether tiles may be partly out of bounds along a group."""
        endless = self.dynamic and group == self.first
        inexact = known_product(self.sizes[group]) % self.blocks[group] != 0
        return group != BATCH and (endless or inexact)

    @property
    def splits_vectors(self) -> bool:
        """Whether a mask of adjacent elements may end within a vectorized access.

        Triton then loads and stores single elements, of all tiles.
        """
        inside = known_product(self.sizes[COLUMNS])
        return self.first == COLUMNS and self.is_masked(COLUMNS) and inside % VECTOR != 0

    def space(self, *, masked: bool = True) -> Space:
        """The iteration space, with the masks that its tiles may need."""
        return Space(
            tuple(
                Group(name, sizes, f"{name}_mask" if masked and self.is_masked(n) else "")
                for n, (name, sizes) in enumerate(zip(_NAMES, self.sizes, strict=True))
            )
        )


def _planned(
    analysis: PointwiseAnalysis,
    config: PointwiseConfig,
    target: Target,
    scratch: Mapping[ir.Value, str],
) -> Plan:
    gpu = gpu_of(target)
    nest = analysis.nest.sharing_a_large_operand(gpu.l2_bytes // SHARED_L2)
    analysis = dataclasses.replace(analysis, nest=nest)
    grid = _grid(analysis, config, config.num_warps * gpu.warp_size)
    space = grid.space()
    tiles = _tiles(analysis, space, wide=grid.wide)
    tiles.operands.update(scratch)
    writer = tiles.body.writer
    writer.write(_indices(grid))
    if grid.splits_vectors:
        whole = _tiles(analysis, grid.space(masked=False), wide=grid.wide)
        whole.operands, whole.axes, whole.body.writer = tiles.operands, tiles.axes, writer
        # No sum with the first element of a tile, which may be the largest number of 32 bits.
        last = f"{space.size(COLUMNS)} - {grid.block_columns}"
        with writer.indented(f"if pid * {grid.block_columns} <= {last}:"):
            _write(whole, analysis)
        with writer.indented("else:"):
            writer.write(space.inside(COLUMNS))
            _write(tiles, analysis)
    else:
        writer.write(space.inside(BATCH, ROWS, COLUMNS))
        _write(tiles, analysis)
    return tiles.plan(
        ENTRY,
        with_constants_of("[1]", writer.lines) if grid.has_lines else writer.lines,
        analysis.results,
        f"Tiles of {grid.block_rows} by {grid.block_columns}.",
        launch=Launch(
            grid=(_extent(grid, space), Extent(1), Extent(1)),
            first=(grid.first, 0),
            num_warps=config.num_warps,
        ),
        problem=problem_of(analysis),
    )


def _write(tiles: Tiles, analysis: PointwiseAnalysis) -> None:
    """Writes the ops and stores of a tile."""
    demand, axes = Demand(tiles, analysis.group), _axes(analysis)
    written = {
        value: tuple(axes[axis] for axis in found) for value, found in analysis.nest.written.items()
    }
    for value, index in written.items():
        tiles.define(value, demand.value(value, index))
    for number, value in enumerate(analysis.results):
        tiles.store(f"y{number}", value, written[value])


def _grid(analysis: PointwiseAnalysis, config: PointwiseConfig, threads: int) -> _Grid:
    """The tiles of a configuration, narrowed where they would be mostly masked.

    They are tall where rows share divided indices of their columns.
    """
    nest = analysis.nest
    sizes = (
        nest.sizes[: nest.rows],
        nest.sizes[nest.rows : nest.columns],
        nest.sizes[nest.columns :],
    )
    first = next(n for n, part in enumerate(sizes) if part)
    dynamic = nest.sizes[0] is None
    height, width = config.block_rows, config.block_columns
    if first == COLUMNS:
        height, width = 1, height * width
    elif nest.divides:
        rows = sharing_rows(known_product(sizes[COLUMNS]), height * width // threads)
        height, width = rows, height * width // rows
    if first == COLUMNS:
        width = width if dynamic else min(width, power_of_two(known_product(sizes[COLUMNS])))
    else:
        narrow = tile_width(known_product(sizes[COLUMNS]), width)
        height, width = height * width // narrow, narrow
    if not (dynamic and first == ROWS):
        tall, height = height, min(height, power_of_two(known_product(sizes[ROWS])))
        if nest.transposed and not dynamic:
            width = tile_width(known_product(sizes[COLUMNS]), width * tall // height)
    wide = dynamic or _max_elements(analysis) >= MAX_INDEX
    across = all(
        any(axis >= nest.columns for axis in nest.written[value]) for value in analysis.results
    )
    return _Grid(
        sizes,
        first,
        height,
        width,
        wide,
        has_lines=height == 1 and across,
        rows_first=nest.rows_first,
    )


def _extent(grid: _Grid, space: Space) -> Extent:
    """The CTAs of the one axis of the grid."""
    batch, rows, columns = map(known_product, grid.sizes)
    counts = grid.counts()
    dynamic = [tuple(range(group.dynamic)) for group in space.groups]
    return (
        Extent(batch, 1, dynamic[BATCH], counts[ROWS] * counts[COLUMNS]),
        Extent(rows, grid.block_rows, dynamic[ROWS], counts[COLUMNS]),
        Extent(columns, grid.block_columns, dynamic[COLUMNS]),
    )[grid.first]


def _tiles(analysis: PointwiseAnalysis, space: Space, *, wide: bool) -> Tiles:
    """The tiles of a kernel, without any op yet."""
    found = Tiles(
        space,
        {},
        {**WIDE, "index": TYPES["i64" if wide else "i32"]},
        short=all(ops.element_type(value) in HIDING for value in analysis.results),
    )
    found.body.writer.reuses = True
    return found


def _axes(analysis: PointwiseAnalysis) -> list[Axis]:
    """The axes of the result as axes of the groups."""
    nest = analysis.nest
    first, split = nest.rows, nest.columns
    starts = [(BATCH, 0)] * first + [(ROWS, first)] * (split - first)
    starts += [(COLUMNS, split)] * (len(nest.sizes) - split)
    return [(group, axis - start) for axis, (group, start) in enumerate(starts)]


def _max_elements(analysis: PointwiseAnalysis) -> int:
    """Elements of the largest tensor."""
    results = [ops.shape(value) for value in analysis.results]
    reads = [read.sizes for read in analysis.nest.reads]
    return max(map(known_product, [*results, *reads]))


def _indices(grid: _Grid) -> list[str]:
    """The lines that compute the batch, rows and columns of a CTA."""
    counts = grid.counts()
    lines = [f"pid = tl.program_id(0){'.to(tl.int64)' if grid.wide else ''}"]
    inner = 1
    order = (ROWS, COLUMNS, BATCH) if grid.rows_first else (COLUMNS, ROWS, BATCH)
    groups = [group for group in order if group >= grid.first]
    for group in groups:
        text = "pid" if inner == 1 else f"pid // {inner}"
        if group != groups[-1]:
            text = f"{text} % {counts[group]}"
        inner *= counts[group]
        if group == COLUMNS or (group == ROWS and not grid.has_lines):
            block, shape = grid.blocks[group], "[:, None]" if group == ROWS else "[None, :]"
            shape = "" if grid.has_lines else shape
            text = f"({text}) * {block} + tl.arange(0, {block}){shape}"
        lines.append(f"{_NAMES[group]} = {text}")
    return lines
