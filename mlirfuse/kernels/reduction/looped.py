"""Kernels that loop over the columns of a block of rows, with accumulators in registers.

    acc = neutral                          [block_rows, block_columns]
    for start in range(0, columns, block_columns):
        acc = combine(acc, term)           elementwise: no exchange between threads in the loop
    result = reduce(acc, columns)          once

A tile's lanes are along its contiguous side, rows or columns, whichever Triton finds from the
pointers. Each level of dependent reductions is a loop of its own over the same columns.

Where the rows are too few for the device, `splits` CTAs share the columns: each level is a kernel
that stores partial results as scratch, which the next one combines, in the same order each time.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.element_types import HIDING, POINTERS
from mlirfuse.kernels.codegen.iteration_space import MAX_INDEX, Group, Space, power_of_two
from mlirfuse.kernels.codegen.module_text import text_of
from mlirfuse.kernels.codegen.tile_writer import Launch, Tiles
from mlirfuse.kernels.plan import Extent, Plan, Program
from mlirfuse.kernels.reduction.analysis import COLUMN, ROW, ReductionAnalysis, problem_of
from mlirfuse.kernels.reduction.combiners import combined_with_init, neutral_tile
from mlirfuse.kernels.reduction.passes_over_columns import Levels, Pass
from mlirfuse.kernels.reduction.problem import ReductionConfig
from mlirfuse.kernels.reduction.row_blocks import row_blocks
from mlirfuse.structured.ir import ops

ENTRY = "reduction_kernel"

COMBINE_WARPS = 4
"""Warps of the kernel that combines the partial results of splits and has no columns."""

MAX_COMBINED = 1024
"""Partial results of a tile of that kernel, of several rows."""

_SCRATCH = {
    "tl.float32": ("f32", "*fp32"),
    "tl.int32": ("i32", "*i32"),
    "tl.uint32": ("i32", "*i32"),
    "tl.int64": ("i64", "*i64"),
    "tl.uint64": ("i64", "*i64"),
}
"""Accumulator -> element type of scratch, and its pointer."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Split:
    """The columns of a CTA.

    Attributes:
      count: CTAs that share the columns of their rows.
      columns: columns of each, a multiple of the tile's; the last one has the rest.
    """

    count: int
    columns: int


def plan(analysis: ReductionAnalysis, config: ReductionConfig) -> Plan:
    """Plans one kernel, or one for each level of reductions where CTAs share rows.

    Raises:
      Unsupported: an op has no translation.
    """
    levels = Levels(analysis)
    if not analysis.num_dynamic:
        height = min(config.block_rows, power_of_two(analysis.rows))
        config = dataclasses.replace(config, block_rows=height)
    if config.splits > 1 and not analysis.num_dynamic:
        return _split_plan(analysis, levels, config)
    kernel = _Kernel(analysis, levels, config.block_rows, config.block_columns)
    kernel.write_indices()
    kernel.write_rows(0)
    for level in range(1, levels.depth + 1):
        kernel.reduce(levels.pass_of(levels.reductions(level), levels.stored(level - 1)))
        kernel.write_rows(level)
    last = levels.pass_of([], levels.stored(levels.depth))
    kernel.store_columns(last)
    kernel.store_rows()
    return kernel.tiles.plan(
        ENTRY,
        kernel.tiles.body.writer.lines,
        analysis.results,
        _note(analysis, config),
        launch=Launch(
            grid=(kernel.blocks.extent(), Extent(1), Extent(1)),
            first=(ROW, 0),
            num_warps=config.num_warps,
        ),
        problem=problem_of(analysis),
    )


def _note(analysis: ReductionAnalysis, config: ReductionConfig) -> str:
    return (
        f"Rows of {analysis.columns}, {config.block_rows} at a time, {config.block_columns} "
        "columns at a time."
    )


def _split_plan(analysis: ReductionAnalysis, levels: Levels, config: ReductionConfig) -> Plan:
    """The kernels of all levels, the last of which writes the results."""
    step = config.block_columns
    chunk = -(-analysis.columns // (config.splits * step)) * step
    split = _Split(-(-analysis.columns // chunk), chunk)
    before = None
    for level in range(1, levels.depth + 1):
        before = _partial(analysis, levels, config, split, level, before)
    assert before is not None
    stored = [value for level in range(levels.depth + 1) for value in levels.stored(level)]
    rows = config.block_rows
    if not stored:
        rows = max(1, min(power_of_two(analysis.rows), MAX_COMBINED // power_of_two(split.count)))
    kernel = _Kernel(analysis, levels, rows, step, split if stored else None)
    kernel.write_indices()
    kernel.needed = levels.needed([v.owner.operation for v in analysis.results], levels.depth)
    kernel.combine_partials(levels.depth, split.count)
    if stored:
        kernel.store_columns(levels.pass_of([], stored))
    kernel.store_rows(once=bool(stored))
    arguments = [(name, POINTERS[ops.element_type(v)]) for v, name in kernel.tiles.operands.items()]
    arguments += [(f"y{n}", POINTERS[ops.element_type(v)]) for n, v in enumerate(analysis.results)]
    grid = kernel.blocks.extent(), Extent(split.count if stored else 1), Extent(1)
    return Plan(
        kernel.program(arguments, config.num_warps if stored else COMBINE_WARPS, before),
        tuple(kernel.tiles.operands),
        analysis.results,
        grid,
        problem=problem_of(analysis),
        before=before,
    )


def _partial(
    analysis: ReductionAnalysis,
    levels: Levels,
    config: ReductionConfig,
    split: _Split,
    level: int,
    before: Plan | None,
) -> Plan:
    """The kernel that stores the partial results of a level, and all results before them."""
    reductions = levels.reductions(level)
    kernel = _Kernel(analysis, levels, config.block_rows, config.block_columns, split)
    kernel.needed = levels.needed(reductions, level - 1)
    kernel.write_indices()
    kernel.combine_partials(level - 1, split.count)
    accumulators = kernel.accumulate(levels.pass_of(reductions, []))
    names: list[tuple[str, str]] = []
    scratch: list[tuple[Extent, ...]] = []
    types: list[str] = []
    known = [op for before_it in range(1, level) for op in levels.reductions(before_it)]
    rows = Extent(analysis.rows)
    for op, name in zip(reductions, accumulators, strict=True):
        element, pointer = _SCRATCH[analysis.accumulator(op)]
        kernel.store_partial(len(names), name, element, f"split * {analysis.rows} + row")
        scratch.append((Extent(split.count), rows))
        names.append((f"y{len(names)}", pointer))
        types.append(element)
    for op in known:
        element, pointer = _SCRATCH[analysis.accumulator(op)]
        combined = kernel.combined[op]
        with kernel.writer.indented("if split == 0:"):
            kernel.store_partial(len(names), combined, element, "row")
        scratch.append((rows,))
        names.append((f"y{len(names)}", pointer))
        types.append(element)
    arguments = [(name, POINTERS[ops.element_type(v)]) for v, name in kernel.tiles.operands.items()]
    return Plan(
        kernel.program([*arguments, *names], config.num_warps, before),
        tuple(kernel.tiles.operands),
        (),
        (kernel.blocks.extent(), Extent(split.count), Extent(1)),
        scratch=tuple(scratch),
        scratch_types=tuple(types),
        before=before,
    )


class _LoopTiles(Tiles):
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


class _Kernel:
    """Writes the lines of one kernel.

    Attributes:
      analysis: the region.
      levels: the levels of its values.
      blocks: the rows of its CTAs.
      tiles: the writer.
      combined: reduction -> its accumulator, before its init, where splits have been combined.
      needed: ops that it has to compute, where these are not all.
    """

    def __init__(
        self,
        analysis: ReductionAnalysis,
        levels: Levels,
        block_rows: int,
        block_columns: int,
        split: _Split | None = None,
    ) -> None:
        self.analysis = analysis
        self.levels = levels
        self.combined: dict[ir.Operation, str] = {}
        self.needed = set(analysis.group)
        self.blocks = row_blocks(analysis, block_rows)
        self._block_columns = block_columns
        self._split = split
        row = self.blocks.group()
        self._whole = Space((row, Group("column", analysis.column_sizes)))
        self._masked = Space((row, Group("column", analysis.column_sizes, "column_mask")))
        self.tiles = _LoopTiles(
            self._whole,
            analysis.loops,
            short=all(ops.element_type(v) in HIDING for v in analysis.results),
        )
        self.writer = self.tiles.body.writer

    @property
    def _wide(self) -> str:
        large = self.analysis.rows * self.analysis.columns >= MAX_INDEX
        return ".to(tl.int64)" if large or self.analysis.num_dynamic else ""

    def write_indices(self) -> None:
        """Writes the rows of a CTA, and its split."""
        self.writer.write(self.blocks.indices("tl.program_id(0)", self._wide))
        self.writer.write(self.tiles.space.inside(ROW))
        if self._split is not None:
            self.writer.line("split = tl.program_id(1)")
            self.writer.line(f"first = split{self._wide} * {self._split.columns}")

    def write_rows(self, level: int) -> None:
        """Writes the ops over rows alone that a level completes."""
        for op in self.levels.of_rows(level):
            if op in self.needed:
                self.tiles.elementwise(op)

    def _loops(self) -> Iterator[tuple[str, Space]]:
        """The loops over whole tiles, and over the last, partial one."""
        columns, step = self.analysis.columns, self._block_columns
        full = columns // step * step
        first, last = "0", str(columns)
        if self._split is not None:
            first, last = "first", f"tl.minimum(first + {self._split.columns}, {columns})"
        if full:
            end = str(full) if self._split is None else f"tl.minimum({last}, {full})"
            yield f"for start in tl.range({first}, {end}, {step}):", self._whole
        if full < columns:
            begin = str(full) if self._split is None else f"tl.maximum({first}, {full})"
            yield f"for start in tl.range({begin}, {last}, {step}):", self._masked

    @contextlib.contextmanager
    def _columns(self, header: str, space: Space) -> Iterator[None]:
        """The body of a loop over columns."""
        with self.writer.indented(header), self.tiles.scope(space):
            width = self._block_columns
            self.writer.line(f"column = start{self._wide} + tl.arange(0, {width})[None, :]")
            self.writer.write(space.inside(COLUMN))
            yield

    def accumulate(self, each: Pass) -> list[str]:
        """Writes a pass; returns the tiles of accumulators, reduced to rows."""
        names = []
        for op in each.reductions:
            combiner = self.analysis.reductions[op].combiner
            shape = f"[{self.blocks.height}, {self._block_columns}]"
            names.append(
                self.tiles.body.name(neutral_tile(combiner, ops.element_type(op.results[0]), shape))
            )
        for op in (*each.ops, *each.reductions):
            self.tiles.hoist(op)
        for header, space in self._loops():
            with self._columns(header, space):
                self._write_columns(each)
                for op, name in zip(each.reductions, names, strict=True):
                    self._combine(op, name)
        found = []
        for op, name in zip(each.reductions, names, strict=True):
            form = self.analysis.reductions[op].combiner.tile
            found.append(self.tiles.body.name(form.format(name)))
        return found

    def reduce(self, each: Pass) -> None:
        """Writes a pass and the results of its reductions."""
        for op, name in zip(each.reductions, self.accumulate(each), strict=True):
            self._finish(op, name)

    def _finish(self, op: ir.Operation, accumulator: str) -> None:
        reduction, element = self.analysis.reductions[op], ops.element_type(op.results[0])
        text = combined_with_init(reduction.combiner, reduction.init, accumulator, element)
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
        arguments = [*self.tiles.arguments(op)[: ops.num_inputs(op)], None]
        known = self.tiles.body.block(
            ops.body(op), arguments, lambda loop: self.tiles.index(op, loop), reduction.combine
        )
        combiner = reduction.combiner
        term = combiner.widened(known[reduction.term], element)
        mask = self.tiles.space.groups[COLUMN].mask
        if mask:
            term = f"tl.where({mask}, {term}, {neutral_tile(combiner, element)})"
        self.writer.line(f"{accumulator} = {combiner.pair.format(accumulator, term)}")

    def store_columns(self, each: Pass) -> None:
        """Writes a pass that reduces nothing, if it stores anything."""
        if not each.stored:
            return
        for op in each.ops:
            self.tiles.hoist(op)
        for header, space in self._loops():
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
        bits = f".to(tl.int{element[1:]}, bitcast=True)" if element != "f32" else ""
        self.writer.line(f"tl.store(y{index} + {offset}, {name}{bits}{guard})")

    def combine_partials(self, level: int, splits: int) -> None:
        """Reads the results of all levels up to one, the last of them in parts."""
        self.write_rows(0)
        if not level:
            return
        rows, mask = self.analysis.rows, self._whole.groups[ROW].mask
        width = power_of_two(splits)
        self.writer.line(f"part = tl.arange(0, {width})[None, :]")
        inside = f"(part < {splits})" if width != splits else ""
        known = [op for n in range(1, level) for op in self.levels.reductions(n)]
        for number, op in enumerate([*self.levels.reductions(level), *known]):
            reduction, element = self.analysis.reductions[op], ops.element_type(op.results[0])
            combiner = reduction.combiner
            kind = combiner.accumulator(element)
            bits = f".to({kind}, bitcast=True)" if "uint" in kind else ""
            if op in known:
                guard = f", mask={mask}, other=0" if mask else ""
                name = self.tiles.body.name(f"tl.load(s{number} + row{guard}){bits}")
            else:
                both = " & ".join(text for text in (mask, inside) if text)
                guard = f", mask={both}, other=0" if both else ""
                loaded = f"tl.load(s{number} + part * {rows} + row{guard}){bits}"
                if inside:
                    loaded = f"tl.where({inside}, {loaded}, {neutral_tile(combiner, element)})"
                name = self.tiles.body.name(combiner.tile.format(loaded))
            self.combined[op] = name
            self._finish(op, name)
        for n in range(1, level + 1):
            self.write_rows(n)

    def program(
        self, arguments: Sequence[tuple[str, str]], num_warps: int, before: Plan | None
    ) -> Program:
        """The program, when all is written."""
        given = [] if before is None else before.scratch_types
        pointers = {"f32": "*fp32", "i32": "*i32", "i64": "*i64"}
        every = [*((f"s{n}", pointers[kind]) for n, kind in enumerate(given)), *arguments]
        lines = self.writer.lines
        text = text_of(ENTRY, every, lines, f"Columns of {self.analysis.columns}, in parts.")
        return Program(ENTRY, text, tuple(every), num_warps, 1)
