"""Results of attention: accumulators divided by the sums of their weights, and the epilogue."""

from __future__ import annotations

from mlirfuse.kernels.vector.attention_problem import Problem
from mlirfuse.kernels.vector.pointwise import Pointwise, Position
from mlirfuse.kernels.vector.writer import Linear
from mlirfuse.structured.ir import ops


class Results:
    """Writes the results of one kernel.

    Attributes:
      columns: vectors of a value's elements.
    """

    def __init__(self, problem: Problem, body: Pointwise) -> None:
        self.problem, self.body, self.writer = problem, body, body.writer
        self.columns = -(-problem.v_head // body.lanes)

    def write(self, row: tuple[Linear, ...], column: int, total: str, divisor: str) -> None:
        """Writes the epilogue of one vector of the result.

        Args:
          row: indices of the outer loops and of the query.
          column: number of the vector among those of the row.
          total: the accumulators.
          divisor: the sum of the weights, in all lanes.
        """
        problem, kind = self.problem, self.body.vector_type("f32")
        made = self.writer.value(f"arith.divf {total}, {divisor} : {kind}")
        element = ops.element_type(problem.value)
        if element != "f32":
            narrow = self.body.vector_type(element)
            made = self.writer.value(f"arith.truncf {made} : {kind} to {narrow}")
        index = (*row, Linear(constant=column * self.body.lanes))
        position = Position((column,), index, self.mask(column))
        self.body.forget()
        self.body.define(problem.value, problem.axes[problem.value], position, made)
        for number, result in enumerate(problem.results):
            axes = problem.axes[result]
            vector = self.body.vector(result, axes, position)
            at = self.body.offset(result.type, axes, index)
            self.body.store(f"%y{number}", result.type, vector, at, position.mask)
        self.body.forget()

    def mask(self, column: int) -> str:
        """The elements of a vector of a value that exist; empty where all do."""
        rest = self.problem.v_head % self.body.lanes
        if not rest or column != self.columns - 1:
            return ""
        return self.writer.hoisted(f"vector.constant_mask [{rest}] : {self.body.vector_type('i1')}")
