"""The last kernel of attention whose keys are divided among workgroups.

for each row:
  maximum = the largest of the parts' maxima
  sums, accumulators = those of the parts times exp(part's maximum - maximum), added
  result = accumulators / sums, epilogue
"""

from __future__ import annotations

import dataclasses
import math

from iree.compiler import ir

from mlirfuse.kernels.vector.attention_problem import Problem
from mlirfuse.kernels.vector.attention_results import Results
from mlirfuse.kernels.vector.attention_scores import MINUS_INFINITY
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.lane_math import LaneMath
from mlirfuse.kernels.vector.pointwise import Pointwise
from mlirfuse.kernels.vector.softmax_weights import SoftmaxWeights
from mlirfuse.kernels.vector.stages import made_by
from mlirfuse.kernels.vector.workgroups import block_size
from mlirfuse.kernels.vector.writer import SPECIAL_OPERATIONS, Linear, Writer, linear
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice


@dataclasses.dataclass(frozen=True, slots=True)
class Partials:
    """What is known of each row after a part of the keys.

    Attributes:
      sizes: sizes of the outer loops and of that over queries, and the number of parts.
      columns: accumulators of a row, a multiple of the lanes.
      lanes: lanes of a vector.
      kinds: types of the tensors of accumulators, maxima and sums.
    """

    sizes: tuple[int, ...]
    columns: int
    lanes: int
    kinds: tuple[ir.Type, ir.Type, ir.Type]

    @classmethod
    def of(cls, problem: Problem, parts: int, lanes: int) -> Partials:
        """Those of an attention."""
        sizes = (*problem.outer, problem.queries, parts)
        columns, count = -(-problem.v_head // lanes) * lanes, math.prod(sizes)
        context = problem.value.context
        wide = ir.Type.parse(f"tensor<{count * columns}xf32>", context)
        single = ir.Type.parse(f"tensor<{count}xf32>", context)
        return cls(sizes, columns, lanes, (wide, single, single))

    def store(
        self,
        body: Pointwise,
        at: tuple[tuple[Linear, ...], Linear],
        columns: list[str],
        statistics: tuple[str, str],
    ) -> None:
        """Stores those of a row.

        Args:
          body: elementwise ops of the kernel, whose results they are.
          at: indices of the outer loops and of the query, and the part.
          columns: vectors of accumulators.
          statistics: the maximum and the sum, in all lanes.
        """
        row, part = at
        place = self.place(row, part)
        for n, vector in enumerate(columns):
            body.store("%y0", self.kinds[0], vector, place * self.columns + n * self.lanes)
        for n, vector in enumerate(statistics, 1):
            body.store_first(f"%y{n}", self.kinds[n], vector, place)

    def place(self, row: tuple[Linear, ...], part: Linear) -> Linear:
        """The number of a part of a row among all."""
        total = Linear()
        for size, index in zip(self.sizes, (*row, part), strict=True):
            total = total * size + index
        return total


def kernel(problem: Problem, partials: Partials, device: CpuDevice) -> VectorKernel:
    """Writes the kernel.

    Args:
      problem: the attention.
      partials: what the first kernel has written.
      device: the CPU.
    """
    return _Merge(problem, partials, device).write()


class _Merge:
    """Writes the kernel."""

    def __init__(self, problem: Problem, partials: Partials, device: CpuDevice) -> None:
        self.problem, self.partials, self.device = problem, partials, device
        self.writer = Writer()
        self.body = Pointwise(self.writer, device.lanes, gathers=True)
        self.math, self.results = LaneMath(self.body, device), Results(problem, self.body)
        self.weights = SoftmaxWeights(self.math, ops.element_type(problem.operands[2]), 1.0)
        self._buffers = [
            self.body.reserve(made_by(0, n), kind) for n, kind in enumerate(partials.kinds)
        ]

    def write(self) -> VectorKernel:
        """Writes the kernel."""
        writer, (*sizes, parts) = self.writer, self.partials.sizes
        rows = math.prod(sizes)
        work = parts * (self.problem.v_head + SPECIAL_OPERATIONS)
        size = block_size(rows, work, 4 * parts * self.problem.v_head, self.device)
        first = linear(writer.value("hal.interface.workgroup.id[0] : index")) * size
        last = writer.binary("minsi", first + size, rows)

        def row(number: str, _: list[str]) -> list[str]:
            self._write_row(tuple(writer.split(number, sizes)))
            return []

        writer.loop(first, last, 1, [], [], row)
        return self.body.kernel("attention_merge", self.problem.results, (-(-rows // size), 1))

    def _write_row(self, row: tuple[Linear, ...]) -> None:
        writer, kind, parts = self.writer, self.body.vector_type("f32"), self.partials.sizes[-1]

        def larger(part: str, held: list[str]) -> list[str]:
            return [self.weights.larger(self._statistic(1, row, part), held[0])]

        lowest = self.body.splat(MINUS_INFINITY, "f32")
        (maximum,) = writer.loop(0, parts, 1, [lowest], [kind], larger)
        used = self.weights.reference(maximum)

        def add(part: str, held: list[str]) -> list[str]:
            factor = self.weights.of(self._statistic(1, row, part), used)
            place = self.partials.place(row, linear(part)) * self.partials.columns
            added = [self._statistic(2, row, part)]
            for column in range(self.results.columns):
                at = place + column * self.body.lanes
                added.append(self.body.load(self._buffers[0], self.partials.kinds[0], at))
            pairs = zip(added, held, strict=True)
            return [self.math.multiply_add(one, factor, total) for one, total in pairs]

        count = 1 + self.results.columns
        zeros = [self.body.splat("0.0", "f32")] * count
        total, *columns = writer.loop(0, parts, 1, zeros, [kind] * count, add)
        for column, held in enumerate(columns):
            self.results.write(row, column, held, total)

    def _statistic(self, number: int, row: tuple[Linear, ...], part: str) -> str:
        """A maximum or sum of a part of a row, in all lanes."""
        place = self.partials.place(row, linear(part))
        return self.math.broadcast(self._buffers[number], self.partials.kinds[number], place)
