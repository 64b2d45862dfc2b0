"""Scores of attention after their product: factor, further scalar ops, and mask.

Queries are the lanes of scores. A mask in memory whose keys are contiguous is computed with keys as
lanes, for as many queries and keys as a vector has lanes, and transposed.
"""

from __future__ import annotations

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.vector.attention_problem import Problem
from mlirfuse.kernels.vector.lane_math import LaneMath
from mlirfuse.kernels.vector.pointwise import Axes, Pointwise, Position
from mlirfuse.kernels.vector.transposition import transposed
from mlirfuse.kernels.vector.writer import Linear, Writer, linear
from mlirfuse.structured.ir import ops

MINUS_INFINITY = "0xFF800000"
"""-inf in f32."""


class Scores:
    """Writes what becomes of the products of queries and keys.

    Attributes:
      outer: indices of batches and heads.
      mask: the lanes of the last vector of queries that exist; empty where all do.
      is_masked: whether keys may be masked: not where a causal mask keeps all keys of a block.
      by_squares: whether the mask is computed with keys as lanes, and transposed.
    """

    def __init__(self, problem: Problem, math: LaneMath) -> None:
        self.problem, self.math, self.body = problem, math, math.body
        self.writer, self.lanes, self.kind = math.writer, math.body.lanes, math.kind
        self.outer: list[Linear] = []
        self.mask = ""
        self.is_masked = problem.mask is not None
        self.by_squares = (
            problem.mask is not None
            and not self._is_contiguous(problem.mask_axes)
            and self._is_contiguous(self._swapped())
        )

    def _swapped(self) -> Axes:
        """The axes of the mask among outer loops, queries and keys."""
        query, key = len(self.problem.outer) + 1, len(self.problem.outer)
        change = {query: key, key: query}
        return tuple(None if a is None else change.get(a, a) for a in self.problem.mask_axes)

    def _is_contiguous(self, axes: Axes) -> bool:
        """Whether the mask with these axes reads tensors whose lanes are contiguous."""
        assert self.problem.mask is not None
        trial = Pointwise(Writer(), self.lanes)
        index = tuple(linear("%i") for _ in range(len(self.problem.outer) + 2))
        try:
            trial.vector(self.problem.mask, axes, Position((0,), index))
        except Unsupported:
            return False
        return True

    def square(self, keys: tuple[Linear, int], queries: tuple[Linear, int]) -> list[str]:
        """The mask of some keys and of a vector of queries: a vector for each of the keys.

        Args:
          keys: the first key, and the number of keys.
          queries: the first query, and the number of queries.
        """
        problem, lanes = self.problem, self.body.vector_type("i1")
        assert problem.mask is not None
        mask = ""
        if keys[1] < self.lanes:
            mask = self.writer.hoisted(f"vector.constant_mask [{keys[1]}] : {lanes}")
        element, rows = ops.element_type(problem.mask), []
        words = self.body.vector_type("i32")
        for query in range(self.lanes):
            index = (*self.outer, queries[0] + min(query, queries[1] - 1), keys[0])
            position = Position((query,), index, mask)
            held = self.body.vector(problem.mask, self._swapped(), position)
            if element == "i1":
                held = self.writer.value(f"arith.extui {held} : {lanes} to {words}")
            else:
                held = self.math.widened(held, element)
            rows.append(held)
        self.body.forget()
        kind = "i32" if element == "i1" else "f32"
        found = transposed(self.writer, rows, kind, self.lanes)[: keys[1]]
        if element != "i1":
            return found
        return [self.writer.value(f"arith.trunci {row} : {words} to {lanes}") for row in found]

    def of(self, product: str, key: Linear, start: Linear, place: tuple[int, int, bool]) -> str:
        """The scores of a vector of queries for one key.

        Args:
          product: the products, times `scale` where `score_body` is None.
          key: the key.
          start: the first query.
          place: row and vector among the positions of a part of the kernel, and whether the vector
            is the last one of the tile.
        """
        score = self._computed(product)
        if self.by_squares or not self.is_masked:
            return score
        row, vector, is_last = place
        position = Position((row, vector), (*self.outer, key, start), self.mask if is_last else "")
        return self._masked_at(score, position)

    def along_keys(self, product: str, position: Position) -> str:
        """The scores of a vector of keys for one query.

        Args:
          product: as of `of`.
          position: indices of the outer loops, the first key and the query; the keys are its lanes.
        """
        return self._masked_at(self._computed(product), position)

    def _computed(self, product: str) -> str:
        """Products after the further scalar ops, if there are any."""
        body = self.problem.score_body
        if body is None:
            return product
        values = {body.arguments[0]: self.scaled(product)}
        *computed, end = [o.operation for o in body.operations]
        for op in computed:
            self.body.apply(op, values)
        return self.body.scalar(end.operands[0], values)

    def _masked_at(self, score: str, position: Position) -> str:
        """Scores with the mask of a position, if there is one."""
        mask = self.problem.mask
        if mask is None:
            return score
        held = self.body.vector(mask, self.problem.mask_axes, position)
        return self.masked(score, self.math.widened(held, ops.element_type(mask)))

    def masked(self, score: str, held: str) -> str:
        """Scores with their mask: addends in f32, or the scores that are kept."""
        assert self.problem.mask is not None
        if ops.element_type(self.problem.mask) != "i1":
            return self.writer.value(f"arith.addf {score}, {held} : {self.kind}")
        lowest = self.body.splat(MINUS_INFINITY, "f32")
        lanes = self.body.vector_type("i1")
        return self.writer.value(f"arith.select {held}, {score}, {lowest} : {lanes}, {self.kind}")

    def scaled(self, product: str) -> str:
        """A product times the factor of the scores."""
        factor = self.body.splat(number(self.problem.scale), "f32")
        return self.writer.value(f"arith.mulf {product}, {factor} : {self.kind}")


def number(value: float) -> str:
    """A number as MLIR writes it in f32."""
    return f"{value:.9e}"
