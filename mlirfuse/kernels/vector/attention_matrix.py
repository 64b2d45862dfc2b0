"""Products of attention by tile registers (AMX), of bf16 with accumulators of f32.

    v in pairs of keys, once for each workgroup            [keys / 2][head size of v][2]
    for each tile of queries:
      q transposed, in pairs of elements                   [head size / 2][queries][2]
      for each block of keys:
        scores = k q^T: tiles of k are read in place       [keys][queries], f32
        weights, rounded to bf16, in the place of scores   [queries][keys]
        accumulators += weights v                          [queries][head size of v], f32

The last elements of keys are products of narrower tiles, the last keys those of tiles of fewer
rows; weights and v have zeros behind the last key.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.vector.attention_blocks import AttentionBlocks
from mlirfuse.kernels.vector.attention_problem import AttentionTile, Problem
from mlirfuse.kernels.vector.attention_scores import MINUS_INFINITY
from mlirfuse.kernels.vector.attention_stack import Layout
from mlirfuse.kernels.vector.executable import memref
from mlirfuse.kernels.vector.pointwise import Pointwise
from mlirfuse.kernels.vector.products import TILE_BYTES, TILE_ROWS
from mlirfuse.kernels.vector.tile_registers import TileRegisters
from mlirfuse.kernels.vector.transposition import transposed
from mlirfuse.kernels.vector.writer import Linear, linear
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice

DEPTH = TILE_BYTES // 2
"""Elements of K in a tile of bf16."""

_TILE = DEPTH * TILE_ROWS
"""Elements of a tile."""

_PRODUCT = "tdpbf16ps"

_SUMS, _ROWS, _COLUMNS, _LAST_ROWS, _LAST_COLUMNS = 0, 4, 5, 6, 7
"""The first registers of accumulators and of operands; those of the last elements of K."""

_NUM_SUMS = _ROWS - _SUMS

_MAXIMA = 4
"""Keys whose maxima are independent: a maximum waits four cycles for the last one."""


class MatrixBlocks(AttentionBlocks):
    """Writes tiles of queries whose products are those of tile registers.

    Attributes:
      registers: writes their instructions.
      packed: the buffer of v and of q as they are multiplied, for all workgroups.
    """

    def __init__(
        self,
        problem: Problem,
        tile: AttentionTile,
        layout: Layout,
        body: Pointwise,
        device: CpuDevice,
        stack: tuple[str, str],
        registers: TileRegisters,
    ) -> None:
        # Products of bf16 have no factor: plain scores get theirs in the exponential.
        factor = problem.scale if self.scales_late(problem) else 1.0
        super().__init__(problem, tile, layout, body, device, stack, factor)
        self.registers = registers
        self.packed, self._packed_type = f"%y{len(problem.results)}", ""
        self._values = self._queries = Linear()

    @staticmethod
    def scales_late(problem: Problem) -> bool:
        """Whether the exponential has the factor of the scores, which are products until then."""
        selects = problem.mask is None or ops.element_type(problem.mask) == "i1"
        return selects and problem.score_body is None and problem.scale > 0

    # --- packed operands --------------------------------------------------------------------------

    @property
    def _value_size(self) -> int:
        """Elements of packed values of a head."""
        return -(-self.problem.keys // DEPTH) * self.columns * _TILE

    @property
    def _query_size(self) -> int:
        """Elements of a packed vector of queries."""
        return -(-self.problem.qk_head // DEPTH) * _TILE

    def scratch(self, workgroups: int) -> ir.Type:
        """The type of the buffer of packed operands."""
        size = workgroups * (self._value_size + self.tile.vectors * self._query_size)
        kind = ir.Type.parse(f"tensor<{size}xbf16>")
        self._packed_type = memref(kind)
        return kind

    def begin(self, outer: list[Linear], last: Linear) -> None:
        """Begins the work of a workgroup: packs the values of the keys that it sees."""
        super().begin(outer, last)
        number = self.writer.value("hal.interface.workgroup.id[0] : index")
        size = self._value_size + self.tile.vectors * self._query_size
        self._values = linear(number) * size
        self._queries = self._values + self._value_size
        keys = self.problem.keys
        whole = keys // DEPTH * DEPTH
        stop = linear(whole)
        if self.problem.causal:
            size = self.tile.keys
            blocks = self.writer.binary("divui", last + (size - 1), size)
            stop = linear(self.writer.binary("minui", linear(blocks) * size, whole))

        def pack(first: str, _: list[str]) -> list[str]:
            def pair(key: str, _: list[str]) -> list[str]:
                self._pack_values(linear(first), linear(key), 2)
                return []

            self.writer.loop(0, DEPTH, 2, [], [], pair)
            return []

        if whole:
            self.writer.loop(0, stop, DEPTH, [], [], pack)
        for key in range(0, DEPTH if whole < keys else 0, 2):
            self._pack_values(linear(whole), linear(key), min(2, max(0, keys - whole - key)))
        self._configure(TILE_ROWS)

    def _pack_values(self, first: Linear, key: Linear, count: int) -> None:
        """Writes a pair of values, of which `count` exist, into a part of `DEPTH` keys."""
        problem, kind = self.problem, self.problem.operands[2].type
        step = problem.step(2, problem.roles[2])
        at = problem.head(2, self.scores.outer) + (first + key) * step
        narrow, both = self.body.vector_type("bf16"), f"vector<{2 * self.lanes}xbf16>"
        order = [n // 2 + n % 2 * self.lanes for n in range(2 * self.lanes)]
        for column in range(self.columns):
            place = at + column * self.lanes
            pair = [
                self.body.load(self.v, kind, place + n * step, self.results.mask(column))
                if n < count
                else self.body.splat("0.0", "bf16")
                for n in range(2)
            ]
            words = self.writer.value(
                f"vector.shuffle {pair[0]}, {pair[1]} {order} : {narrow}, {narrow}"
            )
            self._store_packed(words, both, self._value_tile(first, column) + key * (DEPTH // 2))

    def _value_tile(self, first: Linear, column: int) -> Linear:
        """The place of the tile of a vector of values, of `DEPTH` keys."""
        return self._values + first * (self.columns * _TILE // DEPTH) + column * _TILE

    def _store_packed(self, vector: str, kind: str, at: Linear) -> None:
        place = self.writer.index(at)
        self.writer.line(
            f"vector.store {vector}, {self.packed}[{place}] : {self._packed_type}, {kind}"
        )

    def _write_queries(self, start: Linear, queries: int) -> None:
        head = self.problem.qk_head
        whole = head // DEPTH * DEPTH

        def vector(number: str, _: list[str]) -> list[str]:
            def square(element: str, _: list[str]) -> list[str]:
                self._write_square(start, linear(number), queries, linear(element), DEPTH)
                return []

            if whole:
                self.writer.loop(0, whole, DEPTH, [], [], square)
            if whole < head:
                self._write_square(start, linear(number), queries, linear(whole), head - whole)
            return []

        self.writer.loop(0, self._vectors(queries), 1, [], [], vector)

    def _write_square(
        self, start: Linear, vector: Linear, queries: int, element: Linear, count: int
    ) -> None:
        """Packs `count` elements of a vector of queries."""
        problem, kind = self.problem, memref(self.problem.operands[0].type)
        step = problem.step(0, problem.roles[1])
        narrow, words = f"vector<{DEPTH}xbf16>", self.body.vector_type("i32")
        rows = []
        for lane in range(self.lanes):
            query = vector * self.lanes + lane
            if queries % self.lanes:
                query = linear(self.writer.binary("minui", query, queries - 1))
            at = problem.head(0, self.scores.outer) + (start + query) * step + element
            place = f"{self.q}[{self.writer.index(at)}]"
            if count == DEPTH:
                held = self.writer.value(f"vector.load {place} : {kind}, {narrow}")
            else:
                mask = self.writer.hoisted(f"vector.constant_mask [{count}] : vector<{DEPTH}xi1>")
                zero = self.writer.constant("dense<0.0>", narrow)
                held = self.writer.value(
                    f"vector.maskedload {place}, {mask}, {zero} : {kind}, vector<{DEPTH}xi1>,"
                    f" {narrow} into {narrow}"
                )
            rows.append(self.writer.value(f"vector.bitcast {held} : {narrow} to {words}"))
        tile = self._queries + vector * self._query_size + element * (_TILE // DEPTH)
        for n, row in enumerate(transposed(self.writer, rows, "i32", self.lanes)[: count // 2]):
            held = self.writer.value(f"vector.bitcast {row} : {words} to {narrow}")
            self._store_packed(held, narrow, tile + n * DEPTH)

    # --- scores -----------------------------------------------------------------------------------

    def _configure(self, keys: int) -> None:
        """Sets the shapes of the registers for tiles of so many keys, 16 or fewer."""
        rest = self.problem.qk_head % DEPTH
        shapes = {register: (keys, TILE_BYTES) for register in range(_SUMS, _ROWS + 1)}
        shapes[_COLUMNS] = TILE_ROWS, TILE_BYTES
        if rest:
            shapes |= {_LAST_ROWS: (keys, 2 * rest), _LAST_COLUMNS: (rest // 2, TILE_BYTES)}
        self.registers.configure(shapes)

    def _write_scores(self, start: Linear, vectors: int, first: Linear, keys: int) -> list[str]:
        whole = keys // TILE_ROWS * TILE_ROWS

        def tile(key: str, _: list[str]) -> list[str]:
            self._write_score_tile(vectors, first, linear(key))
            return []

        if whole:
            self.writer.loop(0, whole, TILE_ROWS, [], [], tile)
        if whole < keys:
            self._configure(keys - whole)
            self._write_score_tile(vectors, first, linear(whole))
            self._configure(TILE_ROWS)
        return self._finished_scores(start, vectors, first, keys)

    def _write_score_tile(self, vectors: int, first: Linear, key: Linear) -> None:
        """Writes the products of some keys and all queries."""
        problem, registers = self.problem, self.registers
        step = problem.step(1, problem.roles[2])
        at = problem.head(1, self.scores.outer) + (first + key) * step
        k = memref(problem.operands[1].type)
        for vector in range(vectors):
            registers.zero(_SUMS + vector)
        for element in range(0, problem.qk_head, DEPTH):
            is_last = element + DEPTH > problem.qk_head
            rows, columns = (_LAST_ROWS, _LAST_COLUMNS) if is_last else (_ROWS, _COLUMNS)
            registers.load(rows, registers.pointer(self.k, k, at + element, 2), 2 * step)
            for vector in range(vectors):
                tile = self._queries + vector * self._query_size + element * (_TILE // DEPTH)
                pointer = registers.pointer(self.packed, self._packed_type, tile, 2)
                registers.load(columns, pointer, TILE_BYTES)
                registers.multiply(_PRODUCT, _SUMS + vector, rows, columns)
        for vector in range(vectors):
            registers.store(_SUMS + vector, self._score_pointer(key, vector), 4 * self.width)

    def _score_pointer(self, key: Linear, vector: int) -> str:
        place = self.stack.score(key, vector)
        return self.registers.pointer(self.stack.buffer, self.stack.kind, place, 4)

    def _finished_scores(self, start: Linear, vectors: int, first: Linear, keys: int) -> list[str]:
        """Writes the scores from their products; returns their maxima."""
        problem = self.problem
        group = min(_MAXIMA, keys)
        late = self.scales_late(problem)

        def some(key: Linear, count: int, held: list[str]) -> list[str]:
            found = list(held)
            self.body.forget()
            for row in range(count):
                for v in range(vectors):
                    place = self.stack.score(key + row, v)
                    score = loaded = self.stack.load(place)
                    if problem.score_body is None and not late:
                        score = self.scores.scaled(score)
                    query = start + v * self.lanes
                    position = (row, v, v == vectors - 1)
                    score = self.scores.of(score, first + key + row, query, position)
                    if score != loaded:
                        self.stack.store(score, place)
                    n = row * vectors + v
                    found[n] = self.weights.larger(score, found[n])
            self.body.forget()
            return found

        whole, count = keys // group * group, group * vectors
        lowest = self.body.splat(MINUS_INFINITY, "f32")
        maxima = self.writer.loop(
            *(0, whole, group, [lowest] * count, [self.kind] * count),
            lambda key, held: some(linear(key), group, held),
        )
        if whole < keys:
            maxima = some(linear(whole), keys - whole, maxima)
        found = maxima[:vectors]
        for n, maximum in enumerate(maxima[vectors:]):
            found[n % vectors] = self.weights.larger(maximum, found[n % vectors])
        return found

    # --- weights ----------------------------------------------------------------------------------

    def _write_weights(self, maxima: Sequence[str], keys: int) -> None:
        """Writes the weights of each query, in bf16, over the scores of its vector.

        Scores of -inf behind the last key fill up its part of `DEPTH` keys.
        """
        vectors, parts = len(maxima), -(-keys // DEPTH)
        lowest = self.body.splat(MINUS_INFINITY, "f32")

        def fill(key: str, _: list[str]) -> list[str]:
            for v in range(vectors):
                self.stack.store(lowest, self.stack.score(linear(key), v))
            return []

        if keys < parts * DEPTH:
            self.writer.loop(keys, parts * DEPTH, 1, [], [], fill)
        for v, maximum in enumerate(maxima):
            self.stack.keep("references", v, maximum)

        def weights(number: str, _: list[str]) -> list[str]:
            vector = linear(number)
            maximum = self.stack.kept("references", vector)
            (total,) = self.writer.loop(
                *(0, parts * DEPTH, DEPTH, [self.stack.kept("sums", vector)], [self.kind]),
                lambda key, held: [self._write_part(linear(key), vector, maximum, held[0])],
            )
            self.stack.keep("sums", vector, total)
            return []

        self.writer.loop(0, vectors, 1, [], [], weights)

    def _write_part(self, key: Linear, vector: Linear, maximum: str, total: str) -> str:
        """Writes the weights of `DEPTH` keys; returns their sum."""
        writer, words = self.writer, self.body.vector_type("i32")
        rows = []
        for first in range(0, DEPTH, 2):
            places = [self.stack.score(key + first + n, vector) for n in range(2)]
            low, high = (self.weights.of(self.stack.load(place), maximum) for place in places)
            for weight in (low, high):
                total = writer.value(f"arith.addf {total}, {weight} : {self.kind}")
            rows.append(self.weights.pair(low, high))
        for query, row in enumerate(transposed(writer, rows, "i32", self.lanes)):
            held = writer.value(f"arith.bitcast {row} : {words} to {self.kind}")
            self.stack.store(held, self.stack.score(key + query, vector))
        return total

    # --- values -----------------------------------------------------------------------------------

    def _write_values(self, start: Linear, queries: int, first: Linear, keys: int) -> None:
        vectors = self._vectors(queries)
        if self.blocks > 1:
            self._scale_accumulators(queries)
        for vector in range(vectors):
            for column in range(0, self.columns, _NUM_SUMS):
                columns = range(column, min(column + _NUM_SUMS, self.columns))
                self._write_value_tiles(vector, columns, first, keys)

    def _scale_accumulators(self, queries: int) -> None:
        """Multiplies the accumulators by the factors of their queries."""

        def row(number: str, _: list[str]) -> list[str]:
            factor = self.stack.statistic("factors", linear(number))
            for column in range(self.columns):
                place = self.stack.accumulator(linear(number), column)
                held = self.stack.load(place)
                made = self.writer.value(f"arith.mulf {held}, {factor} : {self.kind}")
                self.stack.store(made, place)
            return []

        self.writer.loop(0, queries, 1, [], [], row)

    def _write_value_tiles(self, vector: int, columns: range, first: Linear, keys: int) -> None:
        """Adds the products of a vector of queries and some columns of the values."""
        registers, stack = self.registers, self.stack
        stride = 4 * stack.layout.columns
        pointers = [
            registers.pointer(
                *(stack.buffer, stack.kind),
                *(stack.accumulator(linear(vector * self.lanes), column), 4),
            )
            for column in columns
        ]
        for n, pointer in enumerate(pointers):
            if self.blocks == 1:
                registers.zero(_SUMS + n)
            else:
                registers.load(_SUMS + n, pointer, stride)

        def part(key: str, _: list[str]) -> list[str]:
            registers.load(_ROWS, self._score_pointer(linear(key), vector), 4 * self.width)
            for n, column in enumerate(columns):
                tile = self._value_tile(first + linear(key), column)
                pointer = registers.pointer(self.packed, self._packed_type, tile, 2)
                registers.load(_COLUMNS, pointer, TILE_BYTES)
                registers.multiply(_PRODUCT, _SUMS + n, _ROWS, _COLUMNS)
            return []

        self.writer.loop(0, keys, DEPTH, [], [], part)
        for n, pointer in enumerate(pointers):
            registers.store(_SUMS + n, pointer, stride)
