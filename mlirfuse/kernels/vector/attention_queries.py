"""The queries of an attention's tile, transposed onto the stack: [head size][queries].

Queries whose elements are contiguous are transposed in registers, by squares of vectors; others are
stored element by element.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse.kernels.vector.lane_math import LaneMath
from mlirfuse.kernels.vector.pointwise import Pointwise
from mlirfuse.kernels.vector.transposition import transposed
from mlirfuse.kernels.vector.writer import Linear, linear


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QueryTile:
    """A tile of queries of one head.

    Attributes:
      body: writes vectors.
      math: their arithmetic.
      buffer: the memory of q.
      kind: type of q, of f16, bf16 or f32.
      at: offset of the tile's first element.
      steps: distances of adjacent queries, and of adjacent elements of a query.
      queries: queries of the tile; lanes beyond them have the last one.
      elements: elements of a query.
      scale: factor of the elements.
      stack: a buffer of f32, and its type; the tile is at its beginning.
      width: elements of a row on the stack, a multiple of the lanes.
    """

    body: Pointwise
    math: LaneMath
    buffer: str
    kind: ir.Type
    at: Linear
    steps: tuple[int, int]
    queries: int
    elements: int
    scale: float
    stack: tuple[str, str]
    width: int

    def write(self) -> None:
        """Writes the transposition."""
        if self.steps[1] != 1:
            self._store_elements()
            return
        lanes = self.body.lanes
        whole = self.queries // lanes * lanes

        def vector(number: str, _: list[str]) -> list[str]:
            self._write_vector(linear(number), lanes)
            return []

        if whole:
            self.body.writer.loop(0, whole, lanes, [], [], vector)
        if whole < self.queries:
            self._write_vector(Linear(constant=whole), self.queries - whole)

    def _write_vector(self, first: Linear, queries: int) -> None:
        """Writes all elements of the queries of one vector."""
        lanes = self.body.lanes
        whole = self.elements // lanes * lanes

        def square(element: str, _: list[str]) -> list[str]:
            self._write_square(first, queries, linear(element), lanes)
            return []

        if whole:
            self.body.writer.loop(0, whole, lanes, [], [], square)
        if whole < self.elements:
            self._write_square(first, queries, Linear(constant=whole), self.elements - whole)

    def _write_square(self, first: Linear, queries: int, element: Linear, count: int) -> None:
        """Writes some elements of the queries of one vector; at most as many as it has lanes."""
        body, writer, lanes = self.body, self.body.writer, self.body.lanes
        mask, f32 = "", body.vector_type("f32")
        if count < lanes:
            mask = writer.hoisted(f"vector.constant_mask [{count}] : {body.vector_type('i1')}")
        rows = []
        for lane in range(queries):
            place = self.at + (first + lane) * self.steps[0] + element
            loaded = body.load(self.buffer, self.kind, place, mask)
            rows.append(self.math.widened(loaded, str(ir.RankedTensorType(self.kind).element_type)))
        if self.scale != 1.0:
            factor = body.splat(f32_text(self.scale), "f32")
            rows = [writer.value(f"arith.mulf {row}, {factor} : {f32}") for row in rows]
        rows += rows[-1:] * (lanes - queries)
        for n, column in enumerate(transposed(writer, rows, f32)[:count]):
            target = writer.index((element + n) * self.width + first)
            buffer, buffer_type = self.stack
            writer.line(f"vector.store {column}, {buffer}[{target}] : {buffer_type}, {f32}")

    def _store_elements(self) -> None:
        """Writes it element by element."""
        writer, lanes = self.body.writer, self.body.lanes
        query_step, element_step = self.steps
        buffer, buffer_type = self.stack

        def row(lane: str, _: list[str]) -> list[str]:
            query = lane
            if self.queries % lanes:
                query = writer.binary("minui", lane, self.queries - 1)
            first = self.at + linear(query) * query_step

            def element(index: str, _: list[str]) -> list[str]:
                place = first + linear(index) * element_step
                held = self.math.scalar(self.buffer, self.kind, place)
                if self.scale != 1.0:
                    factor = writer.constant(f32_text(self.scale), "f32")
                    held = writer.value(f"arith.mulf {held}, {factor} : f32")
                target = writer.index(linear(index) * self.width + linear(lane))
                writer.line(f"memref.store {held}, {buffer}[{target}] : {buffer_type}")
                return []

            writer.loop(0, self.elements, 1, [], [], element)
            return []

        writer.loop(0, -(-self.queries // lanes) * lanes, 1, [], [], row)


def f32_text(value: float) -> str:
    """A number as MLIR writes it in f32."""
    return f"{value:.9e}"
