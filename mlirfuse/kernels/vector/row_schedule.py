"""The loops over the columns of a row: which of them computes, stores and keeps a value.

Loop n takes the reductions that wait for those of loop n - 1, and writes the results that wait for
them. A value that is expensive and that a later loop reads again is kept: in the result that it is,
on the stack, or in the place of a result that is written later. All others are recomputed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.iteration_space import Axis
from mlirfuse.kernels.vector.row_analysis import COLUMN, ROW, RowAnalysis, RowReduction
from mlirfuse.structured.ir import ops

STACK_BYTES = 24 << 10
"""Bytes of a thread's stack for the values of a row, of the 32 KiB that IREE allows a dispatch."""

CHEAP_MATH = frozenset({"math.absf", "math.fma", "math.copysign", "math.floor", "math.ceil"})
"""Ops of `math` that are one instruction or two."""

EXPENSIVE = frozenset({"arith.divf", "arith.remf", "arith.divsi", "arith.divui"})
"""Ops of `arith` that take many cycles."""


@dataclasses.dataclass(frozen=True, slots=True)
class Home:
    """The memory in which a value of a row is kept.

    Attributes:
      loop: the loop that stores it.
      result: number of the result whose memory it is; None on the stack.
    """

    loop: int
    result: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Schedule:
    """The loops over the columns.

    Attributes:
      levels: op -> the loop before which all that it reads has been reduced.
      reductions: for each loop the reductions that it takes.
      results: for each loop the numbers of the results with columns that it writes.
      row_results: the numbers of the results without columns.
      homes: value -> where it is kept.
      stack_bytes: bytes of a row's values on the stack.
    """

    levels: dict[ir.Operation, int]
    reductions: tuple[tuple[RowReduction, ...], ...]
    results: tuple[tuple[int, ...], ...]
    row_results: tuple[int, ...]
    homes: dict[ir.Value, Home]
    stack_bytes: int


def has_columns(analysis: RowAnalysis, axes: Iterable[Axis | None]) -> bool:
    """Whether one of these axes is a column of more than one element."""
    return any(a is not None and a[0] == COLUMN and analysis.column_sizes[a[1]] > 1 for a in axes)


def result_axes(analysis: RowAnalysis, value: ir.Value) -> tuple[Axis | None, ...]:
    """The axes of a value's dimensions."""
    op = value.owner.operation
    index_map = ops.plain_maps(op)[ops.num_inputs(op) + list(op.results).index(value)]
    axes = analysis.loops[op]
    return tuple(None if loop is None else axes[loop] for loop in index_map)


def schedule(analysis: RowAnalysis, *, keeps: bool = True) -> Schedule:
    """Distributes the work over loops.

    Args:
      analysis: the region.
      keeps: whether values are kept from one loop to the next.

    Raises:
      Unsupported: a result lacks some of the rows.
    """
    return _Scheduler(analysis, keeps).schedule()


class _Scheduler:
    def __init__(self, analysis: RowAnalysis, keeps: bool) -> None:
        self.analysis, self.keeps = analysis, keeps
        self.reduced = {one.value: one for one in analysis.reductions}
        self.levels: dict[ir.Operation, int] = {}
        for op in analysis.group:
            self.levels[op] = max((self._level(v) for v in _read(op)), default=0)

    def _level(self, value: ir.Value) -> int:
        if value in self.reduced:
            return self.levels[self.reduced[value].op] + 1
        op = ops.defining_op(value)
        return 0 if op is None else self.levels.get(op, 0)

    def schedule(self) -> Schedule:
        analysis = self.analysis
        wide: list[int] = []
        for number, value in enumerate(analysis.results):
            axes = result_axes(analysis, value)
            for row, size in enumerate(analysis.row_sizes):
                if size > 1 and (ROW, row) not in axes:
                    raise Unsupported("a result without the rows")
            if value not in self.reduced and has_columns(analysis, axes):
                wide.append(number)
        last = max(self.levels[one.op] for one in analysis.reductions)
        last = max(last, *(self._level(analysis.results[n]) for n in wide), 0)
        loops = range(last + 1)
        reductions = tuple(
            tuple(one for one in analysis.reductions if self.levels[one.op] == n) for n in loops
        )
        results = tuple(
            tuple(r for r in wide if self._level(analysis.results[r]) == n) for n in loops
        )
        narrow = tuple(n for n in range(len(analysis.results)) if n not in wide)
        homes = self._homes(reductions, results) if self.keeps else {}
        stacked = sum(self._row_bytes(v) for v, home in homes.items() if home.result is None)
        return Schedule(self.levels, reductions, results, narrow, homes, stacked)

    def _row_bytes(self, value: ir.Value) -> int:
        return math.prod(self.analysis.column_sizes) * ops.element_bits(value) // 8

    def _homes(
        self,
        reductions: tuple[tuple[RowReduction, ...], ...],
        results: tuple[tuple[int, ...], ...],
    ) -> dict[ir.Value, Home]:
        analysis = self.analysis
        homes: dict[ir.Value, Home] = {}
        written = {r: n for n, numbers in enumerate(results) for r in numbers}
        # A value on the stack has one index for its columns.
        free = STACK_BYTES if analysis.num_segments == 1 else 0
        for op in reversed(analysis.group):
            for value in op.results:
                if value in self.reduced or not self._is_row(value):
                    continue
                read_in = [
                    n
                    for n in range(len(results))
                    if value in self._needed(reductions[n], results[n], homes, n)
                ]
                if len(read_in) < 2:
                    continue
                own = [r for r in written if analysis.results[r] == value]
                if own:
                    homes[value] = Home(written[own[0]], own[0])
                    continue
                if not is_expensive(op):
                    continue
                size = self._row_bytes(value)
                taken = {home.result for home in homes.values()}
                places = [
                    r
                    for r, n in written.items()
                    if n >= read_in[-1]
                    and r not in taken
                    and ops.element_type(analysis.results[r]) == ops.element_type(value)
                ]
                if size <= free:
                    free -= size
                    homes[value] = Home(read_in[0], None)
                elif places:
                    homes[value] = Home(read_in[0], places[0])
        return homes

    def _is_row(self, value: ir.Value) -> bool:
        """Whether a value has an element for each column, which memory can hold."""
        axes = {a for a in result_axes(self.analysis, value) if a is not None}
        whole = {(COLUMN, n) for n, size in enumerate(self.analysis.column_sizes) if size > 1}
        return whole <= axes and ops.element_bits(value) >= 8

    def _needed(
        self,
        reductions: tuple[RowReduction, ...],
        results: tuple[int, ...],
        homes: dict[ir.Value, Home],
        loop: int,
    ) -> set[ir.Value]:
        """The values with columns that a loop reads: computed, or from their homes."""
        work = [v for one in reductions for v in (*_read(one.op), *one.op.results)]
        work += [self.analysis.results[r] for r in results]
        seen: set[ir.Value] = set()
        while work:
            value = work.pop()
            op = ops.defining_op(value)
            if value in seen or op not in self.levels or value in self.reduced:
                continue
            seen.add(value)
            if value not in homes or homes[value].loop >= loop:
                work += _read(op)
        return seen


def _read(op: ir.Operation) -> list[ir.Value]:
    """The operands that the body of an op reads."""
    pairs = zip(op.operands, ops.body(op).arguments, strict=True)
    return [value for value, argument in pairs if list(argument.uses)]


def is_expensive(op: ir.Operation) -> bool:
    """Whether an element costs more to compute again than to store and to load."""
    names = [inner.operation.name for inner in ops.body(op).operations]
    return any(n in EXPENSIVE or (n.startswith("math.") and n not in CHEAP_MATH) for n in names)
