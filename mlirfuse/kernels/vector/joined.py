"""Elementwise ops around a concatenation: one piece of the result at a time, from one part.

body = Joined(writer, lanes, members, sizes, merged=1, joined=found)
body.piece = Piece(part, begin=64, count=32)
body.vector(result, axes, position)     of a position in that piece
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.indices import sliced
from mlirfuse.kernels.data_movement.analysis import ConcatAnalysis, Part
from mlirfuse.kernels.vector.indexed import Indexed, NotMerged, as_indices
from mlirfuse.kernels.vector.pointwise import Axes, Position
from mlirfuse.kernels.vector.writer import Writer
from mlirfuse.structured.ir import ops

SLICE = "tensor.extract_slice"


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """Elements of the result that come from one part of a concatenation.

    Attributes:
      begin: the first of them in the merged axes.
      count: their number there.
      part: the part; None where nothing is concatenated.
      rows: indices of the axis of the concatenation; 0 where it is one of the merged ones.
    """

    begin: int
    count: int
    part: Part | None = None
    rows: int = 0


def pieces(found: ConcatAnalysis, *, merged: bool) -> list[Piece]:
    """The pieces of a concatenation.

    Args:
      found: the concatenation.
      merged: whether its axis is the first of the merged ones, and not the one before them.
    """
    inner = found.inner
    if merged:
        return [Piece(part.start * inner, part.size * inner, part) for part in found.parts]
    return [Piece(0, inner, part, part.size) for part in found.parts]


class Joined(Indexed):
    """Writes the elementwise ops of one kernel.

    Args:
      writer: the lines of the kernel.
      lanes: elements of a vector.
      members: ops that the kernel computes.
      sizes: the sizes of the kernel's axes, each of several elements.
      merged: how many of the last ones are one.
      joined: the concatenation; None without one.
      gathers: as of `Indexed`.

    Attributes:
      piece: the piece that is written.
    """

    def __init__(
        self,
        writer: Writer,
        lanes: int,
        members: Collection[ir.Operation],
        sizes: Sequence[int],
        merged: int,
        joined: ConcatAnalysis | None,
        *,
        gathers: bool = False,
    ) -> None:
        super().__init__(writer, lanes, members, sizes, merged, gathers=gathers)
        self.piece: Piece | None = None
        self._joined = joined
        self._rank = len(sizes)
        self._inner = math.prod(sizes[len(sizes) - merged + 1 :])
        self._axis = len(sizes) - merged - 1

    def _vector(self, value: ir.Value, axes: Axes, position: Position) -> str:
        op = ops.defining_op(value)
        if self._joined is not None and value == self._joined.result:
            return self._of_part(axes, position)
        if op is not None and op.name == SLICE and (self.computes(op) or ops.in_region(op)):
            return self._of_slice(op, axes, position)
        return super()._vector(value, axes, position)

    def _of_part(self, axes: Axes, position: Position) -> str:
        """The lanes of the concatenation, in the part of the current piece."""
        assert self._joined is not None
        assert self.piece is not None
        assert self.piece.part is not None
        shape = ops.shape(self._joined.result)
        several = [axis for axis, size in zip(axes, shape, strict=True) if size != 1]
        if several != list(range(self._rank)):
            raise Unsupported("a concatenation that is read in another order")
        index, part = list(position.index), self.piece.part
        if self.piece.rows:
            index[self._axis] += -part.start
        else:
            index[-1] += -self.piece.begin
        key = (*position.key, "part")
        moved = dataclasses.replace(position, key=key, index=tuple(index))
        dim, sizes = self._joined.axis, list(shape)
        if len(ops.shape(part.value)) < len(shape):  # the part has no dimension for its one index
            axes, sizes = (*axes[:dim], *axes[dim + 1 :]), sizes[:dim] + sizes[dim + 1 :]
        else:
            sizes[dim] = part.size
        if ops.shape(part.value) != tuple(sizes):
            raise Unsupported("a part of other dimensions than the concatenation")
        return self.vector(part.value, axes, moved)

    def _of_slice(self, op: ir.Operation, axes: Axes, position: Position) -> str:
        """The lanes of a slice, in its source."""
        boxes = ops.static_slice(op)
        if boxes is None or len(boxes) != len(axes):
            return self._of_strided(op, axes, position)
        index = list(position.index)
        for axis, (offset, _) in zip(axes, boxes, strict=True):
            if not offset:
                continue
            if axis is None or not isinstance(axis, int):
                raise Unsupported("a slice of one element")
            if axis in self._merged[1:]:
                raise NotMerged("a slice of an axis that is merged with others")
            merged = axis in self._merged
            index[-1 if merged else axis] += offset * (self._inner if merged else 1)
        key = (*position.key, *(offset for offset, _ in boxes))
        moved = dataclasses.replace(position, key=key, index=tuple(index))
        return self.vector(op.operands[0], axes, moved)

    def _of_strided(self, op: ir.Operation, axes: Axes, position: Position) -> str:
        """The lanes of a slice with strides, or of fewer dimensions, in its source."""
        index = sliced(op, as_indices(axes))
        if index is None:
            raise Unsupported("a slice at a dynamic offset")
        return self.vector(op.operands[0], tuple(map(self.place, index)), position)
