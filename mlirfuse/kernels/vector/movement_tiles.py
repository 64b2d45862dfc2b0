"""The kernel of elementwise ops some of whose operands are transposed.

for each block of rows, each vector of columns
  load a vector of rows of each column, and transpose the tile in registers
  compute and store each row
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.vector.joined import Piece
from mlirfuse.kernels.vector.movement_kernel import MAX_VECTORS, MovementKernel, interleaved
from mlirfuse.kernels.vector.pointwise import Position
from mlirfuse.kernels.vector.writer import Linear, linear, operations
from mlirfuse.targets.base import CpuDevice


class TransposingKernel(MovementKernel):
    """Writes one kernel.

    Args:
      group: the ops, in block order.
      results: their results.
      sizes: sizes of the axes of several elements.
      device: the CPU.
      axis: the axis of the rows, whose elements are adjacent in transposed operands.
    """

    def __init__(
        self,
        group: Sequence[ir.Operation],
        results: Sequence[ir.Value],
        sizes: Sequence[int],
        device: CpuDevice,
        axis: int,
    ) -> None:
        super().__init__(group, results, sizes, 1, None, [Piece(0, sizes[-1])], device)
        self.axis = self.body.across = axis
        self._extent = self.outer[axis]
        self.outer[axis] = -(-self._extent // self.lanes)

    def _vectors(self, piece: Piece) -> int:
        """Vectors of an iteration, in each row."""
        return 1

    def _step(self, piece: Piece, number: Linear, outer: Sequence[Linear]) -> list[str]:
        """Writes a tile; the last ones end with the last row, or column."""
        column = number * self.lanes
        if piece.count % self.lanes:
            column = linear(self.writer.binary("minsi", column, piece.count - self.lanes))
        row = outer[self.axis] * self.lanes
        if self._extent % self.lanes:
            row = linear(self.writer.binary("minsi", row, self._extent - self.lanes))
        self._write_tile(outer, row, column)
        return []

    def _write_tile(self, outer: Sequence[Linear], row: Linear, column: Linear) -> None:
        """Writes a tile from a row and a column on; its first row transposes the operands."""
        self.body.forget()

        def write(number: int) -> None:
            index = [*outer, column]
            index[self.axis] = row + number
            self._write(Position((number,), tuple(index)))

        write(0)
        for first in range(1, self.lanes, MAX_VECTORS):
            before, parts = len(self.writer.lines), list[list[str]]()
            for number in range(first, min(first + MAX_VECTORS, self.lanes)):
                write(number)
                parts.append(self.writer.lines[before:])
                del self.writer.lines[before:]
            self.writer.lines += interleaved(parts)
        self.body.forget()

    def _work(self, piece: Piece) -> int:
        """Operations for an element of a piece in all rows of a tile."""
        before = len(self.writer.lines)
        self._write_tile([Linear()] * len(self.outer), Linear(), Linear())
        lines = self.writer.lines[before:]
        del self.writer.lines[before:]
        return operations(lines)
