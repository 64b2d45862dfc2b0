"""Products of attention by multiply-adds of vectors, in f32.

q transposed onto the stack                           [head size][queries]
scores: an element of a key times vectors of queries
accumulators: a weight times vectors of a value
"""

from __future__ import annotations

from collections.abc import Sequence

from mlirfuse.kernels.vector import register_tiles
from mlirfuse.kernels.vector.attention_blocks import AttentionBlocks
from mlirfuse.kernels.vector.attention_scores import MINUS_INFINITY
from mlirfuse.kernels.vector.transposition import transposed
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.structured.ir import ops


class VectorBlocks(AttentionBlocks):
    """Writes tiles of queries whose products are multiply-adds."""

    # --- queries ----------------------------------------------------------------------------------

    def _write_queries(self, start: Linear, queries: int) -> None:
        """Writes the transposition of a tile of q, in squares of a vector's lanes."""
        head, lanes = self.problem.qk_head, self.lanes

        def vector(number: str, _: list[str]) -> list[str]:
            def square(element: str, _: list[str]) -> list[str]:
                self._write_square(start, linear(number), queries, linear(element), lanes)
                return []

            whole = head // lanes * lanes
            if whole:
                self.writer.loop(0, whole, lanes, [], [], square)
            if whole < head:
                rest = linear(whole)
                self._write_square(start, linear(number), queries, rest, head - whole)
            return []

        self.writer.loop(0, self._vectors(queries) * lanes, lanes, [], [], vector)

    def _write_square(
        self, start: Linear, first: Linear, queries: int, element: Linear, count: int
    ) -> None:
        """Writes some elements of a vector of queries."""
        problem = self.problem
        _, query_loop, _, element_loop, _ = problem.roles
        kind, step = problem.operands[0].type, problem.step(0, element_loop)
        mask = ""
        if count < self.lanes:
            lanes = self.body.vector_type("i1")
            mask = self.writer.hoisted(f"vector.constant_mask [{count}] : {lanes}")
        rows = []
        for lane in range(self.lanes):
            query = first + lane
            if queries % self.lanes:
                query = linear(self.writer.binary("minui", query, queries - 1))
            at = (
                problem.head(0, self.scores.outer)
                + (start + query) * problem.step(0, query_loop)
                + element * step
            )
            held = self.body.strided(self.q, kind, at, step, mask)
            held = self.math.widened(held, ops.element_type(problem.operands[0]))
            if problem.score_body is None and problem.scale != 1.0:
                held = self.scores.scaled(held)
            rows.append(held)
        for n, held in enumerate(transposed(self.writer, rows, "f32", self.lanes)[:count]):
            self.stack.store(held, self._query(element + n) + first)

    def _query(self, element: Linear) -> Linear:
        """The place of an element of the queries."""
        return element * self.width + self.stack.layout.queries

    # --- scores -----------------------------------------------------------------------------------

    def _write_scores(self, start: Linear, vectors: int, first: Linear, keys: int) -> list[str]:
        problem = self.problem
        step = problem.step(1, problem.roles[2])
        bits = ops.element_bits(problem.operands[1])
        rows = register_tiles.max_rows(vectors, self.device, row_bytes=step * bits // 8)
        rows = min(rows, keys)
        lowest = self.body.splat(MINUS_INFINITY, "f32")
        maxima = [lowest] * vectors
        kinds = [self.kind] * vectors
        whole = keys // rows * rows

        def tile(number: str, held: list[str]) -> list[str]:
            return self._write_score_tile(start, first, linear(number), rows, held)

        if whole:
            maxima = self.writer.loop(0, whole, rows, maxima, kinds, tile)
        if whole < keys:
            maxima = self._write_score_tile(start, first, linear(whole), keys - whole, maxima)
        return maxima

    def _write_score_tile(
        self, start: Linear, first: Linear, key: Linear, rows: int, maxima: Sequence[str]
    ) -> list[str]:
        problem, vectors = self.problem, len(maxima)
        _, _, key_loop, element_loop, _ = problem.roles
        at = problem.head(1, self.scores.outer) + (first + key) * problem.step(1, key_loop)
        element_step, key_step = problem.step(1, element_loop), problem.step(1, key_loop)
        zero = self.body.splat("0.0", "f32")
        kind = problem.operands[1].type

        def step(index: str, held: list[str]) -> list[str]:
            sums = list(held)
            lanes = [
                self.stack.load(self._query(linear(index)) + v * self.lanes) for v in range(vectors)
            ]
            for row in range(rows):
                place = at + linear(index) * element_step + row * key_step
                element = self.math.broadcast(self.k, kind, place)
                for v in range(vectors):
                    n = row * vectors + v
                    sums[n] = self.math.multiply_add(element, lanes[v], sums[n])
            return sums

        count = rows * vectors
        scores = self.writer.loop(0, problem.qk_head, 1, [zero] * count, [self.kind] * count, step)
        self.body.forget()
        found = list(maxima)
        for row in range(rows):
            for v in range(vectors):
                product, place = scores[row * vectors + v], (row, v, v == vectors - 1)
                query = start + v * self.lanes
                score = self.scores.of(product, first + key + row, query, place)
                self.stack.store(score, self.stack.score(key + row, v))
                found[v] = self.weights.larger(score, found[v])
        self.body.forget()
        return found

    def _write_weights(self, maxima: Sequence[str], keys: int) -> None:
        sums = [self.stack.kept("sums", v) for v in range(len(maxima))]

        def step(key: str, held: list[str]) -> list[str]:
            found = []
            for v, maximum in enumerate(maxima):
                place = self.stack.score(linear(key), v)
                weight = self.weights.of(self.stack.load(place), maximum)
                self.stack.store(weight, place)
                found.append(self.writer.value(f"arith.addf {held[v]}, {weight} : {self.kind}"))
            return found

        sums = self.writer.loop(0, keys, 1, sums, [self.kind] * len(sums), step)
        for v, name in enumerate(sums):
            self.stack.keep("sums", v, name)

    # --- values -----------------------------------------------------------------------------------

    def _write_values(self, start: Linear, queries: int, first: Linear, keys: int) -> None:
        """Writes the contraction of a block's weights and values, in register tiles."""
        tile = register_tiles.choose(queries, self.columns, keys, self.device)
        for column in range(0, self.columns, tile.vectors):
            columns = range(column, min(column + tile.vectors, self.columns))
            whole = queries // tile.rows * tile.rows

            def rows(number: str, _: list[str], columns: range = columns) -> list[str]:
                self._write_value_tile(start, linear(number), tile.rows, columns, first, keys)
                return []

            if whole:
                self.writer.loop(0, whole, tile.rows, [], [], rows)
            if whole < queries:
                rest = linear(whole)
                self._write_value_tile(start, rest, queries - whole, columns, first, keys)

    def _write_value_tile(
        self, start: Linear, query: Linear, rows: int, columns: range, first: Linear, keys: int
    ) -> None:
        problem = self.problem
        key_loop = problem.roles[2]
        kind, key_step = problem.operands[2].type, problem.step(2, key_loop)
        at = problem.head(2, self.scores.outer) + first * key_step
        element = ops.element_type(problem.operands[2])
        places = [(row, column) for row in range(rows) for column in columns]
        single = self.blocks == 1
        if single:
            sums = [self.body.splat("0.0", "f32")] * len(places)
        else:
            factors = [self.stack.statistic("factors", query + row) for row in range(rows)]
            sums = [
                self.writer.value(
                    f"arith.mulf {self.stack.load(self.stack.accumulator(query + row, c))},"
                    f" {factors[row]} : {self.kind}"
                )
                for row, c in places
            ]
        masks = {c: self.results.mask(c) for c in columns}

        def step(key: str, held: list[str]) -> list[str]:
            found = list(held)
            values = []
            for column in columns:
                place = at + linear(key) * key_step + column * self.lanes
                loaded = self.body.load(self.v, kind, place, masks[column])
                values.append(self.math.widened(loaded, element))
            for row in range(rows):
                place = self.stack.score(linear(key), 0) + query + row
                weight = self.stack.in_all_lanes(place)
                for v, value in enumerate(values):
                    n = row * len(values) + v
                    found[n] = self.math.multiply_add(weight, value, found[n])
            return found

        sums = self.writer.loop(0, keys, 1, sums, [self.kind] * len(sums), step)
        for (row, c), name in zip(places, sums, strict=True):
            if single:
                divisor = self.stack.statistic("sums", query + row)
                self.results.write((*self.scores.outer, start + query + row), c, name, divisor)
            else:
                self.stack.store(name, self.stack.accumulator(query + row, c))
