"""Kernels for regions that reduce rows: softmax, the norms, and what is done around them.

A workgroup holds some rows whole in registers: every operand is read once, every result written
once, whatever the region does in between. On Hopper the workgroups of a cluster share a long row:
each holds a part of it, and they tell each other their sums.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.codegen.iteration_space import (
    MAX_INDEX,
    UNKNOWN_ROWS,
    Axis,
    Conflict,
    Group,
    Space,
    known_product,
    loop_axes,
    power_of_two,
)
from mlirfuse.kernels.codegen.scalar_ops import HIDING, TYPES, Unsupported, literal
from mlirfuse.kernels.codegen.tile_writer import Tiles, attempted, computing, returned
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.kernels.reduction.problem import ReductionConfig, ReductionProblem
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import Target

ENTRY = "row_kernel"

MAX_COLUMNS = 32768
"""Longest row that a workgroup of 32 warps holds: 32 elements of each value in a thread."""

MAX_CLUSTER = 8
"""Workgroups of a cluster that every such device runs at once."""

MAX_THREADS = 1024
"""Of a workgroup."""

CROWDED = 16
"""Elements of a tile for each thread from which its 64 registers hold only what is needed next."""

MOST_ELEMENTS = 8192
"""Of several rows in a workgroup."""

PACKED_ELEMENTS = 32
"""Of a thread that keeps them in pairs: 16 registers."""

PACKED_REGISTERS = 32
"""Of a thread then: so a multiprocessor has 2048 threads, two workgroups of the longest rows."""

LEAST_PART = 2048
"""Columns of a workgroup in a cluster."""

_SUMS = {
    "arith.addf": ("tl.sum({0}, 1, keep_dims=True)", "sum", 0.0),
    "arith.maximumf": ("tl.reduce({0}, 1, library.larger, keep_dims=True)", "max", float("-inf")),
    "arith.maxnumf": ("tl.max({0}, 1, keep_dims=True)", "maxnum", float("-inf")),
    "arith.minnumf": ("tl.min({0}, 1, keep_dims=True)", "minnum", float("inf")),
}
"""Combining op of a reduction -> the reduction along columns, that over a cluster, and the neutral
element of both."""


_ESTIMATE = ReductionConfig(2048, 16, MAX_COLUMNS)


def candidates(problem: ReductionProblem) -> list[ReductionConfig]:
    """The tilings that a search measures."""
    rows, columns = problem.sizes
    width = power_of_two(columns)
    tiles = [n for n in (width, 2 * width, 4 * width, 8 * width) if n <= MOST_ELEMENTS] or [width]
    shapes = [(tile, MAX_COLUMNS) for tile in tiles]
    # The tile says what workgroups of shorter rows take, where this is what was measured near them.
    shapes += [(part, part) for part in (width // 2, width // 4, width // 8) if part >= LEAST_PART]
    found: dict[tuple[int, ...], ReductionConfig] = {}
    for tile, part in shapes:
        for thread in (32, 16, 8):
            tiling = ReductionConfig(tile, thread, part)
            found.setdefault(_shares(tiling, rows, columns, subgroup=32), tiling)
    packed = (
        [ReductionConfig(width, PACKED_ELEMENTS, MAX_COLUMNS, True)]
        if columns == MAX_COLUMNS
        else []
    )
    # It gained something where results are shorter than rows, and lost elsewhere.
    shorter = found.values() if problem.narrow_result else ()
    return [*found.values(), *packed, *(dataclasses.replace(t, evict_first=True) for t in shorter)]


def supports(
    region: ir.Operation, target: Target, tiling: ReductionConfig | None = None
) -> Plan | NoMatch | None:
    """Plans a kernel for a region of row reductions; None for another kind of region.

    Args:
      region: a group.
      target: what is compiled for.
      tiling: instead of the chosen one.
    """
    group = computing(region)
    generics = [op for op in group if ops.is_generic(op)]
    reductions = [op for op in generics if _reduces(op)]
    if not reductions or any(ops.is_contraction(op) for op in group):
        return None
    if len(generics) != len(group):
        other = next(op for op in group if op not in generics)
        return NoMatch(Reason.STRUCTURE, f"the kernel has no {ops.described(other)}")
    return attempted(lambda: _plan(region, group, reductions, target, tiling), "rows and columns")


def _plan(
    region: ir.Operation,
    group: list[ir.Operation],
    reductions: list[ir.Operation],
    target: Target,
    tiling: ReductionConfig | None,
) -> Plan | NoMatch:
    anchor = max(reductions, key=lambda op: len(ops.iterator_types(op)))
    axes, row_sizes, column_sizes = _rows_and_columns(anchor)
    sizes = Space((Group("row", row_sizes), Group("column", column_sizes)))
    dynamic = sizes.groups[0].dynamic
    if None in column_sizes or None in row_sizes[dynamic:]:
        return NoMatch(Reason.DYNAMIC_SHAPE, "only the first dimensions of the rows may be dynamic")
    columns = known_product(column_sizes)
    clustered = target.arch == triton_compiler.HOPPER
    most = MAX_COLUMNS * (MAX_CLUSTER if clustered else 1)
    if columns > most:
        return NoMatch(
            Reason.NOT_PROFITABLE, f"rows of {columns} columns, more than {most} in registers"
        )
    rows = known_product(row_sizes)
    loops = loop_axes(sizes, group, axes, anchor=anchor)
    results = returned(region)
    if not set(results) <= {value for op in group for value in op.results}:
        raise Unsupported("a result that no op of the region computes")
    known = UNKNOWN_ROWS if dynamic else rows, columns
    problem = _problem(reductions, loops, results, known)
    chosen = tiling or _tiling(target, problem)
    height, width, warps, ranks = _shares(chosen, *known, subgroup=_subgroup(target))
    if ranks > 1 and not clustered:
        return NoMatch(Reason.TARGET_UNSUPPORTED, f"{target} has no clusters of workgroups")
    even = not dynamic and rows % height == 0
    space = Space(
        (
            Group("row", row_sizes, "" if even else "row_inside", apart=True),
            Group("column", column_sizes, "" if columns == width * ranks else "column_inside"),
        )
    )
    # Done on pairs of elements by PTX; masks and further rows would take registers of their own.
    whole = height == 1 and columns == width and target.name == "cuda"
    packed = chosen.packed and whole and all(ops.element_bits(x) == 16 for x in _read(loops))
    tiles = _Rows(space, loops, short=all(ops.element_type(v) in HIDING for v in results))
    tiles.once = chosen.evict_first
    crowded = height * width >= CROWDED * warps * _subgroup(target)
    left = dict(enumerate(results))
    for op in _late(group, results, again=packed) if crowded or packed else group:
        if _reduces(op):
            _reduce(tiles, op, ranks)
            if packed:
                tiles.pack(tiles.tile(op.results[0]))
        else:
            tiles.elementwise(op)
        # At once: registers do not hold two results of a long row.
        for number in [number for number, value in left.items() if value.owner == op]:
            value = left.pop(number)
            tiles.store(f"y{number}", value, tiles.written_axes(value))
    wide = dynamic > 0 or rows * columns >= MAX_INDEX
    first, rank = "tl.program_id(0)", ""
    if ranks > 1:
        first, rank = f"({first} // {ranks})", f"{first} % {ranks} * {width} + "
    lines = [
        f"row = {first}{'.to(tl.int64)' if wide else ''} * {height}"
        f" + tl.arange(0, {height})[:, None]",
        f"column = {rank}tl.arange(0, {width})[None, :]",
        *space.inside(0, 1),
        *(["reduction_sm90.begin()"] if ranks > 1 else []),
    ]
    note = f"{height} at a time" if ranks == 1 else f"{ranks} workgroups for each"
    plan = tiles.plan(
        ENTRY,
        [*lines, *tiles.body.lines],
        results,
        f"Rows of {columns}, {note}.",
        grid=(Extent(rows, height, tuple(range(dynamic)), ranks), Extent(1), Extent(1)),
        problem=problem,
        first=(0, 0),
        num_warps=warps,
        cluster_size=ranks,
    )
    if not packed:
        return plan
    limited = dataclasses.replace(plan.program, max_registers=PACKED_REGISTERS)
    return dataclasses.replace(plan, program=limited)


class _Rows(Tiles):
    """The tiles of a kernel of rows.

    Attributes:
      once: whether caches drop first what was loaded of the rows.
    """

    once = False

    def policy(self, axes: Sequence[Axis | None]) -> str:
        """What loads of a tensor with these axes say of caches."""
        return ", eviction_policy='evict_first'" if self.once and _spanned(axes) else ""

    def pack(self, reduced: str) -> None:
        """Has what is computed from now on read the rows from the registers of their loads.

        Args:
          reduced: what they were reduced to.
        """
        for (value, axes), name in self._loaded.items():
            if _spanned(axes):
                text = f"library.packed({name}, {reduced})"
                self._loaded[value, axes] = self.body.name(text)


def _shares(
    tiling: ReductionConfig, rows: int, columns: int, *, subgroup: int
) -> tuple[int, int, int, int]:
    """Rows, columns and subgroups of a workgroup, and workgroups of a row."""
    ranks = min(MAX_CLUSTER, -(-columns // tiling.max_columns_per_cta))
    width = power_of_two(-(-columns // ranks))
    # None of them has nothing.
    ranks = -(-columns // width)
    height = 1 if ranks > 1 else min(max(1, tiling.tile_elements // width), power_of_two(rows))
    warps = height * width // (subgroup * tiling.elements_per_thread)
    return height, width, min(MAX_THREADS // subgroup, max(1, warps)), ranks


def _late(group: list[ir.Operation], results: list[ir.Value], *, again: bool) -> list[ir.Operation]:
    """The ops in an order in which each stands just before the first that needs it.

    Args:
      group: ops in block order.
      results: what they return.
      again: whether ops stand a second time before what needs them after a reduction.
    """
    members, order = set(group), []
    placed: set[ir.Operation] = set()

    def place(op: ir.Operation) -> None:
        if op in placed:
            return
        for value in op.operands:
            producer = ops.defining_op(value)
            if producer in members:
                place(producer)
        order.append(op)
        if again and _reduces(op):
            placed.intersection_update(filter(_reduces, group))
        placed.add(op)

    owners = [value.owner for value in results]
    for op in group:
        if _reduces(op) or op in owners:
            place(op)
    return order


def _reduces(op: ir.Operation) -> bool:
    return "reduction" in ops.iterator_types(op)


def _problem(
    reductions: list[ir.Operation],
    loops: Mapping[ir.Operation, Sequence[Axis]],
    results: list[ir.Value],
    sizes: tuple[int, int],
) -> ReductionProblem:
    """How a region reduces rows, and which tensors it moves.

    Args:
      reductions: its reductions.
      loops: the axes of the loops of each op.
      results: the values that it returns.
      sizes: rows and columns.
    """
    kinds = sorted(list(ops.body(op).operations)[-2].operation.name for op in reductions)
    written, space = [], _axes(loops)
    for op, axes in loops.items():
        outputs = ops.indexing_maps(op)[ops.num_inputs(op) :]
        for value, index_map in zip(op.results, outputs, strict=True):
            if value in results and _whole(axes, index_map, space):
                written.append(ops.element_bits(value))
    read = len(_read(loops))
    return ReductionProblem(*sizes, " ".join(kinds), read, len(written), 8 in written)


def _read(loops: Mapping[ir.Operation, Sequence[Axis]]) -> set[ir.Value]:
    """The tensors from outside that have the rows and the columns."""
    inside, space = {value for op in loops for value in op.results}, _axes(loops)
    found = set()
    for op, axes in loops.items():
        maps, arguments = ops.indexing_maps(op), ops.body(op).arguments
        for value, index_map, argument in zip(op.operands, maps, arguments, strict=True):
            if value not in inside and _whole(axes, index_map, space) and list(argument.uses):
                found.add(value)
    return found


def _axes(loops: Mapping[ir.Operation, Sequence[Axis]]) -> set[Axis]:
    """All that rows and columns are made of."""
    return {axis for axes in loops.values() for axis in axes}


def _whole(loops: Sequence[Axis], index_map: ops.IndexMap | None, space: set[Axis]) -> bool:
    """Whether a tensor has the rows and the columns."""
    return space <= {loops[loop] for loop in index_map or () if loop is not None}


def _spanned(axes: Sequence[Axis | None]) -> bool:
    """Whether these axes are those of rows and columns."""
    return {(0, 0), (1, 0)} <= {*axes}


def profitable(plan: Plan, target: Target) -> NoMatch | None:
    """Leaves a region with IREE where its code was measured to be as fast."""
    assert plan.problem is not None
    found = lookup.baseline(target, plan.problem)
    return None if found is None else lookup.refusal(found, plan.problem)


def _tiling(target: Target, problem: ReductionProblem) -> ReductionConfig:
    measured = lookup.nearest(target, problem, ReductionConfig)
    return default_config(problem, target) if measured is None else measured.config


def default_config(problem: ReductionProblem, target: Target) -> ReductionConfig:
    """The configuration computed from the problem and the device."""
    return _ESTIMATE


def _subgroup(target: Target) -> int:
    """Threads of a subgroup."""
    return 64 if target.name == "rocm" else 32


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


def _reduce(tiles: Tiles, op: ir.Operation, ranks: int) -> None:
    """Reduces all columns of each row, which so many workgroups share."""
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
    form, shared, neutral = _SUMS[combine.name]
    kind = TYPES[ops.element_type(op.results[0])]
    mask = " & ".join(g.mask for g in tiles.space.groups[1:] if g.mask)
    term = f"{known[terms[0]]}.to(tl.float32)"
    text = f"tl.where({mask or 'column >= 0'}, {term}, {literal(neutral, 'f32')})"
    text = form.format(text)
    if ranks > 1:
        first = not any("reduction_sm90.told" in line for line in tiles.body.lines)
        text = f'reduction_sm90.told({text}, "{shared}", {ranks}, {first})'
    text = f"{text}.to({kind})"
    if start != neutral:
        joined = "tl.maximum" if "max" in combine.name else "tl.minimum"
        begin = literal(float(start), "f32")
        text = f"({text} + {begin})" if neutral == 0.0 else f"{joined}({text}, {begin})"
        text = f"{text}.to({kind})"
    tiles.define(op.results[0], tiles.body.name(text))
