"""The text of a kernel of attention.

    for each head, each tile of queries:
      q transposed onto the stack                           [head size][queries]
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

import dataclasses
import math
from collections.abc import Iterable, Sequence

from iree.compiler import ir

from mlirfuse.kernels.vector import register_tiles
from mlirfuse.kernels.vector.attention_queries import QueryTile, f32_text
from mlirfuse.kernels.vector.executable import VectorKernel
from mlirfuse.kernels.vector.lane_math import LaneMath
from mlirfuse.kernels.vector.pointwise import Axes, Pointwise, Position
from mlirfuse.kernels.vector.workgroups import BLOCKS_PER_CORE, MIN_BLOCK_OPERATIONS
from mlirfuse.kernels.vector.writer import Linear, Writer, linear
from mlirfuse.structured.ir import ops
from mlirfuse.targets.base import CpuDevice

STATISTICS = 3
"""Rows of the stack, one number for each query: maxima, sums, and factors of the accumulators."""

_MINUS_INFINITY = "0xFF800000"
"""-inf in f32."""


@dataclasses.dataclass(frozen=True, slots=True)
class AttentionTile:
    """How an attention is blocked.

    Attributes:
      vectors: vectors of queries of a tile.
      keys: keys of a block.
    """

    vectors: int
    keys: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An attention.

    Attributes:
      outer: sizes of the loops over batches and heads.
      queries: queries of a head.
      keys: keys.
      qk_head: elements of a query and a key.
      v_head: elements of a value.
      operands: q, k and v.
      loops: for each of them the loop of each dimension.
      roles: the outer loops, and those of queries, keys, and elements of keys and of values.
      scale: factor of the scores.
      score_body: further scalar ops on a score; None for none.
      mask: addend of the scores, or condition that keeps them; None without one.
      mask_axes: its axes among outer loops, keys and queries.
      value: result of the attention op.
      results: the region's results.
      axes: values that depend on `value`, and it -> axes among outer loops, queries, elements.
      tile: how it is blocked.
    """

    outer: tuple[int, ...]
    queries: int
    keys: int
    qk_head: int
    v_head: int
    operands: tuple[ir.Value, ...]
    loops: tuple[tuple[int | None, ...], ...]
    roles: tuple[tuple[int, ...], int, int, int, int]
    scale: float
    score_body: ir.Block | None
    mask: ir.Value | None
    mask_axes: Axes
    value: ir.Value
    results: tuple[ir.Value, ...]
    axes: dict[ir.Value, Axes]
    tile: AttentionTile

    @property
    def blocks(self) -> int:
        """Blocks of keys."""
        return -(-self.keys // self.tile.keys)

    def step(self, operand: int, loop: int) -> int:
        """The distance of an operand's elements of adjacent indices of a loop; 0 without it."""
        sizes = [size or 0 for size in ops.shape(self.operands[operand])]
        loops = self.loops[operand]
        return math.prod(sizes[loops.index(loop) + 1 :]) if loop in loops else 0


def kernel(problem: Problem, device: CpuDevice) -> VectorKernel:
    """Writes the kernel of an attention.

    Raises:
      Unsupported: the region has an op or an access that the kernel cannot compute.
    """
    return _AttentionKernel(problem, device).write()


class _AttentionKernel:
    """Writes one kernel."""

    def __init__(self, problem: Problem, device: CpuDevice) -> None:
        self.problem, self.device = problem, device
        self.writer = Writer()
        self.lanes = device.lanes
        self.body = Pointwise(self.writer, self.lanes, gathers=True)
        self.math = LaneMath(self.body, device)
        self.kind = self.body.vector_type("f32")
        self.q, self.k, self.v = map(self.body.buffer, problem.operands)
        self.width = problem.tile.vectors * self.lanes
        self.columns = -(-problem.v_head // self.lanes)
        # The stack: q transposed, scores, statistics, accumulators.
        self.score_place = problem.qk_head * self.width
        self.statistics = self.score_place + problem.tile.keys * self.width
        self.accumulators = self.statistics + STATISTICS * self.width
        size = self.accumulators
        if problem.blocks > 1:
            size += self.width * self.columns * self.lanes
        self.stack_kind = f"memref<{size}xf32>"
        aligned = f"alignment = {device.vector_bytes} : i64"
        self.stack = self.writer.hoisted(
            f'"memref.alloca"() <{{{aligned}, operandSegmentSizes = array<i32: 0, 0>}}>'
            f" : () -> {self.stack_kind}"
        )
        self.outer: list[Linear] = []
        self.mask = ""

    def write(self) -> VectorKernel:
        """Writes the whole kernel."""
        problem, writer = self.problem, self.writer
        heads = math.prod(problem.outer)
        tiles = -(-problem.queries // self.width)
        chunks, size = self._chunks(heads, tiles)
        number = writer.value("hal.interface.workgroup.id[0] : index")
        chunk = writer.binary("remui", number, chunks)
        rest = writer.binary("divui", number, chunks)
        found: list[Linear] = []
        for extent in reversed(problem.outer):
            found.append(linear(writer.binary("remui", rest, extent)))
            rest = writer.binary("divui", rest, extent)
        self.outer = found[::-1]
        first = linear(chunk) * size
        last = linear(writer.binary("minsi", first + size, tiles))
        whole, left = divmod(problem.queries, self.width)

        def tile(index: str, _: list[str]) -> list[str]:
            self._write_tile(linear(index) * self.width, self.width)
            return []

        if whole:
            end = writer.binary("minsi", last, whole)
            writer.loop(first, end, 1, [], [], tile)
        if left:
            ends = writer.value(
                f"arith.cmpi eq, {writer.index(last)}, {writer.index(tiles)} : index"
            )
            with writer.block(f"scf.if {ends} {{"):
                self._write_tile(Linear(constant=whole * self.width), left)
        return self.body.kernel("attention", problem.results, (heads * chunks, 1))

    def _chunks(self, heads: int, tiles: int) -> tuple[int, int]:
        """The number of workgroups of a head, and the tiles of queries of each."""
        problem = self.problem
        wanted = max(1, -(-BLOCKS_PER_CORE * self.device.cores // heads))
        work = self.width * problem.keys * (problem.qk_head + problem.v_head)
        size = min(tiles, max(-(-tiles // wanted), -(-MIN_BLOCK_OPERATIONS // work)))
        return -(-tiles // size), size

    # --- one tile of queries ----------------------------------------------------------------------

    def _write_tile(self, start: Linear, queries: int) -> None:
        problem = self.problem
        vectors = -(-queries // self.lanes)
        ragged = queries % self.lanes
        self.mask = ""
        if ragged:
            lanes = self.body.vector_type("i1")
            self.mask = self.writer.hoisted(f"vector.constant_mask [{ragged}] : {lanes}")
        self.body.forget()
        self._write_queries(start, queries)
        for vector in range(vectors):
            self._keep("maxima", vector, self.body.splat(_MINUS_INFINITY, "f32"))
            self._keep("sums", vector, self.body.splat("0.0", "f32"))
        if problem.blocks == 1:
            self._write_block(start, queries, Linear(), problem.keys)
            return
        zero = self.body.splat("0.0", "f32")

        def clear(row: str, _: list[str]) -> list[str]:
            for column in range(self.columns):
                self._store(zero, self._accumulator(linear(row), column))
            return []

        self.writer.loop(0, queries, 1, [], [], clear)
        whole = problem.keys // problem.tile.keys * problem.tile.keys

        def block(first: str, _: list[str]) -> list[str]:
            self._write_block(start, queries, linear(first), problem.tile.keys)
            return []

        self.writer.loop(0, whole, problem.tile.keys, [], [], block)
        if whole < problem.keys:
            self._write_block(start, queries, Linear(constant=whole), problem.keys - whole)
        self._write_results(start, queries)

    def _write_queries(self, start: Linear, queries: int) -> None:
        """Writes the transposition of a tile of q; lanes without a query have the last one."""
        problem = self.problem
        outer, query_loop, _, element_loop, _ = problem.roles
        at = self._offset(0, zip(outer, self.outer, strict=True))
        tile = QueryTile(
            body=self.body,
            math=self.math,
            buffer=self.q,
            kind=problem.operands[0].type,
            at=at + start * problem.step(0, query_loop),
            steps=(problem.step(0, query_loop), problem.step(0, element_loop)),
            queries=queries,
            elements=problem.qk_head,
            scale=problem.scale if problem.score_body is None else 1.0,
            stack=(self.stack, self.stack_kind),
            width=self.width,
        )
        tile.write()

    def _write_block(self, start: Linear, queries: int, first: Linear, keys: int) -> None:
        """Writes the work on a block of keys."""
        vectors = -(-queries // self.lanes)
        maxima = self._write_scores(start, vectors, first, keys)
        infinity = self.body.splat(_MINUS_INFINITY, "f32")
        zero = self.body.splat("0.0", "f32")
        used = []
        for vector, maximum in enumerate(maxima):
            old = self._kept("maxima", vector)
            new = self.writer.value(f"arith.maximumf {old}, {maximum} : {self.kind}")
            self._keep("maxima", vector, new)
            # A row that is masked so far: its exponentials are 0, and not NaN.
            lanes = self.body.vector_type("i1")
            masked = self.writer.value(f"arith.cmpf oeq, {new}, {infinity} : {self.kind}")
            used.append(
                self.writer.value(f"arith.select {masked}, {zero}, {new} : {lanes}, {self.kind}")
            )
            if self.problem.blocks > 1:
                factor = self._exponential(old, used[-1])
                self._keep("factors", vector, factor)
                total = self._kept("sums", vector)
                total = self.writer.value(f"arith.mulf {total}, {factor} : {self.kind}")
                self._keep("sums", vector, total)
        self._write_exponentials(used, keys)
        self._write_values(start, queries, first, keys)

    # --- scores -----------------------------------------------------------------------------------

    def _write_scores(self, start: Linear, vectors: int, first: Linear, keys: int) -> list[str]:
        """Writes the scores of a block onto the stack; returns their maxima."""
        problem = self.problem
        step = problem.step(1, problem.roles[2])
        bits = ops.element_bits(problem.operands[1])
        rows = register_tiles.max_rows(vectors, self.device, row_bytes=step * bits // 8)
        rows = min(rows, keys)
        lowest = self.body.splat(_MINUS_INFINITY, "f32")
        maxima = [lowest] * vectors
        kinds = [self.kind] * vectors
        whole = keys // rows * rows

        def tile(number: str, held: list[str]) -> list[str]:
            return self._write_score_tile(start, vectors, first, linear(number), rows, held)

        if whole:
            maxima = self.writer.loop(0, whole, rows, maxima, kinds, tile)
        if whole < keys:
            rest = Linear(constant=whole)
            maxima = self._write_score_tile(start, vectors, first, rest, keys - whole, maxima)
        return maxima

    def _write_score_tile(
        self,
        start: Linear,
        vectors: int,
        first: Linear,
        number: Linear,
        rows: int,
        maxima: Sequence[str],
    ) -> list[str]:
        problem = self.problem
        outer, _, key_loop, element_loop, _ = problem.roles
        at = self._offset(1, zip(outer, self.outer, strict=True))
        at = at + (first + number) * problem.step(1, key_loop)
        element_step, key_step = problem.step(1, element_loop), problem.step(1, key_loop)
        zero = self.body.splat("0.0", "f32")
        kind = problem.operands[1].type

        def step(index: str, held: list[str]) -> list[str]:
            sums = list(held)
            lanes = [
                self._load(linear(index) * self.width + v * self.lanes) for v in range(vectors)
            ]
            for row in range(rows):
                place = at + linear(index) * element_step + row * key_step
                key = self.math.broadcast(self.k, kind, place)
                for v in range(vectors):
                    n = row * vectors + v
                    sums[n] = self.math.multiply_add(key, lanes[v], sums[n])
            return sums

        count = rows * vectors
        scores = self.writer.loop(0, problem.qk_head, 1, [zero] * count, [self.kind] * count, step)
        self.body.forget()
        found = list(maxima)
        for row in range(rows):
            for v in range(vectors):
                key = first + number + row
                score = self._masked(scores[row * vectors + v], key, start, v, vectors, row)
                place = (number + row) * self.width + (self.score_place + v * self.lanes)
                self._store(score, place)
                found[v] = self.writer.value(f"arith.maximumf {found[v]}, {score} : {self.kind}")
        self.body.forget()
        return found

    def _masked(
        self, score: str, key: Linear, start: Linear, vector: int, vectors: int, row: int
    ) -> str:
        """A score after its scalar ops and its mask."""
        problem = self.problem
        if problem.score_body is not None:
            factor = self.body.splat(f32_text(problem.scale), "f32")
            score = self.writer.value(f"arith.mulf {score}, {factor} : {self.kind}")
            values = {problem.score_body.arguments[0]: score}
            *computed, end = [o.operation for o in problem.score_body.operations]
            for op in computed:
                self.body.apply(op, values)
            score = self.body.scalar(end.operands[0], values)
        if problem.mask is None:
            return score
        index = (*self.outer, key, start + vector * self.lanes)
        mask = self.mask if vector == vectors - 1 else ""
        held = self.body.vector(
            problem.mask, problem.mask_axes, Position((row, vector), index, mask)
        )
        element = ops.element_type(problem.mask)
        if element != "i1":
            addend = self.math.widened(held, element)
            return self.writer.value(f"arith.addf {score}, {addend} : {self.kind}")
        lowest = self.body.splat(_MINUS_INFINITY, "f32")
        lanes = self.body.vector_type("i1")
        return self.writer.value(f"arith.select {held}, {score}, {lowest} : {lanes}, {self.kind}")

    def _write_exponentials(self, maxima: Sequence[str], keys: int) -> None:
        """Writes the exponentials of a block's scores in their place, and adds up their sums."""
        sums = [self._kept("sums", v) for v in range(len(maxima))]

        def step(key: str, held: list[str]) -> list[str]:
            found = []
            for v, maximum in enumerate(maxima):
                place = linear(key) * self.width + (self.score_place + v * self.lanes)
                weight = self._exponential(self._load(place), maximum)
                self._store(weight, place)
                found.append(self.writer.value(f"arith.addf {held[v]}, {weight} : {self.kind}"))
            return found

        sums = self.writer.loop(0, keys, 1, sums, [self.kind] * len(sums), step)
        for v, name in enumerate(sums):
            self._keep("sums", v, name)

    def _exponential(self, score: str, maximum: str) -> str:
        difference = self.writer.value(f"arith.subf {score}, {maximum} : {self.kind}")
        return self.writer.value(f"math.exp {difference} : {self.kind}")

    # --- values -----------------------------------------------------------------------------------

    def _write_values(self, start: Linear, queries: int, first: Linear, keys: int) -> None:
        """Writes the contraction of a block's weights and values, in register tiles."""
        tile = register_tiles.choose(queries, self.columns, keys, self.device)
        for column in range(0, self.columns, tile.vectors):
            whole = queries // tile.rows * tile.rows

            def rows(number: str, _: list[str], column: int = column) -> list[str]:
                self._write_value_tile(
                    start, linear(number), tile.rows, column, tile.vectors, first, keys
                )
                return []

            if whole:
                self.writer.loop(0, whole, tile.rows, [], [], rows)
            if whole < queries:
                rest = Linear(constant=whole)
                self._write_value_tile(
                    start, rest, queries - whole, column, tile.vectors, first, keys
                )

    def _write_value_tile(
        self,
        start: Linear,
        number: Linear,
        rows: int,
        column: int,
        vectors: int,
        first: Linear,
        keys: int,
    ) -> None:
        problem = self.problem
        outer, _, key_loop, *_ = problem.roles
        at = self._offset(2, zip(outer, self.outer, strict=True))
        at = at + first * problem.step(2, key_loop)
        kind, key_step = problem.operands[2].type, problem.step(2, key_loop)
        element = ops.element_type(problem.operands[2])
        places = [(row, column + v) for row in range(rows) for v in range(vectors)]
        single = problem.blocks == 1
        if single:
            sums = [self.body.splat("0.0", "f32")] * len(places)
        else:
            factors = [self._statistic("factors", number + row) for row in range(rows)]
            sums = [
                self.writer.value(
                    f"arith.mulf {self._load(self._accumulator(number + row, c))},"
                    f" {factors[row]} : {self.kind}"
                )
                for row, c in places
            ]
        masks = {c: self._column_mask(c) for c in range(column, column + vectors)}

        def step(key: str, held: list[str]) -> list[str]:
            found = list(held)
            values = []
            for v in range(vectors):
                place = at + linear(key) * key_step + (column + v) * self.lanes
                loaded = self.body.load(self.v, kind, place, masks[column + v])
                values.append(self.math.widened(loaded, element))
            for row in range(rows):
                place = linear(key) * self.width + number + (self.score_place + row)
                weight = self.math.broadcast_f32(self.stack, self.stack_kind, place)
                for v in range(vectors):
                    n = row * vectors + v
                    found[n] = self.math.multiply_add(weight, values[v], found[n])
            return found

        sums = self.writer.loop(0, keys, 1, sums, [self.kind] * len(sums), step)
        if not single:
            for (row, c), name in zip(places, sums, strict=True):
                self._store(name, self._accumulator(number + row, c))
            return
        for row in range(rows):
            divisor = self._statistic("sums", number + row)
            for v in range(vectors):
                self._finish(start, number + row, column + v, sums[row * vectors + v], divisor)

    def _column_mask(self, column: int) -> str:
        rest = self.problem.v_head % self.lanes
        if not rest or column != self.columns - 1:
            return ""
        return self.writer.hoisted(f"vector.constant_mask [{rest}] : {self.body.vector_type('i1')}")

    def _write_results(self, start: Linear, queries: int) -> None:
        """Writes the results from the accumulators on the stack."""

        def row(number: str, _: list[str]) -> list[str]:
            divisor = self._statistic("sums", linear(number))
            for column in range(self.columns):
                held = self._load(self._accumulator(linear(number), column))
                self._finish(start, linear(number), column, held, divisor)
            return []

        self.writer.loop(0, queries, 1, [], [], row)

    def _finish(self, start: Linear, row: Linear, column: int, total: str, divisor: str) -> None:
        """Writes the epilogue of one vector of the result."""
        problem = self.problem
        made = self.writer.value(f"arith.divf {total}, {divisor} : {self.kind}")
        element = ops.element_type(problem.value)
        if element != "f32":
            narrow = self.body.vector_type(element)
            made = self.writer.value(f"arith.truncf {made} : {self.kind} to {narrow}")
        index = (*self.outer, start + row, Linear(constant=column * self.lanes))
        position = Position((column,), index, self._column_mask(column))
        self.body.forget()
        self.body.define(problem.value, problem.axes[problem.value], position, made)
        for number, result in enumerate(problem.results):
            axes = problem.axes[result]
            vector = self.body.vector(result, axes, position)
            at = self.body.offset(result.type, axes, index)
            self.body.store(f"%y{number}", result.type, vector, at, position.mask)
        self.body.forget()

    # --- memory -----------------------------------------------------------------------------------

    def _offset(self, operand: int, indices: Iterable[tuple[int, Linear]]) -> Linear:
        """The offset in an operand of its first element in a batch and head."""
        total = Linear()
        for loop, index in indices:
            total = total + index * self.problem.step(operand, loop)
        return total

    def _accumulator(self, row: Linear, column: int) -> Linear:
        return row * (self.columns * self.lanes) + (self.accumulators + column * self.lanes)

    def _place(self, name: str) -> int:
        return self.statistics + ("maxima", "sums", "factors").index(name) * self.width

    def _kept(self, name: str, vector: int) -> str:
        return self._load(Linear(constant=self._place(name) + vector * self.lanes))

    def _keep(self, name: str, vector: int, value: str) -> None:
        self._store(value, Linear(constant=self._place(name) + vector * self.lanes))

    def _statistic(self, name: str, row: Linear) -> str:
        """A number of one query, in all lanes."""
        return self.math.broadcast_f32(self.stack, self.stack_kind, row + self._place(name))

    def _load(self, at: Linear) -> str:
        place = self.writer.index(at)
        return self.writer.value(
            f"vector.load {self.stack}[{place}] : {self.stack_kind}, {self.kind}"
        )

    def _store(self, vector: str, at: Linear) -> None:
        place = self.writer.index(at)
        self.writer.line(
            f"vector.store {vector}, {self.stack}[{place}] : {self.stack_kind}, {self.kind}"
        )
