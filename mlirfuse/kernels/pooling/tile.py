"""Pooling kernels: one tile of pixels and channels per CTA, with its epilogue in registers.

The rows of a tile are pixels of the result in all images, its columns the result's last dimension,
or adjacent elements of the whole result where the window moves along that dimension. Where adjacent
elements of the image are not adjacent in the result, rows are the dimension in which they are, so
that loads and stores are coalesced.
A tile is loaded once for each element of the window, at one pointer and a constant distance; a
large window has a loop over its rows. Outside the image it has the padded value, and a side of it
is checked only for elements that may be beyond. Neighbouring windows overlap, and the caches hold
the elements that they share.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Mapping

from mlirfuse.kernels.codegen.element_types import TYPES, WIDE, literal
from mlirfuse.kernels.codegen.iteration_space import (
    MAX_INDEX,
    Axis,
    Group,
    Space,
    known_product,
    loop_axes,
    power_of_two,
)
from mlirfuse.kernels.codegen.loop_nest import MIN_TILE_SIDE, tile_width
from mlirfuse.kernels.codegen.tile_writer import Launch, Tiles
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.kernels.pooling.analysis import Padding, PoolingAnalysis, problem_of
from mlirfuse.kernels.pooling.problem import PoolingConfig
from mlirfuse.structured.ir import ops

ENTRY = "pool_kernel"

MAX_UNROLLED = 81
"""Elements of a window that are loads of their own in the kernel's text."""

ROWS, COLUMNS, BATCH = 0, 1, 2
"""The groups of the iteration space; dimensions before the rows of a turned tile are `BATCH`."""

TURNED_SIDE = 32
"""Columns of a turned tile: 128 bytes of f32 are a whole line."""

_COMBINED = {
    "arith.maximumf": "library.larger({0}, {1})",
    "arith.maxnumf": "tl.maximum({0}, {1})",
    "arith.minnumf": "tl.minimum({0}, {1})",
    "arith.addf": "{0} + {1}",
}
"""Combining op -> the combination of two tiles."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Tile:
    """The tile of a CTA.

    Attributes:
      space: the iteration space.
      main: the axis along each dimension of the result.
      loops: loop of the pooling -> its axis; loops of the window have none.
      rows: rows of the tile.
      columns: columns of the tile.
      tiles_per_row: tiles along the columns; 0 where these are all dimensions of the result.
      tiles_per_column: tiles along the rows of a turned tile; 0 for the others.
    """

    space: Space
    main: tuple[Axis, ...]
    loops: dict[int, Axis]
    rows: int
    columns: int
    tiles_per_row: int
    tiles_per_column: int = 0

    @property
    def is_flat(self) -> bool:
        """Whether its columns are adjacent elements of the whole result."""
        return not self.tiles_per_row

    @property
    def is_turned(self) -> bool:
        """Whether adjacent elements of the image are in its rows."""
        return self.tiles_per_column > 0

    def extent(self, analysis: PoolingAnalysis) -> Extent:
        """The CTAs."""
        dynamic = (0,) if analysis.out_sizes[0] is None else ()
        if self.is_flat:
            return Extent(known_product(analysis.out_sizes), self.columns, dynamic)
        if self.is_turned:
            tiles = self.tiles_per_row * self.tiles_per_column
            return Extent(known_product(self.space.groups[BATCH].sizes), 1, dynamic, tiles)
        pixels = known_product(analysis.out_sizes[:-1])
        return Extent(pixels, self.rows, dynamic, self.tiles_per_row)


def plan(analysis: PoolingAnalysis, config: PoolingConfig) -> Plan:
    """Plans the kernel of a region.

    Raises:
      Conflict: the ops do not share pixels and channels.
      Unsupported: an op has no translation.
    """
    tile = _tile(analysis, config)
    tiles = _tiles(analysis, tile)
    _write_indices(tiles, analysis, tile)
    _combine(tiles, analysis, tile)
    for op in analysis.epilogue:
        tiles.elementwise(op)
    for index, value in enumerate(analysis.results):
        tiles.store(f"y{index}", value, tiles.written_axes(value))
    window = "x".join(map(str, analysis.window))
    return tiles.plan(
        ENTRY,
        tiles.body.writer.lines,
        analysis.results,
        f"Windows of {window}, tiles of {tile.rows} by {tile.columns}.",
        launch=Launch(
            grid=(tile.extent(analysis), Extent(1), Extent(1)),
            first=tile.main[0],
            num_warps=config.num_warps,
        ),
        problem=problem_of(analysis),
    )


def _tile(analysis: PoolingAnalysis, config: PoolingConfig) -> _Tile:
    """The tile of a configuration."""
    turned = _turned_loop(analysis)
    if turned is not None:
        return _turned_tile(analysis, config, turned)
    if not config.max_columns:
        return _flat_tile(analysis, config)
    out = analysis.out_loops
    *pixels, columns = analysis.out_sizes
    pixels, columns = pixels or [1], columns or 0
    width = tile_width(columns, config.max_columns)
    height = max(1, config.tile_elements // width)
    dynamic = pixels[0] is None
    if not dynamic:
        height = min(height, power_of_two(known_product(pixels)))
    exact = not dynamic and known_product(pixels) % height == 0
    space = Space(
        (
            Group("row", tuple(pixels), "" if exact else "row_mask"),
            Group("column", (columns,), "column_mask" if columns % width else ""),
        )
    )
    main = (*((ROWS, n) for n in range(len(out) - 1)), (COLUMNS, 0))
    loops = dict(zip(out, main, strict=True))
    return _Tile(space, main, loops, height, width, -(-columns // width))


def _flat_tile(analysis: PoolingAnalysis, config: PoolingConfig) -> _Tile:
    """The tile of a configuration whose columns are adjacent elements of the result."""
    sizes, width = analysis.out_sizes, config.tile_elements
    exact = sizes[0] is not None and known_product(sizes) % width == 0
    space = Space((Group("", ()), Group("column", sizes, "" if exact else "column_mask")))
    main = tuple((COLUMNS, n) for n in range(len(sizes)))
    return _Tile(space, main, dict(zip(analysis.out_loops, main, strict=True)), 1, width, 0)


def _turned_loop(analysis: PoolingAnalysis) -> int | None:
    """The place in the result of the image's innermost dimension, where another one is innermost.

    None where a tile would have few rows or columns.
    """
    loops, sizes = analysis.out_loops, analysis.out_sizes
    inner = [loops.index(n) for n, _ in analysis.pooling.image_dims[-1] if n in loops]
    if len(inner) != 1 or None in sizes[inner[0] :]:
        return None
    (place,) = inner
    sides = known_product(sizes[place : place + 1]), known_product(sizes[place + 1 :])
    return place if min(sides) >= MIN_TILE_SIDE else None


def _turned_tile(analysis: PoolingAnalysis, config: PoolingConfig, place: int) -> _Tile:
    """The tile of a configuration whose rows are one dimension of the result, columns all after."""
    sizes = analysis.out_sizes
    batch, (pixels,), rest = sizes[:place], sizes[place : place + 1], sizes[place + 1 :]
    columns, pixels = known_product(rest), pixels or 0
    width = tile_width(columns, TURNED_SIDE)
    height = tile_width(pixels, max(1, config.tile_elements // width))
    space = Space(
        (
            Group("row", (pixels,), "row_mask" if pixels % height else ""),
            Group("column", rest, "column_mask" if columns % width else ""),
            Group("batch" if batch else "", batch),
        )
    )
    starts = [(BATCH, 0)] * place + [(ROWS, place)] + [(COLUMNS, place + 1)] * len(rest)
    main = tuple((group, n - start) for n, (group, start) in enumerate(starts))
    loops = dict(zip(analysis.out_loops, main, strict=True))
    return _Tile(space, main, loops, height, width, -(-columns // width), -(-pixels // height))


def _tiles(analysis: PoolingAnalysis, tile: _Tile) -> Tiles:
    """The tiles of a kernel, without any op yet."""
    op, main = analysis.op, tile.main
    written = {op.results[0]: main, ops.inits(op)[0]: main}
    named = loop_axes(tile.space, analysis.epilogue, main, written=written)
    # Loops of the window are unrolled and have no axis; their placeholder is never used.
    loops = range(len(ops.loop_sizes(op)))
    named[op] = [tile.loops.get(loop, main[0]) for loop in loops]
    tiles = Tiles(tile.space, named, WIDE)
    tiles.axes[analysis.image] = tuple(
        tile.loops.get(dim[0][0]) if len(dim) == 1 else None for dim in analysis.pooling.image_dims
    )
    return tiles


def _write_indices(tiles: Tiles, analysis: PoolingAnalysis, tile: _Tile) -> None:
    """Writes rows and columns, their masks, and the first image index of each window."""
    writer, low = tiles.body.writer, None if analysis.padding is None else analysis.padding.low
    tensors = (analysis.image, *analysis.results)
    most = max(known_product(ops.shape(value)) for value in tensors)
    dynamic = analysis.out_sizes[0] is None and len(analysis.out_sizes) > 1
    wide = ".to(tl.int64)" if dynamic or most >= MAX_INDEX else ""
    column = f"tl.program_id(0){wide}"
    if not tile.is_flat:
        row = f"tl.program_id(0) // {tile.tiles_per_row}"
        if tile.is_turned:
            tiles_per_batch = tile.tiles_per_row * tile.tiles_per_column
            if tile.space.groups[BATCH].flat:
                writer.line(f"batch = (tl.program_id(0) // {tiles_per_batch}){wide}")
            row = f"{row} % {tile.tiles_per_column}"
        writer.line(f"row = ({row}){wide} * {tile.rows} + tl.arange(0, {tile.rows})[:, None]")
        column = f"tl.program_id(0) % {tile.tiles_per_row}"
    writer.line(f"column = {column} * {tile.columns} + tl.arange(0, {tile.columns})[None, :]")
    writer.write(tile.space.inside(ROWS, COLUMNS))
    shape, terms = ops.shape(analysis.image), []
    for dim, strided in enumerate(analysis.pooling.image_dims):
        loops = [(tile.loops[loop], stride) for loop, stride in strided if loop in tile.loops]
        shift = f" - {low[dim]}" if low is not None and low[dim] else ""
        # A condition on a number has no shape to be combined with others in Triton's interpreter.
        shift += " + 0 * column" if {group for (group, _), _ in loops} == {BATCH} else ""
        writer.line(f"first{dim} = {tile.space.linear_index(loops) or '0'}{shift}")
        stride = known_product(shape[dim + 1 :])
        terms.append(f"first{dim} * {stride}" if stride != 1 else f"first{dim}")
    writer.line(f"window = {tiles.pointer(analysis.image)} + ({' + '.join(terms)})")


def _combine(tiles: Tiles, analysis: PoolingAnalysis, tile: _Tile) -> None:
    """Writes the loads of all elements of the window, and their combination."""
    body, pooling, result = tiles.body, analysis.pooling, analysis.op.results[0]
    init = float(ops.constant(ops.inits(analysis.op)[0]) or 0)
    first = literal(init, ops.element_type(result), body.types)
    body.writer.line(f"accumulator = tl.broadcast_to({first}, [{tile.rows}, {tile.columns}])")
    looped = 0
    while math.prod(analysis.window[looped:]) > MAX_UNROLLED:
        looped += 1
    taps = {loop: f"tap{n}" for n, loop in enumerate(pooling.window_loops[:looped])}
    with contextlib.ExitStack() as loops:
        for tap, size in zip(taps.values(), analysis.window, strict=False):
            loops.enter_context(body.writer.indented(f"for {tap} in range({size}):"))
        firsts, start = _at_taps(tiles, analysis, taps)
        for place in itertools.product(*map(range, analysis.window[looped:])):
            offsets = dict(zip(pooling.window_loops[looped:], place, strict=True))
            load = _Load(analysis, tile, offsets, firsts)
            loaded = _computed(tiles, load, body.name(_load(tiles, load, start)))
            known = body.block(
                ops.body(analysis.op), [loaded, None, None], lambda loop: "0", [pooling.combine]
            )
            text = _COMBINED[pooling.combine.name].format("accumulator", known[pooling.term])
            body.writer.line(f"accumulator = {text}")
    tiles.define(result, "accumulator")


def _at_taps(
    tiles: Tiles, analysis: PoolingAnalysis, taps: Mapping[int, str]
) -> tuple[dict[int, str], str]:
    """The first index along each dimension of the image, and the pointer, in loops over taps."""
    shape, terms, firsts = ops.shape(analysis.image), [], {}
    for dim, strided in enumerate(analysis.pooling.image_dims):
        moves = [f"{taps[loop]} * {stride}" for loop, stride in strided if loop in taps]
        firsts[dim] = f"first{dim}"
        if moves:
            moved = " + ".join(moves)
            if analysis.padding is not None and analysis.padding.padded[dim]:
                firsts[dim] = tiles.body.name(f"first{dim} + {moved}")
            terms.append(f"({moved}) * {known_product(shape[dim + 1 :])}")
    start = tiles.body.name(f"window + {' + '.join(terms)}") if terms else "window"
    return firsts, start


@dataclasses.dataclass(frozen=True, slots=True)
class _Load:
    """The load of one element of the window.

    Attributes:
      analysis: the region.
      tile: the tile of a CTA.
      offsets: loop of the window whose elements are unrolled -> index in it.
      firsts: dimension of the image -> its first index.
    """

    analysis: PoolingAnalysis
    tile: _Tile
    offsets: Mapping[int, int]
    firsts: Mapping[int, str]


def _load(tiles: Tiles, load: _Load, pointer: str) -> str:
    """The tile of one element of the window in the image, as an expression."""
    analysis, tile = load.analysis, load.tile
    image, padding = analysis.image, analysis.padding
    shape, start = ops.shape(image), 0
    for dim, strided in enumerate(analysis.pooling.image_dims):
        moved = sum(stride * load.offsets[at] for at, stride in strided if at in load.offsets)
        start += moved * known_product(shape[dim + 1 :])
    kind = ops.element_type(image)
    mask = " & ".join(mask for mask in (tile.space.mask(tile.main), *_all_inside(load)) if mask)
    outside = 0.0 if padding is None or analysis.prologue else padding.value
    guard = f", mask={mask}, other={literal(outside, kind)}" if mask else ""
    text = f"tl.load({pointer}{f' + {start}' if start else ''}{guard})"
    is_widened = tiles.body.types[kind] != TYPES[kind]
    return f"{text}.to(tl.float32)" if is_widened else text


def _computed(tiles: Tiles, load: _Load, loaded: str) -> str:
    """The tile of one element that the ops in front of the pooling compute, or its padding."""
    body, analysis = tiles.body, load.analysis
    name, names = loaded, {analysis.image: loaded}
    for op in analysis.prologue:
        block = ops.body(op)
        known = body.block(block, [*map(names.get, ops.inputs(op)), None], lambda loop: "0")
        (value,) = list(block.operations)[-1].operation.operands
        name = names[op.results[0]] = known[value]
    inside = " & ".join(_all_inside(load))
    if analysis.padding is None or not analysis.prologue or not inside:
        return name
    kind = ops.element_type(analysis.prologue[-1].results[0])
    value = literal(analysis.padding.value, kind, body.types)
    return body.name(f"tl.where({inside}, {name}, {value})")


def _all_inside(load: _Load) -> list[str]:
    """The conditions that an element of the window is in no padding."""
    analysis, found = load.analysis, list[str]()
    padding = analysis.padding
    for dim, strided in enumerate(analysis.pooling.image_dims):
        moved = sum(stride * load.offsets[at] for at, stride in strided if at in load.offsets)
        if padding is not None and padding.padded[dim]:
            found += _inside(load, padding, dim, moved)
    return found


def _inside(load: _Load, padding: Padding, dim: int, moved: int) -> list[str]:
    """The conditions that an element of the window is not in the padding of a dimension.

    Args:
      load: the element.
      padding: its padding.
      dim: the dimension of the image.
      moved: the element's distance from the first one of the window, or of its row.
    """
    analysis = load.analysis
    size, sizes = ops.shape(analysis.image)[dim], ops.loop_sizes(analysis.op)
    assert size is not None
    last = moved - padding.low[dim]
    for loop, stride in analysis.pooling.image_dims[dim]:
        if loop not in load.offsets:
            last += stride * ((sizes[loop] or 0) - 1)
    index = f"{load.firsts[dim]} + {moved}" if moved else load.firsts[dim]
    found = [f"({index} >= 0)"] if moved < padding.low[dim] else []
    return found + ([f"({index} < {size})"] if last >= size else [])
