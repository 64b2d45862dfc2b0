"""Scores of attention after their product: factor, further scalar ops, and mask."""

from __future__ import annotations

from mlirfuse.kernels.vector.attention_problem import Problem
from mlirfuse.kernels.vector.lane_math import LaneMath
from mlirfuse.kernels.vector.pointwise import Position
from mlirfuse.kernels.vector.writer import Linear
from mlirfuse.structured.ir import ops

MINUS_INFINITY = "0xFF800000"
"""-inf in f32."""


class Scores:
    """Writes what becomes of the products of queries and keys.

    Attributes:
      outer: indices of batches and heads.
      mask: the lanes of the last vector of queries that exist; empty where all do.
      is_masked: whether keys may be masked: not where a causal mask keeps all keys of a block.
    """

    def __init__(self, problem: Problem, math: LaneMath) -> None:
        self.problem, self.math, self.body = problem, math, math.body
        self.writer, self.lanes, self.kind = math.writer, math.body.lanes, math.kind
        self.outer: list[Linear] = []
        self.mask = ""
        self.is_masked = problem.mask is not None

    def of(self, product: str, key: Linear, start: Linear, place: tuple[int, int, bool]) -> str:
        """The scores of a vector of queries for one key.

        Args:
          product: the products, times `scale` where `score_body` is None.
          key: the key.
          start: the first query.
          place: row and vector among the positions of a part of the kernel, and whether the vector
            is the last one of the tile.
        """
        problem, score = self.problem, product
        if problem.score_body is not None:
            score = self.scaled(score)
            values = {problem.score_body.arguments[0]: score}
            *computed, end = [o.operation for o in problem.score_body.operations]
            for op in computed:
                self.body.apply(op, values)
            score = self.body.scalar(end.operands[0], values)
        if problem.mask is None or not self.is_masked:
            return score
        row, vector, is_last = place
        position = Position((row, vector), (*self.outer, key, start), self.mask if is_last else "")
        held = self.body.vector(problem.mask, problem.mask_axes, position)
        element = ops.element_type(problem.mask)
        if element != "i1":
            addend = self.math.widened(held, element)
            return self.writer.value(f"arith.addf {score}, {addend} : {self.kind}")
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
