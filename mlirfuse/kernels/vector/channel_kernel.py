"""Results of a kernel whose last axis are channels: vectors of them, the epilogue, stores."""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.vector.executable import VectorKernel, memref
from mlirfuse.kernels.vector.lane_math import LaneMath
from mlirfuse.kernels.vector.pointwise import Pointwise, Position
from mlirfuse.kernels.vector.tiled import Tiled
from mlirfuse.kernels.vector.writer import Linear, Writer, linear
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice


class ChannelKernel:
    """Writes what kernels with tiles of channels have in common.

    Attributes:
      problem: the computation.
      vectors: vectors of channels of a tile.
      column: the first channel of the current tile.
      masks: the channels of each of its vectors that exist; empty where all do.
    """

    def __init__(
        self, problem: Tiled, vectors: int, device: CpuDevice, body: Pointwise | None = None
    ) -> None:
        self.problem, self.vectors, self.device = problem, vectors, device
        self.body = Pointwise(Writer(), device.lanes) if body is None else body
        self.writer = self.body.writer
        self.lanes = device.lanes
        self.math = LaneMath(self.body, device)
        self.accumulator = ops.element_type(problem.value)
        self.kind = self.body.vector_type(self.accumulator)
        self.image = self.body.buffer(problem.image)
        self.column = Linear()
        self.masks = [""] * vectors

    @property
    def tiles(self) -> int:
        """The number of tiles of channels."""
        return -(-self.problem.columns // (self.vectors * self.lanes))

    def _kernel(self, entry: str, grid: tuple[int, int]) -> VectorKernel:
        """The kernel, when all is written."""
        return self.body.kernel(entry, self.problem.results, grid)

    def _contiguous(self, result: ir.Value, axis: int | None = None) -> bool:
        """Whether an axis, that of the channels if none is given, is a result's last dimension."""
        wanted = len(self.problem.extents) - 1 if axis is None else axis
        return self.problem.axes[result][-1] == wanted

    def _write_masks(self) -> None:
        """Writes the masks of the vectors of a tile that may be beyond the last channel."""
        rest = self.problem.columns % (self.vectors * self.lanes)
        self.masks = [""] * self.vectors
        for vector in range(rest // self.lanes if rest else self.vectors, self.vectors):
            start = self.writer.index(self.column + vector * self.lanes)
            columns = self.writer.index(self.problem.columns)
            left = self.writer.value(f"arith.subi {columns}, {start} : index")
            kind = self.body.vector_type("i1")
            self.masks[vector] = self.writer.value(f"vector.create_mask {left} : {kind}")
            self.body.add_mask(self.masks[vector], left, self.device)

    def _finish(self, sums: Sequence[str], positions: Sequence[Position]) -> None:
        """Writes the epilogue of one row of a tile."""
        problem = self.problem
        for name, position in zip(sums, positions, strict=True):
            self.body.define(problem.value, problem.axes[problem.value], position, name)
            for number, result in enumerate(problem.results):
                made = self.body.vector(result, problem.axes[result], position)
                self._store(number, made, position)

    def _store(self, number: int, vector: str, position: Position) -> None:
        result = self.problem.results[number]
        axes, kind = self.problem.axes[result], result.type
        at = self.body.offset(kind, axes, position.index)
        if self._contiguous(result, position.lane_axis):
            self.body.store(f"%y{number}", kind, vector, at, position.mask)
            return
        element = ops.element_type(result)
        row = f"memref<{self.lanes}x{element}>"
        stack = self.writer.stack(row, use="row")
        held = self.body.vector_type(element)
        self.writer.line(f"vector.store {vector}, {stack}[%zero] : {row}, {held}")
        step = self.body.offset(kind, axes, self._unit()).constant
        left = Linear(constant=self.problem.columns) + position.index[-1] * -1

        def lane(channel: str, _: list[str]) -> list[str]:
            value = self.writer.value(f"memref.load {stack}[{channel}] : {row}")
            place = self.writer.index(at + linear(channel) * step)
            self.writer.line(f"memref.store {value}, %y{number}[{place}] : {memref(kind)}")
            return []

        end: Linear | str = Linear(constant=self.lanes)
        if position.mask:
            end = self.writer.binary("minsi", left, self.lanes)
        self.writer.loop(0, end, 1, [], [], lane)

    def _unit(self) -> list[Linear]:
        """The index of the second channel of the first pixel."""
        return [Linear()] * (len(self.problem.extents) - 1) + [Linear(constant=1)]
