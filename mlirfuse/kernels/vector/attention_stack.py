"""The stack of a workgroup of attention, in f32.

scores          [keys of a block][queries]
statistics      maxima, sums, factors of the accumulators, maxima or 0, [4][queries]
accumulators    [queries][head size of v], where keys have several blocks or tile registers
queries         [head size][queries], where vectors multiply them
"""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.vector.lane_math import LaneMath
from mlirfuse.kernels.vector.writer import Linear, linear

_STATISTICS = ("maxima", "sums", "factors", "references")
"""Rows of the stack, one number for each query."""

STATISTICS = len(_STATISTICS)


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """Places on the stack, in elements.

    Attributes:
      width: queries of a tile.
      keys: keys of a block.
      columns: elements of a row of accumulators, a multiple of the vectors' lanes; 0 for none.
      query_rows: elements of each query; 0 where queries are not on the stack.
    """

    width: int
    keys: int
    columns: int
    query_rows: int

    @property
    def statistics(self) -> int:
        """The place of the statistics, which is behind the scores."""
        return self.keys * self.width

    @property
    def accumulators(self) -> int:
        """The place of the accumulators."""
        return self.statistics + STATISTICS * self.width

    @property
    def queries(self) -> int:
        """The place of the queries."""
        return self.accumulators + self.width * self.columns

    @property
    def size(self) -> int:
        """All elements."""
        return self.queries + self.query_rows * self.width


class AttentionStack:
    """Reads and writes the stack of one kind of tile."""

    def __init__(self, math: LaneMath, layout: Layout, buffer: str, kind: str) -> None:
        self.math, self.layout, self.buffer, self.kind = math, layout, buffer, kind
        self.writer, self.lanes = math.writer, math.body.lanes

    def load(self, at: Linear) -> str:
        """A vector."""
        place = self.writer.index(at)
        return self.writer.value(
            f"vector.load {self.buffer}[{place}] : {self.kind}, {self.math.kind}"
        )

    def store(self, vector: str, at: Linear) -> None:
        """Stores a vector."""
        place = self.writer.index(at)
        self.writer.line(
            f"vector.store {vector}, {self.buffer}[{place}] : {self.kind}, {self.math.kind}"
        )

    def in_all_lanes(self, at: Linear) -> str:
        """One number, in all lanes."""
        return self.math.broadcast_f32(self.buffer, self.kind, at)

    def score(self, key: Linear, vector: int | Linear) -> Linear:
        """The place of a vector of scores of a key of the block."""
        return key * self.layout.width + linear(vector) * self.lanes

    def accumulator(self, query: Linear, column: int) -> Linear:
        """The place of a vector of accumulators of a query of the tile."""
        return query * self.layout.columns + (self.layout.accumulators + column * self.lanes)

    def kept(self, name: str, vector: int | Linear) -> str:
        """A statistic of a vector of queries."""
        return self.load(linear(vector) * self.lanes + self._place(name))

    def keep(self, name: str, vector: int | Linear, value: str) -> None:
        """Sets a statistic of a vector of queries."""
        self.store(value, linear(vector) * self.lanes + self._place(name))

    def statistic(self, name: str, query: Linear) -> str:
        """A statistic of one query, in all lanes."""
        return self.in_all_lanes(query + self._place(name))

    def _place(self, name: str) -> int:
        return self.layout.statistics + _STATISTICS.index(name) * self.layout.width
