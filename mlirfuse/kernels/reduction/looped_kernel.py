"""The lines of a kernel that loops over the columns of a block of rows.

Accumulators have the shape of a tile; after the loop their lanes are reduced to rows, once. A sum
around a value of rows has the `Moments` or `Exponentials` of each lane for its accumulator, a
position of a value of rows the `Positions`; it is finished where this value is known.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen import row_reductions
from mlirfuse.kernels.codegen.combiners import Combiner, combined_with_init, neutral_tile
from mlirfuse.kernels.codegen.element_types import HIDING, POINTERS, WIDE
from mlirfuse.kernels.codegen.iteration_space import MAX_INDEX, Group, Space
from mlirfuse.kernels.codegen.module_text import text_of
from mlirfuse.kernels.plan import Plan, Program
from mlirfuse.kernels.reduction.analysis import COLUMN, ROW, ReductionAnalysis
from mlirfuse.kernels.reduction.body_values import BodyValue
from mlirfuse.kernels.reduction.exponentials import Exponentials, no_exponentials
from mlirfuse.kernels.reduction.extreme_positions import ExtremePosition, no_positions
from mlirfuse.kernels.reduction.moments import Moments, no_moments
from mlirfuse.kernels.reduction.partial_results import PartialResults, Parts, Split
from mlirfuse.kernels.reduction.passes_over_columns import Centered, Levels, Pass
from mlirfuse.kernels.reduction.row_blocks import row_blocks
from mlirfuse.kernels.reduction.row_tiles import RowTiles, columns_of_tile, compares_values
from mlirfuse.structured.ir import ops

ENTRY = "reduction_kernel"


class LoopTiles(RowTiles):
    """Tiles of which some are known only in a loop."""

    @contextlib.contextmanager
    def scope(self, space: Space) -> Iterator[None]:
        """Lets the tiles of the `with` block end with it, and gives it masks of its own."""
        inside, loaded, before = dict(self._inside), dict(self._loaded), self.space
        self.space = space
        try:
            yield
        finally:
            self._inside, self._loaded, self.space = inside, loaded, before

    def hoist(self, op: ir.Operation) -> None:
        """Reads the operands of an op that all columns share."""
        for argument, value, index_map in zip(
            ops.body(op).arguments, op.operands, ops.indexing_maps(op), strict=True
        ):
            axes = tuple(None if n is None else self.loops[op][n] for n in index_map or ())
            shared = all(axis is not None and axis[0] == ROW for axis in axes)
            if shared and list(argument.uses) and ops.num_inputs(op) > argument.arg_number:
                self.read(value, axes)

    def scalar(self, part: BodyValue) -> str:
        """The tile of a value in the body of an op, without the rest of the body."""
        known = self.body.block(
            ops.body(part.op),
            self.arguments(part.op, part.other_operands),
            lambda loop: self.index(part.op, loop),
            part.others,
        )
        return known[part.value]


class LoopedKernel:
    """Writes the lines of one kernel.

    Attributes:
      analysis: the region.
      levels: the levels of its values.
      blocks: the rows of its CTAs.
      tiles: the writer.
      combined: reduction -> its accumulator, before its init, where splits have been combined.
      parts: sum around a value of rows -> the accumulators of its lanes or splits.
      needed: ops that it has to compute, where these are not all.
    """

    def __init__(
        self,
        analysis: ReductionAnalysis,
        levels: Levels,
        block_rows: int,
        block_columns: int,
        split: Split | None = None,
        *,
        each: int = 0,
    ) -> None:
        """Takes the tile and the split, and how many elements of the tile a thread has."""
        self.analysis = analysis
        self.levels = levels
        self.combined: dict[ir.Operation, str] = {}
        self.parts: dict[ir.Operation, Parts] = {}
        self.needed = set(analysis.group)
        self.blocks = row_blocks(analysis, block_rows)
        self._block_columns = block_columns
        self._split = split
        row = self.blocks.group()
        self._whole, self._masked = (
            Space((row, columns_of_tile(analysis, block_columns, each, self._start, mask)))
            for mask in ("", "column_mask")
        )
        self.tiles = LoopTiles(
            self._whole,
            analysis.loops,
            WIDE,
            short=all(ops.element_type(v) in HIDING for v in analysis.results),
        )
        self.tiles.rounds = compares_values(analysis)
        self.writer = self.tiles.body.writer

    @property
    def _wide(self) -> str:
        large = self.analysis.rows * self.analysis.columns >= MAX_INDEX
        return ".to(tl.int64)" if large or self.analysis.num_dynamic else ""

    @property
    def _start(self) -> str:
        """What is added to the columns of a tile in a loop."""
        return f"start{self._wide} + "

    def write_indices(self, *, backwards: bool = False) -> None:
        """Writes the rows of a CTA, and its split.

        Args:
          backwards: whether the CTAs that start first have the last columns.
        """
        self.writer.write(self.blocks.indices("tl.program_id(0)", self._wide))
        self.writer.write(self.tiles.space.inside(ROW))
        if self._split is not None:
            last = f"{self._split.count - 1} - " if backwards else ""
            self.writer.line(f"split = {last}tl.program_id(1)")
            self.writer.line(f"first = split{self._wide} * {self._split.columns}")

    def write_rows(self, level: int) -> None:
        """Writes the ops over rows alone that a level completes."""
        for op in self.levels.of_rows(level):
            if op in self.parts:
                center = self.tiles.scalar(self.levels.centered[op].center)
                self.combined[op] = self.parts[op].around(self.writer, center)
                self._finish(op, self.combined[op])
            elif op in self.needed:
                self.tiles.elementwise(op)

    def _loops(
        self, *, backwards: bool = False, unrolled: bool = False
    ) -> Iterator[tuple[str, Space]]:
        """The loops over whole tiles, and over the last, partial one.

        Args:
          backwards: whether the loops begin with the last columns.
          unrolled: whether an iteration has two tiles, so that the loads of both are in flight.
        """
        columns, step = self.analysis.columns, self._block_columns
        full = columns // step * step
        first, last = "0", str(columns)
        if self._split is not None:
            first, last = "first", f"tl.minimum(first + {self._split.columns}, {columns})"
        found = []
        if full:
            end = str(full) if self._split is None else f"tl.minimum({last}, {full})"
            bounds = f"{first}, {end}, {step}"
            if backwards:
                bounds = f"{end} - {step}, {first} - {step}, -{step}"
            unroll = ", loop_unroll_factor=2" if unrolled else ""
            found.append((f"for start in tl.range({bounds}{unroll}):", self._whole))
        if full < columns:
            begin = str(full) if self._split is None else f"tl.maximum({first}, {full})"
            found.append((f"for start in tl.range({begin}, {last}, {step}):", self._masked))
        yield from reversed(found) if backwards else found

    @contextlib.contextmanager
    def _columns(self, header: str, space: Space) -> Iterator[None]:
        """The body of a loop over columns."""
        width = self._block_columns
        with self.writer.indented(header), self.tiles.scope(space):
            indices = f"tl.arange(0, {width})[None, :]{self._wide}"
            self.writer.line(f"column_local = {indices}")
            self.writer.line(f"column = {self._start}column_local")
            self.writer.write(space.inside(COLUMN))
            yield

    def accumulate(self, each: Pass) -> dict[ir.Operation, str]:
        """Writes a pass; returns the tiles of accumulators, reduced to rows.

        Those of sums around a value of rows are the `parts` of its lanes.
        """
        shape = self.blocks.height, self._block_columns
        centered = {op: f for op, f in self.levels.centered.items() if op in each.reductions}
        names = {}
        for op in each.reductions:
            combiner, element = self._combiner(op)
            if op not in centered:
                names[op] = self.tiles.body.name(neutral_tile(combiner, element, f"{[*shape]}"))
        for op in (*each.ops, *names):
            self.tiles.hoist(op)
        shifts = self._shifts({op: found for op, found in centered.items() if found.squared})
        for op, found in centered.items():
            if isinstance(found, ExtremePosition):
                self.parts[op] = no_positions(self.writer, shape, found)
            elif found.squared:
                self.parts[op] = no_moments(self.writer, shape, shifts[op])
            else:
                self.parts[op] = no_exponentials(self.writer, shape)
        # On an H200 the variance of 58 million bf16 took 38.8 us with one tile at a time, and 33.5
        # with two; sums, maxima and positions take as long.
        several = any(isinstance(self.parts[op], Moments) for op in centered)
        for header, space in self._loops(unrolled=several):
            with self._columns(header, space):
                self._write_columns(each)
                for op, name in names.items():
                    self._combine(op, name)
                self._add_to_parts(centered)
        for op in centered:
            parts = self.parts[op]
            if isinstance(parts, Moments):
                self.parts[op] = dataclasses.replace(parts, count=self._lane_counts())
        return {
            op: self.tiles.body.name(self._combiner(op)[0].tile.format(name))
            for op, name in names.items()
        }

    def _combiner(self, op: ir.Operation) -> tuple[Combiner, str]:
        """The combiner of a reduction, and the type of its result's elements."""
        return self.analysis.reductions[op].combiner, ops.element_type(op.results[0])

    def _shifts(self, centered: Mapping[ir.Operation, Centered]) -> dict[ir.Operation, str]:
        """The mean of the first values of each row, of those of the CTA.

        They fill a tile like those of the loop, so that Triton gives all of them one layout: with
        another one Triton 3.6 takes accumulators through shared memory in each iteration. The first
        iteration finds them in L1.
        """
        if not centered:
            return {}
        first, mask, share = "", "", ""
        width = self._block_columns
        if self._split is None:
            width = min(width, 1 << self.analysis.columns.bit_length() - 1)
        else:
            first = "first + "
            if (self.analysis.columns - 1) % self._split.columns + 1 < width:
                mask = "first_column_mask"
                share = self.writer.name(f"1.0 / tl.minimum({self._count}, {width})")
        share = share or str(1 / width)
        column = Group("first_column", self.analysis.column_sizes, mask)
        with self.tiles.scope(Space((self.blocks.group(), column))):
            self.writer.line(f"first_column = {first}tl.arange(0, {width})[None, :]")
            self.writer.write(self.tiles.space.inside(COLUMN))
            for op in self.levels.columns_for(list(centered)):
                self.tiles.elementwise(op)
            values = {op: self.tiles.scalar(found.value) for op, found in centered.items()}
            if mask:
                values = {op: f"tl.where({mask}, {name}, 0.0)" for op, name in values.items()}
            return {
                op: self.tiles.body.name(f"tl.sum({name} * {share}, 1, keep_dims=True)")
                for op, name in values.items()
            }

    def _add_to_parts(self, centered: Mapping[ir.Operation, Centered]) -> None:
        """Adds the values of a tile to the accumulators of its lanes."""
        before, mask = "", self.tiles.space.groups[COLUMN].mask
        if any(found.squared for found in centered.values()):
            start = "start" if self._split is None else "(start - first)"
            before = self.writer.name(f"({start} // {self._block_columns}) * 1.0")
        for op, found in centered.items():
            parts, value = self.parts[op], self.tiles.scalar(found.value)
            if isinstance(parts, Moments):
                parts.add(self.writer, value, before, mask)
            elif isinstance(parts, Exponentials):
                parts.add(self.writer, value, mask)
            elif isinstance(found, ExtremePosition):
                parts.add(self.writer, value, self.tiles.scalar(found.position), mask)

    def _lane_counts(self) -> str:
        """The columns of each lane."""
        width = self._block_columns
        lanes = f"{width - 1} - tl.arange(0, {width})[None, :]"
        return self.writer.name(f"(({self._count} + {lanes}) // {width}) * 1.0")

    @property
    def _count(self) -> str:
        """The columns of the CTA."""
        if self._split is None:
            return str(self.analysis.columns)
        return f"tl.minimum({self.analysis.columns} - first, {self._split.columns})"

    def whole(self, op: ir.Operation) -> Parts:
        """The accumulator of a sum or a position over all columns of the CTA, after the loop."""
        parts = self.parts[op]
        if isinstance(parts, Moments):
            return parts.whole(self.writer, f"({self._count} * 1.0)")
        return parts.whole(self.writer)

    def reduce(self, each: Pass) -> None:
        """Writes a pass and the results of its reductions."""
        for op, name in self.accumulate(each).items():
            self._finish(op, name)

    def _finish(self, op: ir.Operation, accumulator: str) -> None:
        reduction, element = self.analysis.reductions[op], ops.element_type(op.results[0])
        types = self.tiles.body.types
        text = combined_with_init(reduction.combiner, reduction.init, accumulator, element, types)
        self.tiles.define(op.results[0], self.tiles.body.name(text))

    def _write_columns(self, each: Pass) -> None:
        """Writes the ops over columns, and stores their results."""
        for op in each.ops:
            self.tiles.elementwise(op)
            for value in op.results:
                if value in each.stored:
                    self._store(value)

    def _combine(self, op: ir.Operation, accumulator: str) -> None:
        """Combines an accumulator with the terms of a tile."""
        reduction, element = self.analysis.reductions[op], ops.element_type(op.results[0])
        combiner = reduction.combiner
        term = row_reductions.term(self.tiles, op, reduction)
        mask = self.tiles.space.groups[COLUMN].mask
        if mask:
            term = f"tl.where({mask}, {term}, {neutral_tile(combiner, element)})"
        self.writer.line(f"{accumulator} = {combiner.pair.format(accumulator, term)}")

    def store_columns(self, each: Pass) -> None:
        """Writes a pass that reduces nothing, if it stores anything.

        It is the last one and begins with the columns that the pass before read last: L2 still has
        them.
        """
        if not each.stored:
            return
        for op in each.ops:
            self.tiles.hoist(op)
        self.tiles.evict_first = True
        for header, space in self._loops(backwards=True):
            with self._columns(header, space):
                self._write_columns(each)

    def store_rows(self, *, once: bool = False) -> None:
        """Stores the results of rows alone.

        Args:
          once: whether only the first split does.
        """
        values = [
            value
            for value in self.analysis.results
            if not self.levels.has_columns(value.owner.operation)
        ]
        if values and once:
            with self.writer.indented("if split == 0:"):
                for value in values:
                    self._store(value)
        else:
            for value in values:
                self._store(value)

    def _store(self, value: ir.Value) -> None:
        index = self.analysis.results.index(value)
        self.tiles.store(f"y{index}", value, self.tiles.written_axes(value))

    def store_partial(self, index: int, name: str, element: str, offset: str) -> None:
        """Stores accumulators as scratch.

        Args:
          index: number of the scratch tensor.
          name: the accumulators.
          element: its element type.
          offset: their places.
        """
        mask = self._whole.groups[ROW].mask
        guard = f", mask={mask}" if mask else ""
        bits = f".to(tl.int{element[1:]}, bitcast=True)" if element[0] == "i" else ""
        self.writer.line(f"tl.store(y{index} + {offset}, {name}{bits}{guard})")

    def combine_partials(self, level: int, split: Split) -> None:
        """Reads the results of all levels up to one, the last of them in parts."""
        self.write_rows(0)
        if not level:
            return
        stored = PartialResults(
            self.writer,
            self.analysis,
            split,
            self.blocks.height,
            self._whole.groups[ROW].mask,
            self._wide,
        )
        for op in self.levels.reductions(level):
            if op in self.levels.centered:
                self.parts[op] = stored.around(self.levels.centered[op])
                continue
            combiner, element = self._combiner(op)
            name = stored.parts(combiner, element)
            self.combined[op] = self.tiles.body.name(combiner.tile.format(name))
            self._finish(op, self.combined[op])
        for op in (op for n in range(1, level) for op in self.levels.reductions(n)):
            self.combined[op] = stored.of_rows(self.analysis.accumulator(op))
            self._finish(op, self.combined[op])
        for n in range(1, level + 1):
            self.write_rows(n)

    def program(
        self, arguments: Sequence[tuple[str, str]], num_warps: int, before: Plan | None
    ) -> Program:
        """The program, when all is written."""
        given = [] if before is None else before.scratch_types
        every = [*((f"s{n}", POINTERS[kind]) for n, kind in enumerate(given)), *arguments]
        lines = self.writer.lines
        text = text_of(ENTRY, every, lines, f"Columns of {self.analysis.columns}, in parts.")
        return Program(ENTRY, text, tuple(every), num_warps, 1)
