"""Attention of one tile of queries: an online softmax over blocks of keys.

    for each block of keys:
      scores = k q^T, masked, and their maxima            [keys][queries]
      accumulators and sums scaled by exp(old - new maximum)
      scores = exp(scores - maximum), and their sums
      accumulators += scores^T v                          [queries][head size of v]
    result = accumulators / sums, epilogue

Queries are the lanes of the scores, and elements of a value those of the accumulators: neither a
key nor a value is transposed, and no maximum or sum is taken across lanes.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence

from mlirfuse.kernels.vector.attention_problem import AttentionTile, Problem
from mlirfuse.kernels.vector.attention_results import Results
from mlirfuse.kernels.vector.attention_scores import MINUS_INFINITY, Scores
from mlirfuse.kernels.vector.attention_stack import AttentionStack, Layout
from mlirfuse.kernels.vector.lane_math import LaneMath
from mlirfuse.kernels.vector.pointwise import Pointwise
from mlirfuse.kernels.vector.softmax_weights import SoftmaxWeights
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice


class AttentionBlocks(abc.ABC):
    """Writes the work on tiles of queries; how it multiplies is the subclass's.

    Args:
      problem: the attention.
      tile: how it is blocked.
      layout: places on the stack.
      body: elementwise ops of the kernel.
      device: the CPU.
      stack: the buffer on the stack, and its type.
      factor: what the weights multiply differences of scores by.
    """

    def __init__(
        self,
        problem: Problem,
        tile: AttentionTile,
        layout: Layout,
        body: Pointwise,
        device: CpuDevice,
        stack: tuple[str, str],
        factor: float = 1.0,
    ) -> None:
        self.problem, self.tile, self.body, self.device = problem, tile, body, device
        self.writer, self.lanes, self.kind = body.writer, body.lanes, body.vector_type("f32")
        self.math = LaneMath(body, device)
        self.stack = AttentionStack(self.math, layout, *stack)
        self.scores = Scores(problem, self.math)
        element = ops.element_type(problem.operands[2])
        self.weights = SoftmaxWeights(self.math, element, factor)
        self.q, self.k, self.v = map(body.buffer, problem.operands)
        self.width = layout.width
        self.results = Results(problem, body)
        self.columns = self.results.columns
        self.blocks = -(-problem.keys // tile.keys)
        self._last_lanes = self.lanes

    def begin(self, outer: list[Linear], last: Linear) -> None:
        """Begins the work of a workgroup.

        Args:
          outer: indices of batches and heads.
          last: the query before which its work ends.
        """
        self.scores.outer = outer

    def write(self, start: Linear, queries: int) -> None:
        """Writes the work on one tile.

        Args:
          start: its first query.
          queries: their number.
        """
        problem = self.problem
        ragged = queries % self.lanes
        self._last_lanes = ragged or self.lanes
        self.scores.mask = ""
        if ragged:
            lanes = self.body.vector_type("i1")
            self.scores.mask = self.writer.hoisted(f"vector.constant_mask [{ragged}] : {lanes}")
        self.body.forget()
        self._write_queries(start, queries)
        for vector in range(self._vectors(queries)):
            self.stack.keep("maxima", vector, self.body.splat(MINUS_INFINITY, "f32"))
            self.stack.keep("sums", vector, self.body.splat("0.0", "f32"))
        if self.blocks == 1:
            self._write_block(start, queries, Linear(), problem.keys)
        else:
            self._clear(queries)
            self._write_blocks(start, queries)
        if self.stack.layout.columns:
            self._write_results(start, queries)

    def _vectors(self, queries: int) -> int:
        return -(-queries // self.lanes)

    # --- multiplication ---------------------------------------------------------------------------

    @abc.abstractmethod
    def _write_queries(self, start: Linear, queries: int) -> None:
        """Copies a tile of q as scores are computed from it.

        Lanes without a query have the last one.
        """

    @abc.abstractmethod
    def _write_scores(self, start: Linear, vectors: int, first: Linear, keys: int) -> list[str]:
        """Writes the scores of a block onto the stack; returns their maxima."""

    @abc.abstractmethod
    def _write_weights(self, maxima: Sequence[str], keys: int) -> None:
        """Writes the exponentials of a block's scores in their place, and adds up their sums."""

    @abc.abstractmethod
    def _write_values(self, start: Linear, queries: int, first: Linear, keys: int) -> None:
        """Writes the contraction of a block's weights and values."""

    # --- blocks of keys ---------------------------------------------------------------------------

    def _clear(self, queries: int) -> None:
        """Sets the accumulators to zeros."""
        zero = self.body.splat("0.0", "f32")

        def clear(row: str, _: list[str]) -> list[str]:
            for column in range(self.columns):
                self.stack.store(zero, self.stack.accumulator(linear(row), column))
            return []

        self.writer.loop(0, queries, 1, [], [], clear)

    def _write_blocks(self, start: Linear, queries: int) -> None:
        """Writes the loop over blocks of keys; a causal mask ends it behind the last query."""
        keys, size = self.problem.keys, self.tile.keys
        whole = keys // size * size
        stop: Linear = linear(whole)
        if self.problem.causal:
            stop = linear(self.writer.binary("minsi", start + queries, whole))

        def block(first: str, _: list[str]) -> list[str]:
            self._write_block(start, queries, linear(first), size)
            return []

        self.writer.loop(0, stop, size, [], [], block)
        if whole == keys:
            return
        if not self.problem.causal:
            self._write_block(start, queries, linear(whole), keys - whole)
            return
        seen = self._compared("ugt", start + queries, linear(whole))
        with self.writer.block(f"scf.if {seen} {{"):
            self._write_block(start, queries, linear(whole), keys - whole)

    def _write_block(self, start: Linear, queries: int, first: Linear, keys: int) -> None:
        """Writes the work on a block of keys."""
        maxima = self._write_masked_scores(start, self._vectors(queries), first, keys)
        used = []
        for vector, maximum in enumerate(maxima):
            old = self.stack.kept("maxima", vector)
            new = self.weights.larger(maximum, old)
            self.stack.keep("maxima", vector, new)
            used.append(self.weights.reference(new))
            if self.blocks > 1:
                factor = self.weights.of(old, used[-1])
                self.stack.keep("factors", vector, factor)
                total = self.stack.kept("sums", vector)
                total = self.writer.value(f"arith.mulf {total}, {factor} : {self.kind}")
                self.stack.keep("sums", vector, total)
        self._write_weights(used, keys)
        self._write_values(start, queries, first, keys)

    def _write_masked_scores(
        self, start: Linear, vectors: int, first: Linear, keys: int
    ) -> list[str]:
        """Writes the scores of a block, without a causal mask where that keeps all its keys."""

        def scores(is_masked: bool) -> list[str]:
            self.body.forget()
            self.scores.is_masked = is_masked
            found = self._write_scores(start, vectors, first, keys)
            if is_masked and self.scores.by_squares:
                return self._masked_by_squares(start, vectors, first, keys)
            return found

        has_mask = self.problem.mask is not None
        if not self.problem.causal:
            return scores(has_mask)
        kept = self._compared("ule", first + (keys - 1), start)
        kinds = [self.kind] * vectors
        return self.writer.choose(kept, kinds, lambda: scores(False), lambda: scores(True))

    def _masked_by_squares(
        self, start: Linear, vectors: int, first: Linear, keys: int
    ) -> list[str]:
        """Writes the scores with their mask; returns their maxima."""

        def square(key: Linear, count: int, held: list[str]) -> list[str]:
            found = []
            for v, maximum in enumerate(held):
                last = self._last_lanes if v == vectors - 1 else self.lanes
                queries = start + v * self.lanes, last
                for row, mask in enumerate(self.scores.square((first + key, count), queries)):
                    place = self.stack.score(key + row, v)
                    score = self.scores.masked(self.stack.load(place), mask)
                    self.stack.store(score, place)
                    maximum = self.weights.larger(score, maximum)
                found.append(maximum)
            return found

        whole = keys // self.lanes * self.lanes
        maxima = self.writer.loop(
            *(0, whole, self.lanes, [self.body.splat(MINUS_INFINITY, "f32")] * vectors),
            [self.kind] * vectors,
            lambda key, held: square(linear(key), self.lanes, held),
        )
        return square(linear(whole), keys - whole, maxima) if whole < keys else maxima

    def _compared(self, predicate: str, one: Linear, other: Linear) -> str:
        sides = f"{self.writer.index(one)}, {self.writer.index(other)}"
        return self.writer.value(f"arith.cmpi {predicate}, {sides} : index")

    # --- results ----------------------------------------------------------------------------------

    def _write_results(self, start: Linear, queries: int) -> None:
        """Writes the results from the accumulators on the stack."""

        def row(number: str, _: list[str]) -> list[str]:
            divisor = self.stack.statistic("sums", linear(number))
            row_index = (*self.scores.outer, start + linear(number))
            for column in range(self.columns):
                held = self.stack.load(self.stack.accumulator(linear(number), column))
                self.results.write(row_index, column, held, divisor)
            return []

        self.writer.loop(0, queries, 1, [], [], row)
