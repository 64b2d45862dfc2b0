"""The passes over the columns that a region's dependent reductions need, and the ops of each.

A softmax is two: a pass gives the maximum and the sum of exponentials, another one the quotients.
So is a layer norm: a pass gives the mean and the sum of squares around it. An argmax is one. Values
of rows alone are computed once, between the passes; values of columns again in each pass that needs
them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.row_reductions import reduces
from mlirfuse.kernels.reduction.analysis import COLUMN, ReductionAnalysis
from mlirfuse.kernels.reduction.centered_sums import CenteredSum, centered_sum
from mlirfuse.kernels.reduction.extreme_positions import ExtremePosition, extreme_position
from mlirfuse.structured.ir import ops

Centered = CenteredSum | ExtremePosition
"""A reduction around a value of rows that the same pass over the columns gives."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pass:
    """One pass over the columns.

    Attributes:
      ops: ops over columns that it computes, in block order.
      reductions: reductions that it completes.
      stored: results with columns that it writes.
    """

    ops: tuple[ir.Operation, ...]
    reductions: tuple[ir.Operation, ...]
    stored: tuple[ir.Value, ...]


class Levels:
    """How many passes each value of a region waits for.

    Attributes:
      analysis: the region.
      of_op: op -> reductions, one after the other, before its results are known; a reduction is
        one of them.
      centered: sum around a value of rows, or position of one -> its terms, where the pass that
        gives this value gives the sum, too.
    """

    def __init__(self, analysis: ReductionAnalysis) -> None:
        self.analysis = analysis
        self.of_op: dict[ir.Operation, int] = {}
        owners = {value: op for op in analysis.group for value in op.results}
        self._producers = {
            op: [owners[v] for v in read_operands(op) if v in owners] for op in analysis.group
        }
        self.centered: dict[ir.Operation, Centered] = {}
        self._centers: dict[ir.Operation, list[ir.Operation]] = {}
        for op in analysis.group:
            self.of_op[op] = self._level(self._producers[op]) + reduces(op)
            if not reduces(op):
                continue
            found = centered_sum(analysis, op) or extreme_position(analysis, op)
            if found is None:
                continue
            values = [owners[v] for part in found.of_columns for v in part.operands if v in owners]
            centers = [owners[v] for v in found.center.operands if v in owners]
            level = max(self._level(values) + 1, self._level(centers))
            if level < self.of_op[op]:
                self.of_op[op], self.centered[op] = level, found
                self._producers[op], self._centers[op] = values, centers

    def _level(self, producers: Iterable[ir.Operation]) -> int:
        return max((self.of_op[op] for op in producers), default=0)

    @property
    def depth(self) -> int:
        """The longest chain of reductions."""
        return max(self.of_op[op] for op in self.analysis.reductions)

    def has_columns(self, op: ir.Operation) -> bool:
        """Whether an op computes a value for each column."""
        return not reduces(op) and any(g == COLUMN for g, _ in self.analysis.loops[op])

    def of_rows(self, level: int) -> list[ir.Operation]:
        """The ops over rows alone that a level completes, in block order.

        Sums around a value of rows are among them: this value is.
        """
        return [
            op
            for op in self.analysis.group
            if self.of_op[op] == level
            and (op in self.centered or not (reduces(op) or self.has_columns(op)))
        ]

    def reductions(self, level: int) -> list[ir.Operation]:
        """The reductions of a level."""
        return [op for op in self.analysis.reductions if self.of_op[op] == level]

    def stored(self, level: int) -> list[ir.Value]:
        """The results with columns that a level completes."""
        return [
            value
            for value in self.analysis.results
            if self.has_columns(value.owner.operation)
            and self.of_op[value.owner.operation] == level
        ]

    def pass_of(self, reductions: Sequence[ir.Operation], stored: Sequence[ir.Value]) -> Pass:
        """The pass that completes some reductions and writes some results."""
        return Pass(
            tuple(self.columns_for([*reductions, *(v.owner.operation for v in stored)])),
            tuple(reductions),
            tuple(stored),
        )

    def needed(self, wanted: Iterable[ir.Operation], known: int) -> set[ir.Operation]:
        """The ops that some ops are computed from, and these.

        Args:
          wanted: the ops.
          known: the level up to which reductions are known.
        """
        found: set[ir.Operation] = set()
        work = list(wanted)
        while work:
            op = work.pop()
            if reduces(op) and self.of_op[op] <= known:
                # Their parts are known, not yet around the center.
                work += [center for center in self._centers.get(op, ()) if center not in found]
            elif op not in found:
                found.add(op)
                work += self._producers[op]
        return found

    def columns_for(self, wanted: Iterable[ir.Operation]) -> list[ir.Operation]:
        """The ops over columns that these read or are."""
        needed: set[ir.Operation] = set()
        work = [op for op in wanted if self.has_columns(op)]
        work += [p for op in wanted if reduces(op) for p in self._producers[op]]
        while work:
            op = work.pop()
            if op not in needed and self.has_columns(op):
                needed.add(op)
                work += self._producers[op]
        return [op for op in self.analysis.group if op in needed]


def read_operands(op: ir.Operation) -> list[ir.Value]:
    """The operands of an op that its body reads."""
    arguments = ops.body(op).arguments
    pairs = zip(op.operands, arguments, strict=True)
    return [value for value, argument in pairs if list(argument.uses)]
