"""Kernels for regions that reduce rows: softmax, the norms, and what is done around them.

A workgroup holds some rows whole in registers: every operand is read once, every result written
once, whatever the region does in between.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels import tuning
from mlirfuse.kernels.provider import Extent, Key, Plan
from mlirfuse.kernels.scalars import TYPES, Unsupported, literal
from mlirfuse.kernels.space import Axis, Conflict, Group, Space, known_product, loop_axes
from mlirfuse.kernels.tiles import Tiles, attempted, computing, returned
from mlirfuse.structured import ops
from mlirfuse.targets.base import Target

ENTRY = "row_kernel"

MAX_COLUMNS = 32768
"""Longest row that a workgroup of 32 warps holds: 32 elements of each value in a thread."""

TILE_ELEMENTS = 2048
"""Elements that a workgroup of short rows has; an estimate."""

THREAD_ELEMENTS = 16
"""Elements of a tile for each thread; an estimate."""

CROWDED = 32
"""Elements of a tile for each thread from which its 64 registers hold only what is needed next."""

UNKNOWN_ROWS = 4096
"""What a dynamic number of rows counts as, where measurements are looked up."""

MAX_INDEX = 1 << 31
"""Elements that 32-bit offsets reach; beyond, and with dynamic rows, they are 64 bits wide."""

_SUMS = {
    "arith.addf": ("tl.sum({0}, 1, keep_dims=True)", 0.0),
    "arith.maximumf": ("tl.reduce({0}, 1, library.larger, keep_dims=True)", float("-inf")),
    "arith.maxnumf": ("tl.max({0}, 1, keep_dims=True)", float("-inf")),
    "arith.minnumf": ("tl.min({0}, 1, keep_dims=True)", float("inf")),
}
"""Combining op of a reduction -> the reduction along columns, and its neutral element."""


def power_of_two(number: int) -> int:
    """The least power of two that is not below the number."""
    return 1 << max(0, number - 1).bit_length()


def supports(region: ir.Operation, target: Target) -> Plan | NoMatch | None:
    """Plans a kernel for a region of row reductions; None for another kind of region.

    Args:
      region: a group.
      target: what is compiled for.
    """
    group = computing(region)
    generics = [op for op in group if ops.is_generic(op)]
    reductions = [op for op in generics if "reduction" in ops.iterator_types(op)]
    if not reductions or any(ops.is_contraction(op) for op in group):
        return None
    if len(generics) != len(group):
        other = next(op for op in group if op not in generics)
        return NoMatch(Reason.STRUCTURE, f"the kernel has no {ops.described(other)}")
    return attempted(lambda: _plan(region, group, reductions, target), "rows and columns")


def _plan(
    region: ir.Operation,
    group: list[ir.Operation],
    reductions: list[ir.Operation],
    target: Target,
) -> Plan | NoMatch:
    anchor = max(reductions, key=lambda op: len(ops.iterator_types(op)))
    axes, row_sizes, column_sizes = _rows_and_columns(anchor)
    if None in column_sizes or None in row_sizes[1:]:
        return NoMatch(Reason.DYNAMIC_SHAPE, "only the first dimension of the rows may be dynamic")
    columns = known_product(column_sizes)
    if columns > MAX_COLUMNS:
        return NoMatch(
            Reason.NOT_PROFITABLE,
            f"rows of {columns} columns, more than {MAX_COLUMNS} in registers",
        )
    width = power_of_two(columns)
    height = max(1, TILE_ELEMENTS // width)
    dynamic = None in row_sizes
    rows = known_product(row_sizes)
    if not dynamic:
        height = min(height, power_of_two(rows))
    space = Space(
        (
            Group("row", row_sizes, "" if not dynamic and rows % height == 0 else "row_inside"),
            Group("column", column_sizes, "" if columns == width else "column_inside"),
        )
    )
    tiles = Tiles(space, loop_axes(space, group, axes, anchor=anchor))
    results = returned(region)
    if not set(results) <= {value for op in group for value in op.results}:
        raise Unsupported("a result that no op of the region computes")
    warps = _warps(target, width * height)
    crowded = width * height >= CROWDED * warps * (64 if target.name == "rocm" else 32)
    for op in _late(group, results) if crowded else group:
        if "reduction" in ops.iterator_types(op):
            _reduce(tiles, op)
        else:
            tiles.elementwise(op)
        # At once: registers do not hold two results of a long row.
        for number, value in enumerate(results):
            if value.owner == op:
                tiles.store(f"y{number}", value, tiles.written_axes(value))
    wide = dynamic or rows * columns >= MAX_INDEX
    lines = [
        f"row = tl.program_id(0){'.to(tl.int64)' if wide else ''} * {height}"
        f" + tl.arange(0, {height})[:, None]",
        f"column = tl.arange(0, {width})[None, :]",
        *space.inside(0, 1),
    ]
    known = (UNKNOWN_ROWS if dynamic else rows, columns)
    return tiles.plan(
        ENTRY,
        [*lines, *tiles.body.lines],
        results,
        f"Rows of {columns}, {height} at a time.",
        grid=(Extent(rows, height, dynamic), Extent(1), Extent(1)),
        key=Key("rows", _form(reductions, tiles, results), known),
        first=(0, 0),
        warps=warps,
    )


def _late(group: list[ir.Operation], results: list[ir.Value]) -> list[ir.Operation]:
    """The ops in an order in which each stands just before the first that needs it."""
    members, order = set(group), []

    def place(op: ir.Operation) -> None:
        if op in order:
            return
        for value in op.operands:
            producer = ops.defining_op(value)
            if producer in members:
                place(producer)
        order.append(op)

    owners = [value.owner for value in results]
    for op in group:
        if "reduction" in ops.iterator_types(op) or op in owners:
            place(op)
    return order


def _form(reductions: list[ir.Operation], tiles: Tiles, results: list[ir.Value]) -> str:
    """What tells kernels of rows apart: how they reduce, and how many tensors they move."""
    kinds = sorted(list(ops.body(op).operations)[-2].operation.name for op in reductions)
    whole = [
        sum({(0, 0), (1, 0)} <= {*tiles.axes[v]} for v in values)
        for values in (tiles.operands, results)
    ]
    return f"{' '.join(kinds)}, {whole[0]} read, {whole[1]} written"


def profitable(plan: Plan, target: Target) -> NoMatch | None:
    """Leaves a region with IREE where its code was measured to be as fast."""
    found = tuning.beside(target, plan.key) if plan.key is not None else None
    return None if found is None else tuning.refusal(found)


def _warps(target: Target, elements: int) -> int:
    """Subgroups for a tile: at most 1024 threads."""
    subgroup = 64 if target.name == "rocm" else 32
    return min(1024 // subgroup, max(4, elements // (subgroup * THREAD_ELEMENTS)))


def _rows_and_columns(
    anchor: ir.Operation,
) -> tuple[list[Axis], tuple[int | None, ...], tuple[int | None, ...]]:
    """The axis of each loop of a reduction, and the sizes of the rows and of the columns."""
    kinds, sizes = ops.iterator_types(anchor), ops.loop_sizes(anchor)
    rows = [n for n, kind in enumerate(kinds) if kind == "parallel"]
    columns = [n for n, kind in enumerate(kinds) if kind == "reduction"]
    axes: list[Axis] = [
        (0, rows.index(n)) if n in rows else (1, columns.index(n)) for n in range(len(kinds))
    ]
    return axes, tuple(sizes[n] for n in rows) or (1,), tuple(sizes[n] for n in columns)


def _reduce(tiles: Tiles, op: ir.Operation) -> None:
    """Reduces all columns of each row."""
    reduced = [
        axis
        for axis, kind in zip(tiles.loops[op], ops.iterator_types(op), strict=True)
        if kind == "reduction"
    ]
    columns = range(len(tiles.space.groups[1].sizes))
    if sorted(reduced) != [(1, n) for n in columns]:
        raise Conflict
    block = ops.body(op)
    inputs = ops.num_inputs(op)
    last = list(block.operations)[-1].operation
    combined = [v.owner.operation for v in last.operands if not isinstance(v.owner, ir.Block)]
    if len(op.results) != 1 or len(combined) != 1 or combined[0].name not in _SUMS:
        raise Unsupported(f"the reduction of {ops.described(op)}")
    combine, accumulator = combined[0], block.arguments[inputs]
    terms = [value for value in combine.operands if value != accumulator]
    if len(terms) != 1 or len(list(accumulator.uses)) != 1:
        raise Unsupported(f"the reduction of {ops.described(op)}")
    start = ops.constant(op.operands[inputs])
    if start is None:
        raise Unsupported(f"what {ops.described(op)} starts from")
    arguments = [*tiles.arguments(op)[:inputs], None]
    known = tiles.body.block(block, arguments, lambda loop: tiles.index(op, loop), combine)
    form, neutral = _SUMS[combine.name]
    kind = TYPES[ops.element_type(op.results[0])]
    mask = " & ".join(g.mask for g in tiles.space.groups[1:] if g.mask)
    term = f"{known[terms[0]]}.to(tl.float32)"
    text = f"tl.where({mask or 'column >= 0'}, {term}, {literal(neutral, 'f32')})"
    text = f"{form.format(text)}.to({kind})"
    if start != neutral:
        joined = "tl.maximum" if "max" in combine.name else "tl.minimum"
        begin = literal(float(start), "f32")
        text = f"({text} + {begin})" if neutral == 0.0 else f"{joined}({text}, {begin})"
        text = f"{text}.to({kind})"
    tiles.define(op.results[0], tiles.body.name(text))
