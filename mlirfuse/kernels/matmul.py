"""Kernels for regions of one contraction and the elementwise ops after it.

The operands are read as they lie in memory, transposed or not; the epilogue runs on the sums while
they are in registers.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.provider import Extent, Plan, Program
from mlirfuse.kernels.rows import MAX_INDEX
from mlirfuse.kernels.scalars import POINTERS, Unsupported
from mlirfuse.kernels.space import (
    Axis,
    Conflict,
    Group,
    Space,
    known_product,
    loop_axes,
    product_text,
)
from mlirfuse.kernels.tiles import Tiles, computing, dynamic_dimension, returned, text_of
from mlirfuse.structured import ops

ENTRY = "matmul_kernel"

BAND = 8
"""Rows of tiles whose workgroups run together and share columns of the right operand."""

BATCH, ROWS, COLUMNS = 0, 1, 2
"""The groups of the iteration space."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tiling:
    """How a workgroup computes its tile.

    Attributes:
      height: rows of the tile.
      width: columns of the tile.
      block: terms of the sums at a time.
      warps: subgroups.
      stages: blocks of the operands in workgroup memory.
    """

    height: int
    width: int
    block: int
    warps: int
    stages: int


# The first whose tiles fill the device; the large ones reach the most operations for each byte.
# Estimates from the sizes of registers and workgroup memory, to be replaced by measurements.
_TILINGS = {
    "sm_90": (
        Tiling(128, 256, 64, 8, 3),
        Tiling(128, 128, 64, 8, 4),
        Tiling(64, 128, 64, 4, 4),
        Tiling(64, 64, 64, 4, 4),
    ),
    "sm_80": (
        Tiling(128, 256, 32, 8, 3),
        Tiling(128, 128, 32, 4, 4),
        Tiling(64, 128, 32, 4, 4),
        Tiling(64, 64, 32, 4, 4),
    ),
}
_FEW_ROWS = Tiling(16, 64, 128, 4, 4)

FILLED = 100
"""Workgroups that fill a device: nearly those of an A100 or H100 (108, 132 multiprocessors)."""


def _tiling(arch: str, rows: int, columns: int, batch: int) -> Tiling:
    """The tiling for a product of that many rows (a dynamic number counts as 128) and columns."""
    if rows <= _FEW_ROWS.height:
        return _FEW_ROWS
    tilings = _TILINGS["sm_90" if arch == "sm_90" else "sm_80"]
    for tiling in tilings:
        tiles = -(-rows // tiling.height) * -(-columns // tiling.width) * batch
        if tiles >= FILLED:
            return tiling
    return tilings[-1]


def supports(region: ir.Operation, arch: str) -> Plan | NoMatch | None:
    """Plans a kernel for a region around one contraction; None for another kind of region."""
    group = computing(region)
    contractions = [op for op in group if ops.is_contraction(op)]
    if not contractions:
        return None
    if len(contractions) > 1:
        return NoMatch(Reason.STRUCTURE, f"{len(contractions)} contractions in one kernel")
    others = [op for op in group if op != contractions[0] and not ops.is_elementwise(op)]
    if others:
        return NoMatch(Reason.STRUCTURE, f"the kernel has no {ops.described(others[0])}")
    try:
        return _plan(region, group, contractions[0], arch)
    except Conflict:
        return NoMatch(Reason.WRONG_AXIS, "the ops do not share rows and columns")
    except Unsupported as reason:
        return NoMatch(Reason.STRUCTURE, f"the kernel cannot compute {reason}")


@dataclasses.dataclass(frozen=True, slots=True)
class _Loops:
    """The loops of a contraction by what they count."""

    batch: tuple[int, ...]
    row: int
    column: int
    term: int


def _loops(contraction: ir.Operation) -> _Loops:
    """Sorts the loops of a contraction with one loop of rows, columns and terms each."""
    maps = ops.indexing_maps(contraction)
    if any(m is None or None in m for m in maps):
        raise Unsupported(f"an indexing map of {contraction.name}")
    left, right, out = ({d for d in m if d is not None} for m in ops.plain_maps(contraction))
    batch = tuple(sorted(left & right & out))
    rows, columns, terms = (
        sorted(left & out - right),
        sorted(right & out - left),
        left & right - out,
    )
    every = len(ops.iterator_types(contraction))
    if [len(rows), len(columns), len(terms)] != [1, 1, 1] or every != len(batch) + 3:
        raise Unsupported("a contraction without one dimension each of rows, columns and terms")
    return _Loops(batch, rows[0], columns[0], terms.pop())


def _plan(
    region: ir.Operation, group: list[ir.Operation], contraction: ir.Operation, arch: str
) -> Plan | NoMatch:
    left, right = ops.inputs(contraction)
    kinds = {ops.element_type(left), ops.element_type(right)}
    if kinds not in ({"f16"}, {"bf16"}) or ops.element_type(contraction.results[0]) != "f32":
        kind = f"{' times '.join(sorted(kinds))} to {ops.element_type(contraction.results[0])}"
        return NoMatch(Reason.ELEMENT_TYPE, f"a product of {kind}, not f16 or bf16 to f32")
    if ops.constant(ops.inits(contraction)[0]) != 0:
        return NoMatch(Reason.CONSTANT_UNVERIFIED, "what the contraction adds to is not zero")
    loops = _loops(contraction)
    sizes = ops.loop_sizes(contraction)
    batch = tuple(sizes[n] for n in loops.batch)
    rows, columns, depth = sizes[loops.row], sizes[loops.column], sizes[loops.term]
    if columns is None or depth is None or None in batch:
        return NoMatch(Reason.DYNAMIC_SHAPE, "only the rows of a product may be dynamic")
    count = known_product(batch)
    tiling = _tiling(arch, rows or 128, columns, count)
    space = Space(
        (
            Group("batch", batch),
            Group("row", (rows,), "row_inside"),
            Group("column", (columns,), "column_inside"),
        )
    )
    # The loop over the terms is no axis, and nothing asks for it.
    axes: list[Axis] = [(BATCH, 0)] * len(sizes)
    for position, loop in enumerate(loops.batch):
        axes[loop] = (BATCH, position)
    axes[loops.row], axes[loops.column] = (ROWS, 0), (COLUMNS, 0)
    tiles = Tiles(space, {})
    wide = rows is None or _reach(contraction) >= MAX_INDEX
    _sum(tiles, contraction, loops, axes, tiling)
    epilogue = [op for op in group if op != contraction]
    tiles.loops = _epilogue_loops(space, contraction, epilogue, axes)
    tiles.define(contraction.results[0], "total")
    for op in epilogue:
        tiles.elementwise(op)
    results = returned(region)
    for number, value in enumerate(results):
        tiles.store(f"y{number}", value, tiles.written_axes(value))
    allowed = {v: dims.index((ROWS, 0)) for v, dims in tiles.axes.items() if (ROWS, 0) in dims}
    size = dynamic_dimension([*tiles.operands, *results], allowed)
    height = product_text((rows,))
    to64 = ".to(tl.int64)" if wide else ""
    lines = [
        f"row_tile, column_tile = library.tile_of(tl.program_id(0), tl.cdiv({height}, "
        f"{tiling.height}), {-(-columns // tiling.width)}, {BAND})",
        f"batch = tl.program_id(1){to64}",
        f"row = (row_tile * {tiling.height} + tl.arange(0, {tiling.height})){to64}[:, None]",
        f"column = (column_tile * {tiling.width} + tl.arange(0, {tiling.width}))[None, :]",
        f"row_inside = row < {height}",
        f"column_inside = column < {columns}",
    ]
    arguments = [(name, POINTERS[ops.element_type(v)]) for v, name in tiles.operands.items()]
    arguments += [(f"y{n}", POINTERS[ops.element_type(v)]) for n, v in enumerate(results)]
    if rows is None:
        arguments.append(("size", "i32"))
    note = f"Products over {depth} terms, tiles of {tiling.height} by {tiling.width}."
    tile_columns = -(-columns // tiling.width)
    grid = (
        Extent(1 if rows is None else rows, tiling.height, rows is None, tile_columns),
        Extent(count),
        Extent(1),
    )
    text = text_of(ENTRY, arguments, [*lines, *tiles.body.lines], note)
    program = Program(ENTRY, text, tuple(arguments), tiling.warps, tiling.stages)
    return Plan(program, tuple(tiles.operands), grid, size)


def _reach(contraction: ir.Operation) -> int:
    """The most elements of an operand or result."""
    return max(ops.num_elements(v) for v in contraction.operands)


def _sum(
    tiles: Tiles, contraction: ir.Operation, loops: _Loops, axes: list[Axis], tiling: Tiling
) -> None:
    """Computes the sums of the tile."""
    places, steps = [], []
    maps = ops.plain_maps(contraction)[:2]
    for value, index_map in zip(ops.inputs(contraction), maps, strict=True):
        shape = ops.shape(value)
        known = tuple(None if n is None or n == loops.term else axes[n] for n in index_map)
        tiles.axes[value] = known
        places.append(f"{tiles.pointer(value)} + {tiles.space.offset(shape, known)}")
        steps.append(product_text(shape[index_map.index(loops.term) + 1 :]))
    depth = ops.loop_sizes(contraction)[loops.term]
    tiles.body.lines.append(
        f"total = library.product({places[0]}, {places[1]}, {steps[0]}, {steps[1]}, "
        f"row_inside, column_inside, {depth}, {tiling.block}, {tiling.height}, {tiling.width})"
    )


def _epilogue_loops(
    space: Space, contraction: ir.Operation, epilogue: list[ir.Operation], axes: list[Axis]
) -> dict[ir.Operation, list[Axis]]:
    """The axis of each loop of the epilogue's ops, and of the contraction."""
    written = ops.plain_maps(contraction)[-1]
    main = [axes[n] for n in written if n is not None]
    sums = {contraction.results[0]: main}
    return {contraction: axes, **loop_axes(space, epilogue, main, written=sums)}
