"""Reads a region of reductions: its rows and columns, reductions, operands and results.

Rows are the loops that reductions keep, columns those that they reduce, whatever their order in
memory: `x.sum(1)` of NCHW has rows of N, H and W, and columns of C.

analysis = analyze(region)         ReductionAnalysis, the refusal, or None for other regions
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from iree.compiler import ir

from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels.codegen import row_reductions
from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.iteration_space import (
    Axis,
    Group,
    Space,
    known_product,
    loop_axes,
)
from mlirfuse.kernels.codegen.row_reductions import Reduction, reduces
from mlirfuse.kernels.codegen.tile_writer import attempted, computing, returned
from mlirfuse.structured.ir import ops

ROW, COLUMN = 0, 1
"""The groups of the iteration space."""

SHARED = "rows and columns"
"""The axes that the ops of a region have in common."""


@dataclasses.dataclass(frozen=True, slots=True)
class ReductionAnalysis:
    """A region of reductions over rows, with the elementwise ops around them.

    Attributes:
      group: ops in block order, all of them structured.
      reductions: op of `group` that reduces -> its reduction.
      results: values that the region returns, each computed by an op of `group`.
      row_sizes: sizes of the parallel loops; the first ones may be dynamic, None.
      column_sizes: sizes of the reduction loops.
      loops: op -> the axis of each of its loops.
      row_operands: tensors from outside the region that have the rows and the columns.
      row_results: results that have the rows and the columns.
      contiguous_rows: adjacent rows that are adjacent in memory, too: the product of the row sizes
        behind the last column in memory; 1 where a column is innermost.
      contiguous_columns: columns of a row that are adjacent in memory, likewise; 1 where a row is
        innermost.
      turned: whether columns are innermost in memory, but rows in a result; or rows are innermost,
        but columns in a tensor.
    """

    group: tuple[ir.Operation, ...]
    reductions: Mapping[ir.Operation, Reduction]
    results: tuple[ir.Value, ...]
    row_sizes: tuple[int | None, ...]
    column_sizes: tuple[int, ...]
    loops: Mapping[ir.Operation, Sequence[Axis]]
    row_operands: frozenset[ir.Value]
    row_results: tuple[ir.Value, ...]
    contiguous_rows: int
    contiguous_columns: int
    turned: bool

    def accumulator(self, op: ir.Operation) -> str:
        """The type of the accumulators of a reduction."""
        return self.reductions[op].combiner.accumulator(ops.element_type(op.results[0]))

    @property
    def has_trailing_columns(self) -> bool:
        """Whether all reductions are over the last loops, which are innermost in memory."""
        kinds = [ops.iterator_types(op) for op in self.reductions]
        return all(each == tuple(sorted(each)) for each in kinds)

    @property
    def num_dynamic(self) -> int:
        """How many of the first `row_sizes` are dynamic."""
        return Group("", self.row_sizes).dynamic

    @property
    def rows(self) -> int:
        """The product of the static row sizes."""
        return known_product(self.row_sizes)

    @property
    def columns(self) -> int:
        """The elements of a row."""
        return known_product(self.column_sizes)


def analyze(region: ir.Operation) -> ReductionAnalysis | NoMatch | None:
    """Reads a region; None for another kind of region, or the reason why there is no kernel."""
    return analyze_ops(computing(region), returned(region))


def analyze_ops(
    group: Sequence[ir.Operation], results: Sequence[ir.Value]
) -> ReductionAnalysis | NoMatch | None:
    """Reads ops that a region has, or would have; None for other ops.

    Args:
      group: the ops that compute something, in block order.
      results: the values that the region returns.
    """
    generics = [op for op in group if ops.is_generic(op)]
    reductions = [op for op in generics if reduces(op)]
    if not reductions or any(ops.is_contraction(op) for op in group):
        return None
    if len(generics) != len(group):
        other = next(op for op in group if op not in generics)
        return NoMatch(Reason.STRUCTURE, f"the kernel has no {ops.described(other)}")
    return attempted(lambda: _analyzed(group, results, reductions), SHARED)


def _analyzed(
    group: Sequence[ir.Operation], results: Sequence[ir.Value], reductions: list[ir.Operation]
) -> ReductionAnalysis | NoMatch:
    anchor = max(reductions, key=lambda op: len(ops.iterator_types(op)))
    axes, row_sizes, sizes = _rows_and_columns(anchor)
    space = Space((Group("row", row_sizes), Group("column", sizes)))
    column_sizes = tuple(size for size in sizes if size is not None)
    if column_sizes != sizes or None in row_sizes[space.groups[ROW].dynamic :]:
        return NoMatch(Reason.DYNAMIC_SHAPE, "only the first dimensions of the rows may be dynamic")
    if 0 in (*row_sizes, *sizes):
        raise Unsupported(f"an empty {anchor.operands[0].type}")
    loops = loop_axes(space, group, axes, anchor=anchor)
    if any(None in ops.indexing_maps(op) for op in group):
        raise Unsupported("an operand that is not indexed by loops alone")
    stored = _maps_in_memory(loops, results)
    orders = [
        _in_memory(loops, stored, kind, each) for kind, each in ((ROW, row_sizes), (COLUMN, sizes))
    ]
    if any(map(ops.reads_index, group)):  # the first of equal elements is the one in loop order
        orders[COLUMN] = tuple(range(len(sizes)))
    if orders != [tuple(range(len(each))) for each in (row_sizes, sizes)]:
        row_sizes = tuple(row_sizes[axis] for axis in orders[ROW])
        column_sizes = tuple(column_sizes[axis] for axis in orders[COLUMN])
        axes = [(kind, orders[kind].index(axis)) for kind, axis in axes]
        space = Space((Group("row", row_sizes), Group("column", column_sizes)))
        loops = loop_axes(space, group, axes, anchor=anchor)
    if not set(results) <= {value for op in group for value in op.results}:
        raise Unsupported("a result that no op of the region computes")
    row_results = tuple(_row_results(loops, results))
    columns: list[Axis] = [(COLUMN, n) for n in range(len(column_sizes))]
    contiguous = _contiguous(loops, ROW, row_sizes, column_sizes)
    return ReductionAnalysis(
        tuple(group),
        {op: row_reductions.read(op, loops[op], columns) for op in reductions},
        tuple(results),
        row_sizes,
        column_sizes,
        loops,
        frozenset(_row_operands(loops)),
        row_results,
        contiguous,
        _contiguous(loops, COLUMN, row_sizes, column_sizes),
        any(_is_innermost(loops, value, row_sizes) for value in row_results)
        if contiguous == 1
        else 1 in _runs(loops, stored, ROW, row_sizes, column_sizes),
    )


def spans_rows(axes: Sequence[Axis | None]) -> bool:
    """Whether these axes are those of rows and columns."""
    return {(ROW, 0), (COLUMN, 0)} <= {*axes}


def _row_operands(loops: Mapping[ir.Operation, Sequence[Axis]]) -> set[ir.Value]:
    """The tensors from outside that have the rows and the columns."""
    inside, all_axes = {value for op in loops for value in op.results}, _all_axes(loops)
    found = set()
    for op, axes in loops.items():
        maps, arguments = ops.indexing_maps(op), ops.body(op).arguments
        for value, index_map, argument in zip(op.operands, maps, arguments, strict=True):
            used = value not in inside and list(argument.uses)
            if used and _has_rows(axes, index_map, all_axes):
                found.add(value)
    return found


def _row_results(
    loops: Mapping[ir.Operation, Sequence[Axis]], results: Sequence[ir.Value]
) -> list[ir.Value]:
    """The results that have the rows and the columns."""
    found, all_axes = [], _all_axes(loops)
    for op, axes in loops.items():
        outputs = ops.indexing_maps(op)[ops.num_inputs(op) :]
        for value, index_map in zip(op.results, outputs, strict=True):
            if value in results and _has_rows(axes, index_map, all_axes):
                found.append(value)
    return found


def _is_innermost(
    loops: Mapping[ir.Operation, Sequence[Axis]],
    result: ir.Value,
    row_sizes: Sequence[int | None],
) -> bool:
    """Whether adjacent rows are adjacent in the memory of a result."""
    op = result.owner.operation
    index_map = ops.indexing_maps(op)[ops.num_inputs(op) + list(op.results).index(result)]
    axes = [loops[op][loop] for loop in index_map or () if loop is not None]
    group, axis = axes[-1] if axes else (COLUMN, 0)
    return group == ROW and axis == len(row_sizes) - 1 and row_sizes[axis] != 1


def _maps_in_memory(
    loops: Mapping[ir.Operation, Sequence[Axis]], results: Sequence[ir.Value]
) -> list[tuple[ir.Operation, ops.IndexMap]]:
    """The ops and indexing maps of tensors from outside, and of those that are results."""
    inside, found = {value for op in loops for value in op.results}, []
    for op in loops:
        count, maps = ops.num_inputs(op), ops.indexing_maps(op)
        read = zip(ops.inputs(op), maps, strict=False)
        found += [(op, each) for value, each in read if each and value not in inside]
        made = zip(op.results, maps[count:], strict=True)
        found += [(op, each) for value, each in made if each and value in results]
    return found


def _in_memory(
    loops: Mapping[ir.Operation, Sequence[Axis]],
    stored: Sequence[tuple[ir.Operation, ops.IndexMap]],
    kind: int,
    sizes: Sequence[int | None],
) -> tuple[int, ...]:
    """The axes of rows, or of columns, in the order of most tensors in whose memory they are inner.

    That of the others does not matter. It is kept where such a tensor has other dimensions, and
    where sizes are dynamic.

    Args:
      loops: op -> the axis of each of its loops.
      stored: ops and indexing maps of tensors in memory.
      kind: the group of the axes.
      sizes: their sizes.
    """
    all_axes, kept, found = _all_axes(loops), tuple(range(len(sizes))), []
    for op, index_map in stored:
        if _has_rows(loops[op], index_map, all_axes):
            read = [loops[op][loop] for loop in index_map if loop is not None]
            order = tuple(axis for group, axis in read if group == kind)
            large = [axis for axis in read if axis[0] != kind or sizes[axis[1]] != 1]
            found += [order] if large and large[-1][0] == kind else []
    order = max(dict.fromkeys(found), key=found.count, default=kept)
    return order if None not in sizes and sorted(order) == list(kept) else kept


def _contiguous(
    loops: Mapping[ir.Operation, Sequence[Axis]],
    kind: int,
    row_sizes: Sequence[int | None],
    column_sizes: Sequence[int],
) -> int:
    """Rows, or columns, that are adjacent in the memory of most tensors with rows and columns."""
    maps = [(op, index_map) for op in loops for index_map in ops.indexing_maps(op)]
    found = _runs(loops, maps, kind, row_sizes, column_sizes)
    return max(set(found), key=found.count, default=1)


def _runs(
    loops: Mapping[ir.Operation, Sequence[Axis]],
    maps: Iterable[tuple[ir.Operation, ops.IndexMap | None]],
    kind: int,
    row_sizes: Sequence[int | None],
    column_sizes: Sequence[int],
) -> list[int]:
    """Rows, or columns, that are adjacent in the memory of each tensor with rows and columns."""
    all_axes, other = _all_axes(loops), COLUMN if kind == ROW else ROW
    found: list[int] = []
    for op, index_map in maps:
        if not _has_rows(loops[op], index_map, all_axes):
            continue
        count = 1
        for loop in reversed(index_map or ()):
            group, axis = (other, 0) if loop is None else loops[op][loop]
            size = (row_sizes if group == ROW else column_sizes)[axis]
            if group == other and size != 1:
                break
            count *= size or 1 if group == kind else 1
        found.append(count)
    return found


def _all_axes(loops: Mapping[ir.Operation, Sequence[Axis]]) -> set[Axis]:
    """The axes of rows and columns."""
    return {axis for axes in loops.values() for axis in axes}


def _has_rows(loops: Sequence[Axis], index_map: ops.IndexMap | None, all_axes: set[Axis]) -> bool:
    """Whether a tensor has the rows and the columns."""
    return all_axes <= {loops[loop] for loop in index_map or () if loop is not None}


def _rows_and_columns(
    anchor: ir.Operation,
) -> tuple[list[Axis], tuple[int | None, ...], tuple[int | None, ...]]:
    """The axis of each loop of a reduction, and the sizes of the rows and of the columns."""
    kinds, sizes = ops.iterator_types(anchor), ops.loop_sizes(anchor)
    rows = [n for n, kind in enumerate(kinds) if kind == "parallel"]
    columns = [n for n, kind in enumerate(kinds) if kind == "reduction"]
    axes: list[Axis] = [
        (ROW, rows.index(n)) if n in rows else (COLUMN, columns.index(n)) for n in range(len(kinds))
    ]
    return axes, tuple(sizes[n] for n in rows) or (1,), tuple(sizes[n] for n in columns)
