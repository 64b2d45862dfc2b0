"""Reads a region that reduces rows, for a kernel on a CPU.

Rows are the loops that reductions keep, columns those that they reduce. A reduction may be taken in
two steps, as `softmax_fusion` writes it for IREE's tiles: first to one number for each lane.

    %m = maximum over K {%x}        tensor<RxKxL> -> tensor<RxL>
    %n = maximum over L {%m}        tensor<RxL> -> tensor<R>
  reads as
    %n = maximum over K, L {%x}
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.combiners import COMBINERS
from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.iteration_space import Axis, Conflict, Group, Space, loop_axes
from mlirfuse.structured.ir import ops

ROW, COLUMN = 0, 1
"""The groups of the iteration space."""


@dataclasses.dataclass(frozen=True, slots=True)
class RowReduction:
    """A reduction of all columns of each row to a number.

    Attributes:
      op: the op that reads the columns.
      number: which result of it.
      combine: the combining op in its scalar body.
      term: the scalar that it combines with the accumulator.
      init: the accumulator's first value.
      value: the reduced tensor: the result of `op`, or of the op that combines its lanes.
    """

    op: ir.Operation
    number: int
    combine: ir.Operation
    term: ir.Value
    init: float | int
    value: ir.Value

    @property
    def element(self) -> str:
        """The element type of the result."""
        return ops.element_type(self.value)


@dataclasses.dataclass(frozen=True, slots=True)
class RowAnalysis:
    """Reductions of rows, with the elementwise ops around them.

    Attributes:
      group: ops in block order, without those that combine lanes.
      reductions: the reductions, in block order.
      results: values that the region returns.
      row_sizes: sizes of the axes that reductions keep.
      column_sizes: sizes of the others, the innermost in memory last.
      loops: op -> the axis of each of its loops.
      by_lanes: whether a reduction is written in two steps, for IREE's tiles.
      segment_axes: the first axes of the columns, which have loops of their own; the others are
        contiguous in each tensor that has one of them.
    """

    group: tuple[ir.Operation, ...]
    reductions: tuple[RowReduction, ...]
    results: tuple[ir.Value, ...]
    row_sizes: tuple[int, ...]
    column_sizes: tuple[int, ...]
    loops: Mapping[ir.Operation, Sequence[Axis]]
    by_lanes: bool
    segment_axes: int = 0

    @property
    def num_segments(self) -> int:
        """The segments of contiguous columns of a row."""
        return math.prod(self.column_sizes[: self.segment_axes])

    @property
    def contiguous_columns(self) -> int:
        """The columns of a segment."""
        return math.prod(self.column_sizes[self.segment_axes :])

    def accumulates(self, op: ir.Operation, argument: ir.BlockArgument) -> bool:
        """Whether an argument of an op's body is the accumulator of a reduction."""
        number = argument.arg_number - ops.num_inputs(op)
        return any(one.op == op and one.number == number for one in self.reductions)


def reducing(group: Sequence[ir.Operation]) -> list[ir.Operation]:
    """The ops with a reduction loop."""
    return [op for op in group if "reduction" in ops.iterator_types(op)]


def analyze(group: Sequence[ir.Operation], results: Sequence[ir.Value]) -> RowAnalysis:
    """Reads ops of static sizes, some of which reduce.

    Args:
      group: the ops of a region that compute something, in block order: all of them structured.
      results: the values that it returns.

    Raises:
      Conflict: the ops do not have the rows and the columns in common.
      Unsupported: there is no kernel for an op.
    """
    if any(None in ops.indexing_maps(op) for op in group):
        raise Unsupported("an operand that is not indexed by loops alone")
    folds = _folds(group)
    reductions = [
        _reduction(op, number, folds)
        for op in reducing(group)
        if op not in folds.values()
        for number in range(len(op.results))
        if _reduces(op, number)
    ]
    anchor = max(reductions, key=lambda r: len(ops.iterator_types(r.op)))
    sizes = ops.loop_sizes(anchor.op)
    rows = _kept(anchor, folds)
    columns = _columns_in_memory(anchor.op, [n for n in range(len(sizes)) if n not in rows])
    row_sizes = tuple(sizes[n] or 0 for n in rows) or (1,)
    column_sizes = tuple(sizes[n] or 0 for n in columns)
    axes: list[Axis] = [
        (ROW, rows.index(n)) if n in rows else (COLUMN, columns.index(n)) for n in range(len(sizes))
    ]
    space = Space((Group("row", row_sizes), Group("column", column_sizes)))
    loops = loop_axes(space, group, axes, anchor=anchor.op)
    whole = {(COLUMN, n) for n in range(len(columns))}
    for one in reductions:
        kept = {loops[one.op][loop] for loop in _kept(one, folds)}
        if whole & kept or not whole <= set(loops[one.op]):
            raise Conflict
    members = tuple(op for op in group if op not in folds.values())
    found = RowAnalysis(
        members, tuple(reductions), tuple(results), row_sizes, column_sizes, loops, bool(folds)
    )
    return dataclasses.replace(found, segment_axes=_segment_axes(found))


def _reduces(op: ir.Operation, number: int) -> bool:
    """Whether a result of an op lacks one of its reduction loops."""
    kinds = ops.iterator_types(op)
    index_map = ops.plain_maps(op)[ops.num_inputs(op) + number]
    return any(kind == "reduction" and n not in index_map for n, kind in enumerate(kinds))


def _combine(op: ir.Operation, number: int) -> tuple[ir.Operation, ir.Value]:
    """The op that combines an accumulator with a term, and the term.

    Raises:
      Unsupported: the accumulator is updated in another way.
    """
    block = ops.body(op)
    last = list(block.operations)[-1].operation
    accumulator = block.arguments[ops.num_inputs(op) + number]
    made = last.operands[number]
    if not isinstance(made.owner, ir.Block):
        combine = made.owner.operation
        terms = [value for value in combine.operands if value != accumulator]
        if combine.name in COMBINERS and len(terms) == 1:
            once = len(list(accumulator.uses)) == 1 and len(list(made.uses)) == 1
            if once and combine.parent.operation == op:
                return combine, terms[0]
    raise Unsupported(f"the reduction of {ops.described(op)}")


def _init(op: ir.Operation, number: int) -> float | int:
    init = ops.constant(op.operands[ops.num_inputs(op) + number])
    if init is None:
        raise Unsupported(f"the init of {ops.described(op)}, which is no constant")
    return init


def _folds(group: Sequence[ir.Operation]) -> dict[ir.Value, ir.Operation]:
    """Values with one number for each lane -> the op that combines the lanes."""
    found: dict[ir.Value, ir.Operation] = {}
    made = {op.results[n]: (op, n) for op in reducing(group) for n in range(len(op.results))}
    for op in reducing(group):
        source = op.operands[0]
        if ops.num_inputs(op) != 1 or len(op.results) != 1 or source not in made:
            continue
        before, number = made[source]
        if not _reduces(before, number) or ops.users(source) != [op]:
            continue
        combine, term = _combine(op, 0)
        first, _ = _combine(before, number)
        kind = ops.element_type(source)
        plain = term == ops.body(op).arguments[0] and combine.name == first.name
        if plain and COMBINERS[first.name].ignores(_init(before, number), kind):
            found[source] = op
    return found


def _reduction(
    op: ir.Operation, number: int, folds: Mapping[ir.Value, ir.Operation]
) -> RowReduction:
    combine, term = _combine(op, number)
    last, value = op, op.results[number]
    if value in folds:
        last, value = folds[value], folds[value].results[0]
    init = _init(last, number if last == op else 0)
    COMBINERS[combine.name].accumulator(ops.element_type(value))
    return RowReduction(op, number, combine, term, init, value)


def _kept(one: RowReduction, folds: Mapping[ir.Value, ir.Operation]) -> list[int]:
    """The loops of the op over rows, those of the lanes left out."""
    maps = ops.plain_maps(one.op)
    kept = list(maps[ops.num_inputs(one.op) + one.number])
    last = folds.get(one.op.results[one.number])
    if last is not None:
        read, written = ops.plain_maps(last)
        kept = [kept[read.index(loop)] for loop in written if loop is not None]
    return sorted(loop for loop in kept if loop is not None)


def _columns_in_memory(op: ir.Operation, columns: list[int]) -> list[int]:
    """The loops over columns in the order in which an operand has them, those of size 1 first."""
    sizes = ops.loop_sizes(op)
    for index_map in ops.plain_maps(op):
        if set(columns) <= set(index_map):
            columns = [loop for loop in index_map if loop in columns]
            break
    return sorted(columns, key=lambda loop: sizes[loop] != 1)


def _segment_axes(analysis: RowAnalysis) -> int:
    """The fewest axes of the columns without which the others are contiguous; else all of them."""
    sizes = analysis.column_sizes
    first = next((n for n, size in enumerate(sizes) if size != 1), len(sizes) - 1)
    for count in range(first, len(sizes)):
        whole = [(COLUMN, n) for n in range(count, len(sizes)) if sizes[n] != 1]
        if are_contiguous(analysis, whole):
            return count
    return len(sizes)


def are_contiguous(analysis: RowAnalysis, axes: Sequence[Axis]) -> bool:
    """Whether each tensor in memory has none of these axes, or all of them as its last dimensions.

    Args:
      analysis: a region that reduces.
      axes: axes of more than one element, the innermost last.
    """
    chosen = set(axes)
    for read in accesses(analysis):
        before, last = read[: -len(axes)], read[-len(axes) :]
        if not chosen.isdisjoint(read) and (last != list(axes) or not chosen.isdisjoint(before)):
            return False
    return True


def accesses(analysis: RowAnalysis) -> Iterator[list[Axis]]:
    """The axes of the dimensions, those of size 1 left out, of each tensor in memory."""
    made = {value for op in analysis.group for value in op.results}
    for op in analysis.group:
        read = [ops.is_read(argument) for argument in ops.body(op).arguments]
        tensors = zip([*op.operands, *op.results], _maps_with_results(op), strict=True)
        for number, (value, index_map) in enumerate(tensors):
            in_memory = value not in made or value in analysis.results
            if in_memory and (number >= len(read) or read[number]):
                dims = zip(index_map, ops.shape(value), strict=True)
                loops = analysis.loops[op]
                yield [loops[n] for n, size in dims if n is not None and size != 1]


def _maps_with_results(op: ir.Operation) -> list[ops.IndexMap]:
    maps = list(ops.plain_maps(op))
    return maps + maps[ops.num_inputs(op) :]
