"""Attention of a few rows, one for each query of each head that shares keys: an online softmax.

    for each block of keys:
      for some keys, as many as a vector has lanes: for some rows
        scores = sums across lanes of q k, masked, and their maxima    [rows][keys]
      for each row
        scores = exp(scores - maximum), and their sums
      accumulators = accumulators * exp(old - new maximum) + scores v  [rows][head size of v]

Keys are the lanes of the scores, and elements of a value those of the accumulators. Where adjacent
keys are contiguous in memory, and not their elements, they are the lanes of products, too.
"""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.vector import register_tiles
from mlirfuse.kernels.vector.attention_problem import Problem
from mlirfuse.kernels.vector.attention_results import Results
from mlirfuse.kernels.vector.attention_scores import MINUS_INFINITY, Scores
from mlirfuse.kernels.vector.lane_math import LaneMath
from mlirfuse.kernels.vector.lane_sums import QUAD, across_lanes, lane_sums
from mlirfuse.kernels.vector.pointwise import Pointwise, Position
from mlirfuse.kernels.vector.softmax_weights import SoftmaxWeights
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice
from mlirfuse.targets.cpu_rates import FMA_LATENCY

_STATISTICS = ("maxima", "sums", "highest", "factors")
"""Vectors of each row: its maximum and factor in all lanes; sums of weights and the maxima of a
block for each lane."""


@dataclasses.dataclass(frozen=True, slots=True)
class RowLayout:
    """Places on the stack, in elements.

    Attributes:
      rows: rows.
      keys: keys of a block, a multiple of the lanes.
      queries: elements of a query, with those that fill up its last vector.
      columns: elements of a value, likewise.
      lanes: lanes of a vector.
    """

    rows: int
    keys: int
    queries: int
    columns: int
    lanes: int

    @classmethod
    def of(cls, heads: tuple[int, int], rows: int, keys: int, lanes: int) -> RowLayout:
        """The layout of rows and blocks of keys; heads are elements of a key and of a value."""
        queries, columns = (-(-size // lanes) * lanes for size in heads)
        return cls(rows, keys, queries, columns, lanes)

    @property
    def row_size(self) -> int:
        """The elements of a row."""
        return self.keys + self.queries + self.columns + len(_STATISTICS) * self.lanes

    @property
    def size(self) -> int:
        """All elements."""
        return self.rows * self.row_size

    def query(self, row: Linear) -> Linear:
        """The place of a row's query."""
        return row * self.row_size

    def score(self, row: Linear) -> Linear:
        """The place of a row's scores."""
        return self.query(row) + self.queries

    def accumulator(self, row: Linear) -> Linear:
        """The place of a row's accumulators."""
        return self.score(row) + self.keys

    def statistic(self, name: str, row: Linear) -> Linear:
        """The place of a statistic of a row."""
        return self.accumulator(row) + self.columns + _STATISTICS.index(name) * self.lanes


class RowBlocks:
    """Writes the work on some rows.

    Args:
      problem: the attention.
      layout: places on the stack.
      body: elementwise ops of the kernel.
      device: the CPU.
    """

    def __init__(
        self, problem: Problem, layout: RowLayout, body: Pointwise, device: CpuDevice
    ) -> None:
        self.problem, self.layout, self.body, self.device = problem, layout, body, device
        self.writer, self.lanes, self.kind = body.writer, body.lanes, body.vector_type("f32")
        self.math = LaneMath(body, device)
        self.scores = Scores(problem, self.math)
        self.weights = SoftmaxWeights(self.math, ops.element_type(problem.operands[2]), 1.0)
        self.results = Results(problem, body)
        self.q, self.k, self.v = map(body.buffer, problem.operands)
        self._stack_type = f"memref<{layout.size}xf32>"
        self._stack = self.writer.stack(self._stack_type)
        self._outer: list[Linear] = []
        self._start = Linear()
        _, _, key, element, _ = problem.roles
        self._keys_are_lanes = problem.step(1, key) == 1 != problem.step(1, element)
        # Each row has the sums of four keys, and two of such fours; four are for keys and queries.
        self._tile_rows = (device.num_registers - 4) // (QUAD + 2)

    def begin(self, outer: list[Linear], start: Linear) -> None:
        """Begins the work on some rows.

        Args:
          outer: indices of the batches and heads that share no keys.
          start: the first of the rows.
        """
        self._outer, self._start = outer, start
        self.body.forget()
        lowest, zero = self.body.splat(MINUS_INFINITY, "f32"), self.body.splat("0.0", "f32")

        def row(number: str, _: list[str]) -> list[str]:
            at = linear(number)
            self._write_query(at)
            self._store(lowest, self.layout.statistic("maxima", at))
            self._store(zero, self.layout.statistic("sums", at))
            for column in range(self.results.columns):
                self._store(zero, self.layout.accumulator(at) + column * self.lanes)
            return []

        self.writer.loop(0, self.layout.rows, 1, [], [], row)

    def write_block(self, first: Linear, keys: int) -> None:
        """Writes the work on a block of keys."""
        lowest = self.body.splat(MINUS_INFINITY, "f32")

        def clear(row: str, _: list[str]) -> list[str]:
            self._store(lowest, self.layout.statistic("highest", linear(row)))
            return []

        def weights(row: str, _: list[str]) -> list[str]:
            self._write_weights(linear(row), keys)
            return []

        self.writer.loop(0, self.layout.rows, 1, [], [], clear)
        self._write_scores(first, keys)
        self.writer.loop(0, self.layout.rows, 1, [], [], weights)
        self._write_values(first, keys)

    def sums(self, row: Linear) -> str:
        """The sum of a row's weights, in all lanes."""
        held = self._load(self.layout.statistic("sums", row))
        return across_lanes(
            self.writer, self.kind, self.lanes, held, lambda a, b: self._binary("addf", a, b)
        )

    def maximum(self, row: Linear) -> str:
        """The maximum of a row's scores, in all lanes."""
        return self._load(self.layout.statistic("maxima", row))

    def accumulator(self, row: Linear, column: int) -> str:
        """A vector of a row's accumulators."""
        return self._load(self.layout.accumulator(row) + column * self.lanes)

    def index(self, row: Linear) -> tuple[Linear, ...]:
        """The indices of the outer loops and of the query of a row."""
        problem = self.problem
        sizes = (*problem.outer[len(problem.shared) :], problem.queries)
        return (*self._outer, *self.writer.split(self._start + row, sizes))

    # --- queries ----------------------------------------------------------------------------------

    def _write_query(self, row: Linear) -> None:
        """Copies a query in f32, with the factor of the scores where nothing else is computed."""
        problem = self.problem
        _, query_loop, _, element_loop, _ = problem.roles
        kind, step = problem.operands[0].type, problem.step(0, element_loop)
        *outer, query = self.index(row)
        at = problem.head(0, outer) + query * problem.step(0, query_loop)
        for element in range(0, problem.qk_head, self.lanes):
            mask = self.body.first_lanes(problem.qk_head - element, self.device)
            held = self.body.strided(self.q, kind, at + element * step, step, mask)
            held = self.math.widened(held, ops.element_type(problem.operands[0]))
            if problem.score_body is None and problem.scale != 1.0:
                held = self.scores.scaled(held)
            self._store(held, self.layout.query(row) + element)

    # --- scores -----------------------------------------------------------------------------------

    def _write_scores(self, first: Linear, keys: int) -> None:
        """Writes the scores of a block, and the maxima of each row's lanes."""

        def group(key: Linear, count: int) -> None:
            def tile(row: str, _: list[str]) -> list[str]:
                self._write_score_tile(first, key, count, linear(row), self._tile_rows)
                return []

            whole = self.layout.rows // self._tile_rows * self._tile_rows
            if whole:
                self.writer.loop(0, whole, self._tile_rows, [], [], tile)
            if whole < self.layout.rows:
                self._write_score_tile(first, key, count, linear(whole), self.layout.rows - whole)

        def full(key: str, _: list[str]) -> list[str]:
            group(linear(key), self.lanes)
            return []

        whole = keys // self.lanes * self.lanes
        if whole:
            self.writer.loop(0, whole, self.lanes, [], [], full)
        if whole < keys:
            group(linear(whole), keys - whole)

    def _write_score_tile(
        self, first: Linear, key: Linear, count: int, row: Linear, rows: int
    ) -> None:
        """Writes the scores of at most as many keys as there are lanes, and of some rows."""
        products = self._keys_in_lanes if self._keys_are_lanes else self._summed
        self.body.forget()
        found = products(first + key, count, row, rows)
        mask, lanes = self.body.first_lanes(count, self.device), self.body.vector_type("i1")
        for n, product in enumerate(found):
            at = row + n
            *outer, query = self.index(at)
            position = Position((n,), (*outer, first + key, query), mask, axis=-2)
            score = self.scores.along_keys(product, position)
            if mask:
                lowest = self.body.splat(MINUS_INFINITY, "f32")
                score = self.writer.value(
                    f"arith.select {mask}, {score}, {lowest} : {lanes}, {self.kind}"
                )
            self._store(score, self.layout.score(at) + key)
            place = self.layout.statistic("highest", at)
            self._store(self.weights.larger(score, self._load(place)), place)
        self.body.forget()

    def _key(self, key: Linear) -> Linear:
        """The place of the first element of a key."""
        problem = self.problem
        outer = [*self._outer, *[Linear()] * problem.groups]
        return problem.head(1, outer) + key * problem.step(1, problem.roles[2])

    def _summed(self, key: Linear, count: int, row: Linear, rows: int) -> list[str]:
        """The products of some keys and rows, for each row with keys as lanes."""
        problem = self.problem
        kind, step = problem.operands[1].type, problem.step(1, problem.roles[3])

        def products(number: int, several: int) -> list[list[str]]:
            def add(element: Linear, held: list[str], mask: str = "") -> list[str]:
                sums: list[str] = []
                queries = [self._load(self.layout.query(row + n) + element) for n in range(rows)]
                for n in range(several):
                    at = self._key(key + number + n) + element * step
                    keys = self.body.strided(self.k, kind, at, step, mask)
                    keys = self.math.widened(keys, ops.element_type(problem.operands[1]))
                    for query in queries:
                        sums.append(self.math.multiply_add(keys, query, held[len(sums)]))
                return sums

            head, count = problem.qk_head, rows * several
            whole = head // self.lanes * self.lanes
            totals = [self.body.splat("0.0", "f32")] * count
            if whole:
                totals = self.writer.loop(
                    *(0, whole, self.lanes, totals, [self.kind] * count),
                    lambda element, held: add(linear(element), held),
                )
            if whole < head:
                totals = add(
                    linear(whole), totals, self.body.first_lanes(head - whole, self.device)
                )
            return [totals[n::rows] for n in range(rows)]

        return lane_sums(self.writer, self.lanes, count, products)

    def _keys_in_lanes(self, key: Linear, count: int, row: Linear, rows: int) -> list[str]:
        """The products of some contiguous keys and of some rows."""
        problem = self.problem
        kind, step = problem.operands[1].type, problem.step(1, problem.roles[3])
        at, mask = self._key(key), self.body.first_lanes(count, self.device)

        def add(element: str, held: list[str]) -> list[str]:
            keys = self.body.load(self.k, kind, at + linear(element) * step, mask)
            keys = self.math.widened(keys, ops.element_type(problem.operands[1]))
            found = []
            for n, total in enumerate(held):
                query = self._broadcast(self.layout.query(row + n) + linear(element))
                found.append(self.math.multiply_add(query, keys, total))
            return found

        zeros = [self.body.splat("0.0", "f32")] * rows
        return self.writer.loop(0, problem.qk_head, 1, zeros, [self.kind] * rows, add)

    # --- weights ----------------------------------------------------------------------------------

    def _write_weights(self, row: Linear, keys: int) -> None:
        """Writes the weights of a row in the place of its scores, and adds them up."""
        highest = across_lanes(
            self.writer,
            self.kind,
            self.lanes,
            self._load(self.layout.statistic("highest", row)),
            self.weights.larger,
        )
        place = self.layout.statistic("maxima", row)
        old = self._load(place)
        new = self.weights.larger(highest, old)
        self._store(new, place)
        used = self.weights.reference(new)
        factor = self.weights.of(old, used)
        self._store(factor, self.layout.statistic("factors", row))
        place = self.layout.statistic("sums", row)

        def add(key: str, held: list[str]) -> list[str]:
            at = self.layout.score(row) + linear(key)
            weight = self.weights.of(self._load(at), used)
            self._store(weight, at)
            return [self._binary("addf", held[0], weight)]

        start = [self._binary("mulf", self._load(place), factor)]
        (total,) = self.writer.loop(0, keys, self.lanes, start, [self.kind], add)
        self._store(total, place)

    # --- values -----------------------------------------------------------------------------------

    def _write_values(self, first: Linear, keys: int) -> None:
        """Writes the contraction of a block's weights and values, in register tiles."""
        columns, rows = self.results.columns, self.layout.rows
        tile = register_tiles.choose(rows, columns, keys, self.device)
        for column in range(0, columns, tile.vectors):
            wide = range(column, min(column + tile.vectors, columns))
            whole = rows // tile.rows * tile.rows

            def several(row: str, _: list[str], wide: range = wide) -> list[str]:
                self._write_value_tile(linear(row), tile.rows, wide, first, keys)
                return []

            self.writer.loop(0, whole, tile.rows, [], [], several)
            if whole < rows:
                self._write_value_tile(linear(whole), rows - whole, wide, first, keys)

    def _write_value_tile(
        self, row: Linear, rows: int, columns: range, first: Linear, keys: int
    ) -> None:
        """Adds the products of a block's weights and values to some accumulators."""
        count = rows * len(columns)
        # As many sums of each accumulator as hide the latency of a multiply-add.
        chains = min(keys, -(-FMA_LATENCY * self.device.fma_ports // count))
        whole = keys // chains * chains
        zeros = [self.body.splat("0.0", "f32")] * (count * (chains - 1))

        def several(key: str, held: list[str]) -> list[str]:
            found = []
            for chain in range(chains):
                sums = held[chain * count : (chain + 1) * count]
                found += self._add_value(row, columns, first, linear(key) + chain, sums)
            return found

        places = [
            self.layout.accumulator(row + n) + column * self.lanes
            for n in range(rows)
            for column in columns
        ]
        factors = [self._load(self.layout.statistic("factors", row + n)) for n in range(rows)]
        sums = [
            self._binary("mulf", self._load(place), factors[n // len(columns)])
            for n, place in enumerate(places)
        ]
        kinds = [self.kind] * (count * chains)
        sums = self.writer.loop(0, whole, chains, [*sums, *zeros], kinds, several)
        for key in range(whole, keys):
            sums[:count] = self._add_value(row, columns, first, linear(key), sums[:count])
        for n, place in enumerate(places):
            total = sums[n]
            for other in sums[n + count :: count]:
                total = self._binary("addf", total, other)
            self._store(total, place)

    def _add_value(
        self, row: Linear, columns: range, first: Linear, key: Linear, sums: list[str]
    ) -> list[str]:
        """Sums with the products of a value and its weights of some rows."""
        problem = self.problem
        _, _, key_loop, _, element_loop = problem.roles
        kind, step = problem.operands[2].type, problem.step(2, element_loop)
        outer = [*self._outer, *[Linear()] * problem.groups]
        at = problem.head(2, outer) + (first + key) * problem.step(2, key_loop)
        values = []
        for column in columns:
            place = at + column * self.lanes * step
            held = self.body.strided(self.v, kind, place, step, self.results.mask(column))
            values.append(self.math.widened(held, ops.element_type(problem.operands[2])))
        found: list[str] = []
        for n in range(len(sums) // len(columns)):
            weight = self._broadcast(self.layout.score(row + n) + key)
            for value in values:
                found.append(self.math.multiply_add(weight, value, sums[len(found)]))
        return found

    # --- memory -----------------------------------------------------------------------------------

    def _load(self, at: Linear) -> str:
        place = self.writer.index(at)
        return self.writer.value(
            f"vector.load {self._stack}[{place}] : {self._stack_type}, {self.kind}"
        )

    def _store(self, vector: str, at: Linear) -> None:
        place = self.writer.index(at)
        self.writer.line(
            f"vector.store {vector}, {self._stack}[{place}] : {self._stack_type}, {self.kind}"
        )

    def _broadcast(self, at: Linear) -> str:
        return self.math.broadcast_f32(self._stack, self._stack_type, at)

    def _binary(self, op: str, one: str, other: str) -> str:
        return self.writer.value(f"arith.{op} {one}, {other} : {self.kind}")
