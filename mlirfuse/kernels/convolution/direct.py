"""Direct convolution of groups of few channels: one tile of positions and groups per CTA.

    for each tap and input channel of a group:
        a = image[positions, groups]
        accumulator0 += a * filter[groups, 0]          one for each output channel of a group
        accumulator1 += a * filter[groups, 1]

The columns of a tile are the innermost dimensions of the image, rows all others: positions along
an image's width with channels first, groups with channels last. A result with its dimensions in
another order is stored through shared memory: one with channels last of an image with channels
first in tiles whose rows are images and channels, so that adjacent channels are stored together.
Output channels of a group are accumulators of the same thread, which loads an element of the image
once for all of them; with channels first a tile then has one group of one image, so that a weight
is a scalar. There are no matrix instructions: each tap is one load of a tile, coalesced;
neighbouring taps overlap in the L1 cache. The accumulators are f32.

A thread may compute a run of outputs along a dimension where their taps overlap, such as rows of an
image. It loads each element once for all of them, and each weight once for all elements:

    for element in range(run - 1 + 3):
        a = image[positions + element]
        accumulator0 += a * weight[element]            one for each output of the run
        accumulator1 += a * weight[element - 1]
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence

from mlirfuse.kernels.codegen.iteration_space import (
    MAX_INDEX,
    Axis,
    Group,
    Space,
    known_product,
    power_of_two,
)
from mlirfuse.kernels.codegen.loop_nest import tile_width
from mlirfuse.kernels.codegen.tile_writer import Launch
from mlirfuse.kernels.codegen.writer import Writer
from mlirfuse.kernels.convolution import direct_loops
from mlirfuse.kernels.convolution.analysis import Analysis, Overlap, problem_of
from mlirfuse.kernels.convolution.positions import (
    Strides,
    class_sizes,
    is_exact,
    write_positions,
)
from mlirfuse.kernels.convolution.problem import ConvolutionConfig
from mlirfuse.kernels.convolution.residues import CLASS
from mlirfuse.kernels.convolution.taps import Taps
from mlirfuse.kernels.convolution.tile import ENTRY, Tile, tile_in
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.structured.ir import ops

PART = "part"
"""Name of the index of an output of a run in a kernel's text."""

ROWS, COLUMNS, OUTPUTS, IMAGES = 0, 1, 2, 3
"""The groups of the iteration space: rows and columns of a tile, output channels of a group, and
images with their groups of channels, where a tile has one of them."""

MIN_COLUMNS = 64
"""Columns below which the columns of a tile span another dimension of the result."""

MIN_USED = 0.85
"""Part of the positions of tiles that are outputs, where a tile has one image and channel."""

MIN_PLANE_BLOCK = 128
"""Positions of such a tile, at least: one for each thread of four warps. Tiles of several channels
have as many at most, since each element has weights of its own: on an H200 5x5 by channel of
32x512x16x16 bf16 in runs of eight took 56 us with four runs of a thread, 33 with two and 22 with
one."""

TURNED_ROWS, TURNED_COLUMNS = 16, 8
"""Channels of a tile, and positions at least, whose result has channels last and whose image has
them first: a sector is stored at a time. On an H200 a separable one of 16x512x102x102 bf16 took
1192 us in tiles of one channel, whose elements are stored alone; torch.compile 381."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Grid:
    """The tiling of the result.

    Attributes:
      space: its rows and columns, and output channels of a group.
      axes: loop of the convolution -> its axis.
      strides: strides of residue classes or runs along the axes of rows, and of columns.
      blocks: rows and columns of a tile.
      run: outputs of a run; 1 for none.
      overlap: the dimension that runs are along; None without them.
    """

    space: Space
    axes: dict[int, Axis]
    strides: tuple[Strides, Strides]
    blocks: tuple[int, int]
    run: int = 1
    overlap: Overlap | None = None

    def count(self, group: int) -> int:
        """Positions of a residue class along a group."""
        return known_product(class_sizes(self.space.groups[group].sizes, self.strides[group]))

    @property
    def tiles_per_row(self) -> int:
        """Tiles along the columns."""
        return -(-self.count(COLUMNS) // self.blocks[COLUMNS])

    @property
    def images(self) -> int:
        """Images times groups of channels, where a tile has one of them; else one."""
        return known_product(self.space.groups[IMAGES].sizes)

    @property
    def tiles_per_image(self) -> int:
        """Tiles of a residue class of such an image."""
        return -(-self.count(ROWS) // self.blocks[ROWS]) * self.tiles_per_row


def plan(analysis: Analysis, config: ConvolutionConfig) -> Plan:
    """Plans the kernel of a convolution.

    Raises:
      Unsupported, Conflict: the region has an op that the kernel cannot compute.
    """
    taps = Taps.of(analysis, apart=True)
    grid = _grid(analysis, config, taps)
    tile = tile_in(analysis, config, grid.space, grid.axes)
    writer = tile.tiles.body.writer
    places = _write_placement(writer, analysis, grid, taps)
    _write_accumulation(tile, grid, taps, places)
    _write_epilogue(tile, grid)
    rows = Extent(
        grid.count(ROWS),
        grid.blocks[ROWS],
        (0,) if analysis.is_dynamic else (),
        grid.tiles_per_row * taps.residues.count * grid.images,
    )
    return tile.tiles.plan(
        ENTRY,
        writer.lines,
        analysis.results,
        f"Convolution of {known_product(analysis.groups)} groups, tiles of"
        f" {grid.blocks[ROWS]} by {grid.blocks[COLUMNS]}.",
        launch=Launch(
            grid=(rows, Extent(1), Extent(1)), first=(ROWS, 0), num_warps=config.num_warps
        ),
        problem=problem_of(analysis),
    )


def _grid(analysis: Analysis, config: ConvolutionConfig, taps: Taps) -> _Grid:
    """The tiling of a configuration."""
    n_loop = analysis.loops.n_loop
    out = [n for n in ops.indexing_maps(analysis.op)[2] or () if n is not None and n != n_loop]
    order = [loop for dim in analysis.loops.image_dims for loop, _ in dim]
    out.sort(key=order.index)
    known = ops.loop_sizes(analysis.op)
    sizes = tuple(known[loop] for loop in out)
    split = len(sizes) - 1
    while split > 1 and known_product(sizes[split:]) < MIN_COLUMNS:
        split -= 1
    overlap, run = _run(analysis, config)
    area = config.block_m * config.block_n // run
    plane, turned = 0, _is_turned(analysis, out)
    if overlap is not None and not turned:
        plane = _plane_block(analysis, out, area, {overlap.loop: run})
        if not plane and _has_channels_first(analysis, out):
            area = min(area, MIN_PLANE_BLOCK)
    if plane or turned:
        split = 1 + _last_group(analysis, out)
    first = split if plane else _apart(analysis, out, split)
    parts = (sizes[first:split] or (1,), sizes[split:])
    starts = [(IMAGES, 0)] * first + [(ROWS, first)] * (split - first)
    starts += [(COLUMNS, split)] * (len(out) - split)
    axes: dict[int, Axis] = {
        loop: (group, n - start)
        for n, (loop, (group, start)) in enumerate(zip(out, starts, strict=True))
    }
    if n_loop is not None:
        axes[n_loop] = OUTPUTS, 0
    strided = dict(taps.residues.strides())
    if overlap is not None:
        strided[overlap.loop] = run, PART
    rows, columns = (
        {axes[loop][1]: stride for loop, stride in strided.items() if axes[loop][0] == group}
        for group in (ROWS, COLUMNS)
    )
    positions = known_product(class_sizes(parts[COLUMNS], columns))
    area = plane or area
    width = tile_width(positions, config.block_n)
    if turned:
        width = min(width, tile_width(positions, max(TURNED_COLUMNS, area // TURNED_ROWS)))
    height = max(1, area // width)
    if not analysis.is_dynamic:
        height = min(height, power_of_two(known_product(class_sizes(parts[ROWS], rows))))
    if first:
        width = max(width, tile_width(positions, area // height))
    space = Space(
        (
            Group("row", parts[ROWS], "" if is_exact(parts[ROWS], rows, height) else "row_mask"),
            Group(
                "column",
                parts[COLUMNS],
                "" if is_exact(parts[COLUMNS], columns, width) else "column_mask",
            ),
            Group("output" if analysis.out_channels > 1 else "", (analysis.out_channels,)),
            Group("image" if first else "", sizes[:first]),
        )
    )
    return _Grid(space, axes, (rows, columns), (height, width), run, overlap)


def _run(analysis: Analysis, config: ConvolutionConfig) -> tuple[Overlap | None, int]:
    """The dimension of runs, and their outputs: no more than there are along it."""
    overlap = analysis.overlap
    if overlap is None:
        return None, 1
    run = min(config.run, power_of_two(ops.loop_sizes(analysis.op)[overlap.loop] or 1))
    return (overlap, run) if run > 1 else (None, 1)


def _plane_block(
    analysis: Analysis, out: Sequence[int], block: int, runs: Mapping[int, int]
) -> int:
    """Positions of tiles of one channel of one image, whose weights are scalars.

    Args:
      analysis: the convolution.
      out: the loops of its result in the image's order, without output channels of a group.
      block: positions of a tile; a smaller tile leaves less of its last one empty.
      runs: loop of runs -> their outputs.

    Returns:
      0 where channels are innermost, and where every size leaves too much empty.
    """
    if not _has_channels_first(analysis, out):
        return 0
    known = ops.loop_sizes(analysis.op)
    planes = out[_last_group(analysis, out) + 1 :]
    sizes = [-(-(known[loop] or 1) // runs.get(loop, 1)) for loop in planes]
    positions = known_product(sizes)
    while block >= MIN_PLANE_BLOCK:
        if positions >= MIN_USED * block * -(-positions // block):
            return block
        block //= 2
    return 0


def _is_turned(analysis: Analysis, out: Sequence[int]) -> bool:
    """Whether a result has channels innermost, and the image positions: in the order of `out`."""
    groups, n_loop = analysis.loops.group_loops, analysis.loops.n_loop
    written = [loop for loop in ops.indexing_maps(analysis.op)[2] or () if loop != n_loop]
    first = _has_channels_first(analysis, out)
    return analysis.out_channels == 1 and first and written[-1] in groups


def _has_channels_first(analysis: Analysis, out: Sequence[int]) -> bool:
    """Whether positions are innermost in the image, whose loops are in the order of `out`."""
    return _last_group(analysis, out) < len(out) - 1


def _last_group(analysis: Analysis, out: Sequence[int]) -> int:
    """The index of the last loop of groups of channels; of the images without groups, or -1."""
    loops = analysis.loops
    images = [loop for loop in loops.m_loops if loops.image_dims[0] == ((loop, 1),)]
    return max((out.index(loop) for loop in loops.group_loops or images), default=-1)


def _apart(analysis: Analysis, out: Sequence[int], split: int) -> int:
    """Loops of the image's first dimensions of which a tile has one iteration.

    These are the images and groups of channels, where groups have several output channels, so that
    all elements of a thread have the same weights. With channels last the columns are groups.

    Args:
      analysis: the convolution.
      out: the loops of its result in the image's order, without output channels of a group.
      split: those that are rows.
    """
    last = _last_group(analysis, out)
    if analysis.out_channels == 1 or analysis.is_dynamic or last >= split:
        return 0
    return last + 1


def _write_placement(writer: Writer, analysis: Analysis, grid: _Grid, taps: Taps) -> dict[int, str]:
    """Writes rows and columns, their masks, and the residue class of the CTA.

    Returns:
      Loop that residue classes divide -> the name of its place in the class.
    """
    wide = analysis.is_dynamic or analysis.max_elements >= MAX_INDEX
    pid, classes = "tl.program_id(0)", taps.residues.count
    image = grid.space.groups[IMAGES].flat
    if image:
        tiles, cast = grid.tiles_per_image * classes, ".to(tl.int64)" if wide else ""
        writer.line(f"{image} = ({pid} // {tiles}){cast}")
        pid = f"({pid} % {tiles})"
    if taps.residues.dims:
        writer.line(f"{CLASS} = {pid} % {classes}")
        taps.residues.write(writer)
        pid = f"({pid} // {classes})"
    if grid.run > 1:
        writer.line(f"{PART} = 0")
    ordinals = []
    for group, start in (
        (ROWS, f"{pid} // {grid.tiles_per_row}"),
        (COLUMNS, f"{pid} % {grid.tiles_per_row}"),
    ):
        cast = ".to(tl.int64)" if wide and group == ROWS else ""
        block, shape = grid.blocks[group], "[:, None]" if group == ROWS else "[None, :]"
        ordinals.append(f"({start}){cast} * {block} + tl.arange(0, {block}){shape}")
    found = [
        write_positions(writer, grid.space, group, ordinals[group], grid.strides[group])
        for group in (ROWS, COLUMNS)
    ]
    named = {axis: loop for loop, axis in grid.axes.items()}
    return {
        named[group, axis]: name for group in (ROWS, COLUMNS) for axis, name in found[group].items()
    }


def _write_accumulation(tile: Tile, grid: _Grid, taps: Taps, places: Mapping[int, str]) -> None:
    """Writes the loops over taps and channels."""
    analysis, writer = tile.analysis, tile.tiles.body.writer
    masks = [*taps.write_origins(writer, grid.space, grid.axes, places)]
    strides = {
        loop: known_product(ops.shape(analysis.filter)[dim + 1 :])
        for dim, loop in enumerate(analysis.filter_loops)
        if loop in grid.axes and loop is not None
    }
    n_loop = analysis.loops.n_loop
    apart = 0 if n_loop is None else strides.get(n_loop, 0)
    parts = [(grid.axes[loop], stride) for loop, stride in strides.items() if loop != n_loop]
    writer.line(f"filter_offset = {grid.space.linear_index(parts) or '0'}")
    shape, outputs = f"[{grid.blocks[ROWS]}, {grid.blocks[COLUMNS]}]", analysis.out_channels
    for output in range(outputs * grid.run):
        writer.line(f"accumulator{output} = tl.zeros({shape}, tl.float32)")
    read = {axis[0] for axis, _ in parts}
    sizes = [*taps.sizes, analysis.in_channels]
    overlap = grid.overlap
    if overlap is not None:
        sizes[overlap.tap] = 1
        ends = not analysis.surrounds[overlap.dim].high
        if ends and (ops.loop_sizes(analysis.op)[overlap.loop] or 0) % grid.run:
            size = ops.shape(analysis.image)[overlap.dim]
            last = f"origin{overlap.dim} + tap{overlap.tap} * {overlap.dilation}"
            masks.append(f"(({last}) < {size})")
    unrolled = direct_loops.unrolled(analysis, grid.run, sizes, outputs)
    asked = [unrolled[tap] for tap in range(len(taps.sizes))]
    mask_a = [group.mask for group in grid.space.groups] + masks
    mask_a += taps.residues.tap_masks(asked, tile="column")
    tile_b = next((grid.space.groups[n].flat for n in (COLUMNS, ROWS) if n in read), "")
    mask_b = [grid.space.groups[group].mask for group in sorted(read)]
    mask_b += taps.residues.tap_masks(asked, tile=tile_b)
    a = f"tl.load(elements + ({taps.image_offset('')}){_mask(mask_a)}).to(tl.float32)"

    def weight(output: int) -> str:
        """The load of a tap's weight of an output channel of the group."""
        offset = taps.filter_offset("") + (f" + {output * apart}" if output else "")
        return f"tl.load(weights + ({offset}){_mask(mask_b)}).to(tl.float32)"

    # Elements of a tap are apart by a constant, which an instruction adds to an address.
    writer.line(f"elements = {tile.image} + image_offset")
    writer.line(f"weights = {tile.filter} + filter_offset")
    with contextlib.ExitStack() as loops:
        for level in direct_loops.order(analysis):
            name = taps.loop_name(level) if level < len(taps.sizes) else "channel"
            trips = f"tl.static_range({sizes[level]})"
            if not unrolled[level]:
                of_taps = [f"range({size})" for size in taps.class_sizes]
                trips = [*of_taps, direct_loops.channels(analysis, grid.run)][level]
            if overlap is None or level != overlap.tap:
                loops.enter_context(writer.indented(f"for {name} in {trips}:"))
        taps.write_class_taps(writer)
        if overlap is not None:
            _write_run(writer, overlap, analysis.taps[overlap.tap], grid.run, a, weight(0))
            return
        writer.line(f"a = {a}")
        for output in range(outputs):
            writer.line(f"b = {weight(output)}")
            writer.line(f"accumulator{output} += a * b")


def _write_run(writer: Writer, overlap: Overlap, taps: int, run: int, a: str, b: str) -> None:
    """Writes the products of the taps along the dimension of a run.

    Args:
      writer: gets the lines.
      overlap: the dimension.
      taps: taps along it.
      run: outputs of a run.
      a: the load of the element that a tap of the first output reads.
      b: the load of the weight of a tap.
    """
    for tap in range(taps):
        writer.line(f"tap{overlap.tap} = {tap}")
        writer.line(f"weight{tap} = {b}")
    for element in range((run - 1) * overlap.move + taps):
        readers = [part for part in range(run) if 0 <= element - part * overlap.move < taps]
        writer.line(f"tap{overlap.tap} = {element}")
        writer.line(f"a = {a}")
        for part in readers:
            writer.line(f"accumulator{part} += a * weight{element - part * overlap.move}")


def _write_epilogue(tile: Tile, grid: _Grid) -> None:
    """Writes the ops around the accumulators, and the stores of the results."""
    outputs, writer = max(tile.analysis.out_channels, grid.run), tile.tiles.body.writer
    if outputs == 1:
        tile.write_epilogue()
        return
    names = ", ".join(f"accumulator{output}" for output in range(outputs))
    index = PART if grid.run > 1 else "output"
    writer.line(f"accumulators = ({names})")
    with writer.indented(f"for {index} in tl.static_range({outputs}):"):
        writer.line(f"accumulator0 = accumulators[{index}]")
        if grid.run > 1:
            group = ROWS if any(PART in s for s in grid.strides[ROWS].values()) else COLUMNS
            write_positions(writer, grid.space, group, "", grid.strides[group])
        tile.write_epilogue()


def _mask(conditions: Sequence[str]) -> str:
    """The mask arguments of a load; an empty condition always holds."""
    found = " & ".join(condition for condition in conditions if condition)
    return f", mask={found}, other=0" if found else ""
