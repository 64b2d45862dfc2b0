"""Scans block by block: each CTA walks along the scanned dimension and carries the last result.

For few and long scans the dimension is split: a kernel combines the elements of each segment, and
the CTAs of a second one begin with the total of the segments before theirs.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

from mlirfuse.core import NoMatch
from mlirfuse.kernels.codegen.demand_writer import ALWAYS, Demand
from mlirfuse.kernels.codegen.element_types import (
    HIDING,
    POINTERS,
    TYPES,
    WIDE,
    literal,
    with_constants_of,
)
from mlirfuse.kernels.codegen.indices import Index, axis_of, linear, parts
from mlirfuse.kernels.codegen.iteration_space import MAX_INDEX, Axis, Group, Space, power_of_two
from mlirfuse.kernels.codegen.module_text import text_of
from mlirfuse.kernels.codegen.scalar_ops import Body
from mlirfuse.kernels.codegen.tile_writer import Launch, Tiles, attempted
from mlirfuse.kernels.matmul.cost_model import vector_bytes
from mlirfuse.kernels.matmul.problem import VECTOR_BYTES
from mlirfuse.kernels.plan import Extent, Plan
from mlirfuse.kernels.scan.analysis import (
    SHARED,
    ScanAnalysis,
    counts_truths,
    is_long,
    problem_of,
)
from mlirfuse.kernels.scan.problem import ScanConfig
from mlirfuse.kernels.scan.scan_tile import MIN_SCANNED, ScanTile
from mlirfuse.structured.ir import ops

_SCRATCH_TYPES = {"tl.float32": "f32", "tl.int32": "i32", "tl.int64": "i64"}
"""Type of an accumulator -> the element type of scratch memory that holds it."""

ENTRY, TOTALS_ENTRY = "scan_kernel", "scan_totals_kernel"

OUTER, SCANNED, INNER = 0, 1, 2
"""The groups of the iteration space."""

NUM_STAGES = 3
"""Depth of the software pipeline of loads along the scanned dimension. Where a contiguous scan is
split there are as many CTAs as the device holds, which hide each other's latency, and a pipeline is
only for a combination that takes long: on an H200 the sums of 60 million f32 took 338 us with it
and 207 without, logarithms of sums of exponentials of 53 million 493 and 557. Where rows are not
aligned each copy of it has one element: 2000 sums of 9001 f32 took 132 us so, and 61.5 without."""


@dataclasses.dataclass(frozen=True, slots=True)
class BlockScan:
    """The kernels of a scan.

    Attributes:
      analysis: the region.
      config: tiles.
    """

    analysis: ScanAnalysis
    config: ScanConfig

    def plan(self) -> Plan | NoMatch:
        """Plans the kernels, or the reason why there are none."""
        return attempted(lambda: self.scans(self.totals() if self.segments > 1 else None), SHARED)

    @property
    def in_rows(self) -> bool:
        """Whether the scanned dimension is contiguous: a tile has scans as rows."""
        return self.inner == 1

    @property
    def outer(self) -> int:
        """Product of the sizes before the scanned dimension."""
        return math.prod(self.analysis.sizes[: self.analysis.axis])

    @property
    def columns(self) -> int:
        """Size of the scanned dimension."""
        return self.analysis.sizes[self.analysis.axis]

    @property
    def inner(self) -> int:
        """Product of the sizes after it."""
        return math.prod(self.analysis.sizes[self.analysis.axis + 1 :])

    @property
    def blocks(self) -> int:
        """Blocks of a scan."""
        return -(-self.columns // self.config.block_columns)

    @property
    def blocks_per_segment(self) -> int:
        """Blocks of a segment; the last one may have fewer."""
        wanted = self.config.segments if self._scratch_type else 1
        return -(-self.blocks // min(wanted, self.blocks))

    @property
    def segments(self) -> int:
        """Parts of a scan that are CTAs of their own."""
        return -(-self.blocks // self.blocks_per_segment)

    @property
    def num_stages(self) -> int:
        """Depth of the software pipeline."""
        long = is_long(self.analysis)
        unaligned = self.lanes > 1 and vector_bytes(self.columns, 32) < VECTOR_BYTES
        idle = unaligned or (self.segments > 1 and not long)
        return 1 if self.in_rows and idle else NUM_STAGES

    @property
    def _scratch_type(self) -> str:
        """The element type of totals in scratch memory; empty where it holds none."""
        return _SCRATCH_TYPES.get(self.kind, "")

    @property
    def kind(self) -> str:
        """The type that is accumulated: 32 bits where sums of truth values have 64."""
        found = WIDE.get(ops.element_type(self.analysis.scan.results[0]), "")
        if found == "tl.int64" and self.columns < MAX_INDEX and counts_truths(self.analysis):
            return "tl.int32"
        return found

    @property
    def spread(self) -> bool:
        """Whether the scans of a tile are at several places of the dimensions before theirs."""
        return not self.in_rows and self.config.block_lanes > self.inner

    @property
    def lanes(self) -> int:
        """Scans along the tile's other dimension."""
        if self.spread:
            return self.outer * self.inner
        return self.outer if self.in_rows else self.inner

    @property
    def lane_tiles(self) -> int:
        """Tiles along the other dimension."""
        return -(-self.lanes // self.config.block_lanes)

    @property
    def wide(self) -> bool:
        """Whether indices have 64 bits."""
        read = [v for op in self.analysis.group for v in op.operands if ops.ranked(v) is not None]
        counts = [ops.num_elements(v) for v in (*read, *self.analysis.results)]
        return max(counts) >= MAX_INDEX

    @property
    def tile(self) -> ScanTile:
        """The tile of a CTA."""
        config = self.config
        return ScanTile(
            config.block_columns,
            config.block_lanes,
            self.in_rows,
            self.analysis.reversed,
            self.wide,
        )

    def tiles(self) -> Tiles:
        """The tiles of a kernel, with the indices that do not depend on the block."""
        sizes, axis = self.analysis.sizes, self.analysis.axis
        lane_mask = "lane_mask" if self.lanes % self.config.block_lanes else ""
        outer = Group("lane", sizes[:axis], lane_mask)
        inner = Group("inner", sizes[axis + 1 :])
        if not self.in_rows:
            outer = Group("outer", sizes[:axis], lane_mask if self.spread else "")
            inner = Group("lane", sizes[axis + 1 :], lane_mask)
        masked = "column_mask" if self.columns % self.config.block_columns else ""
        space = Space((outer, Group("column", sizes[axis : axis + 1], masked), inner))
        short = all(ops.element_type(value) in HIDING for value in self.analysis.results)
        types = {**WIDE, "index": TYPES["i64" if self.wide else "i32"]}
        tiles = Tiles(space, {}, types, short=short)
        writer = tiles.body.writer
        writer.line(f"pid = tl.program_id(0){'.to(tl.int64)' if self.wide else ''}")
        lanes, at = self.config.block_lanes, "[:, None]" if self.in_rows else "[None, :]"
        first = "pid" if self._has_all_scans else f"(pid % {self.lane_tiles})"
        if self.in_rows:
            writer.line("inner = 0")
        if not self._has_all_scans:
            writer.line(f"outer = pid // {self.lane_tiles}")
        writer.line(f"lane = {first} * {lanes} + tl.arange(0, {lanes}){at}")
        if lane_mask:
            writer.line(f"lane_mask = lane < {self.lanes}")
        if self.spread:
            writer.line(f"outer, lane = lane // {self.inner}, lane % {self.inner}")
        return tiles

    @property
    def _has_all_scans(self) -> bool:
        """Whether the lanes of all tiles are all scans, not those of one place before them."""
        return self.in_rows or self.spread

    @property
    def _ctas(self) -> Extent:
        """The CTAs of all scans."""
        return Extent(1 if self._has_all_scans else self.outer, repeat=self.lane_tiles)

    def index(self, index: tuple[Index, ...]) -> tuple[Index, ...]:
        """An index in axes of the results, as one in axes of the groups."""
        found: list[Index] = []
        for part in index:
            axis = axis_of(part)
            assert axis is not None
            _, step, start = parts(part)
            found.append(linear(self.axis(axis[1]), step, start))
        return tuple(found)

    def axis(self, axis: int) -> Axis:
        """The group and position of an axis of the results."""
        scanned = self.analysis.axis
        if axis < scanned:
            return OUTER, axis
        return (SCANNED, 0) if axis == scanned else (INNER, axis - scanned - 1)

    def scanned(self, tiles: Tiles, demand: Demand) -> str:
        """The elements that are scanned, shifted by one for an exclusive scan."""
        scan, index = self.analysis.scan, self.index(self.analysis.index)
        value = scan.operands[0]
        if self.analysis.inclusive:
            found = demand.value(value, index)
        else:
            dim = self.analysis.dimension
            shifted = (*index[:dim], linear(index[dim], 1, -1), *index[dim + 1 :])
            sizes = ops.shape(value)
            starts = [int(n == dim) for n in range(len(sizes))]
            rest = [(size or 0) - start for size, start in zip(sizes, starts, strict=True)]
            initial = ops.constant(scan.operands[2])
            assert initial is not None
            body = tiles.body
            fill = literal(initial, ops.element_type(value), body.types)
            box = demand.box(index, starts, rest, sizes)
            found = demand.chosen(box, ALWAYS, (value, shifted), fill)
        return tiles.body.name(f"tl.broadcast_to({found}, {self.tile.shape}).to({self.kind})")

    def scans(self, before: Plan | None) -> Plan:
        """The kernel that writes the results.

        Args:
          before: the kernel that computes the totals of segments; None for one segment.
        """
        tiles = self.tiles()
        writer = tiles.body.writer
        kind = self.kind
        segmented, whole = before is not None, self.blocks == 1
        if segmented:
            self.write_prefix(tiles)
            first = f"tl.program_id(1) * {self.blocks_per_segment}"
            last = f"tl.minimum({first} + {self.blocks_per_segment}, {self.blocks})"
        elif not whole:
            writer.line(f"carry = tl.zeros({self.tile.lane_shape}, {kind})")
            first, last = "0", str(self.blocks)
        if whole:
            self.write_block(tiles, "0", carried="")
        else:
            header = f"for block in tl.range({first}, {last}, num_stages={self.num_stages}):"
            with writer.indented(header):
                writer.line(f"carry = {self.write_block(tiles, 'block', carried='block > 0')}")
        note = f"Blocks of {self.config.block_columns} by {self.config.block_lanes}."
        found = tiles.plan(
            ENTRY,
            writer.lines,
            self.analysis.results,
            note,
            launch=Launch(
                grid=(self._ctas, Extent(self.segments), Extent(1)),
                first=(SCANNED, 0),
                num_warps=self.config.num_warps,
                num_stages=self.num_stages,
            ),
            problem=problem_of(self.analysis),
            text=functools.partial(
                _text,
                self._combine(),
                ("s0", POINTERS[self._scratch_type]) if segmented else None,
            ),
        )
        if before is None:
            return found
        scratch = ("s0", POINTERS[self._scratch_type])
        program = dataclasses.replace(found.program, arguments=(scratch, *found.program.arguments))
        return dataclasses.replace(found, program=program, before=before)

    def write_block(self, tiles: Tiles, block: str, carried: str) -> str:
        """Writes the scan of a block.

        Args:
          tiles: the lines of the kernel.
          block: its number.
          carried: whether `carry` has the elements before, as a condition; empty for never.

        Returns:
          The elements that it reaches last.
        """
        tiles.body.writer.write(self.tile.index(block, self.columns))
        demand = Demand(tiles, self.analysis.group)
        elements = self.scanned(tiles, demand)
        scanned, last = self.tile.scanned(tiles.body, elements, self.kind, carried)
        self.write_results(tiles, demand, scanned)
        return last

    def write_results(self, tiles: Tiles, demand: Demand, scanned: str) -> None:
        """Writes the results of scanned elements."""
        demand.define(self.analysis.scan.results[0], self.index(self.analysis.index), scanned)
        axes = tuple(self.axis(axis) for axis in range(len(self.analysis.sizes)))
        for number, value in enumerate(self.analysis.results):
            tiles.define(value, demand.value(value, axes))
            tiles.store(f"y{number}", value, axes)

    def row_of(self, segment: str) -> str:
        """Pointers to the totals of a segment, of all scans of a tile."""
        row = "lane" if self.in_rows else f"(outer * {self.inner} + lane)"
        return f"({segment}) * {self.outer * self.inner} + {row}"

    def total_of(self, segment: str, reached: str) -> str:
        """The load of the totals of segments, under a condition."""
        mask = f"({reached}) & lane_mask" if self.lanes % self.config.block_lanes else reached
        return f"tl.load(s0 + {self.row_of(segment)}, mask={mask}, other=0)"

    def write_prefix(self, tiles: Tiles) -> None:
        """Writes `carry`: the total of the segments before this one."""
        kind, dimension = self.kind, self.tile.dimension
        size = max(MIN_SCANNED, power_of_two(self.segments))
        at = "[None, :]" if self.in_rows else "[:, None]"
        chosen = "tl.where(segment == tl.program_id(1) - 1, totals, 0)"
        tiles.body.writer.write(
            [
                f"segment = tl.arange(0, {size}){at}",
                f"totals = {self.total_of('segment', 'segment < tl.program_id(1)')}",
                f"totals = tl.associative_scan(totals.to({kind}), {dimension}, combine)",
                f"carry = tl.sum({chosen}, {dimension}, keep_dims=True).to({kind})",
            ]
        )

    def write_total(self, tiles: Tiles, block: str) -> str:
        """Writes the combination of all elements of a block; returns it."""
        tiles.body.writer.write(self.tile.index(block, self.columns))
        scanned = self.scanned(tiles, Demand(tiles, self.analysis.group))
        return tiles.body.name(self.tile.reduced(scanned))

    def totals(self) -> Plan:
        """The kernel that combines the elements of each segment but the last."""
        tiles = self.tiles()
        writer = tiles.body.writer
        kind = self.kind
        writer.line(f"carry = tl.zeros({self.tile.lane_shape}, {kind})")
        per_segment = self.blocks_per_segment
        writer.line(f"first = tl.program_id(1) * {per_segment}")
        with writer.indented(
            f"for block in tl.range(first, first + {per_segment}, num_stages={self.num_stages}):"
        ):
            total = self.write_total(tiles, "block")
            writer.line(f"carry = tl.where(block > first, combine(carry, {total}), {total})")
        mask = ", mask=lane_mask" if self.lanes % self.config.block_lanes else ""
        writer.line(f"tl.store(y0 + {self.row_of('tl.program_id(1)')}, carry{mask})")
        totals = ("y0", POINTERS[self._scratch_type])
        found = tiles.plan(
            TOTALS_ENTRY,
            writer.lines,
            (),
            "Totals of segments.",
            launch=Launch(
                grid=(self._ctas, Extent(self.segments - 1), Extent(1)),
                first=(SCANNED, 0),
                num_warps=self.config.num_warps,
                num_stages=self.num_stages,
            ),
            problem=None,
            text=functools.partial(_text, self._combine(), None, results=(totals,)),
        )
        program = dataclasses.replace(found.program, arguments=(*found.program.arguments, totals))
        shape = (Extent(self.segments - 1), Extent(self.outer * self.inner))
        types = (self._scratch_type,)
        return dataclasses.replace(found, program=program, scratch=(shape,), scratch_types=types)

    def _combine(self) -> str:
        """The function that combines two elements, the earlier one first."""
        block = self.analysis.scan.regions[0].blocks[0]
        body = Body(WIDE)
        known = body.block(block, ["a", "b"], lambda loop: "")
        (yielded,) = list(block.operations)[-1].operation.operands
        # It is called with scalars.
        lines = with_constants_of("[]", body.writer.lines)
        lines.append(f"return {known[yielded]}")
        return "\n".join(
            ["@triton.jit", "def combine(a, b):", *(f"    {n}" for n in lines), "\n\n"]
        )


def _text(
    combine: str,
    scratch: tuple[str, str] | None,
    entry: str,
    arguments: list[tuple[str, str]],
    lines: list[str],
    note: str,
    results: Sequence[tuple[str, str]] = (),
) -> str:
    """The module of a kernel with its combining function, and tensors of totals."""
    given = [*([scratch] if scratch else []), *arguments, *results]
    return text_of(entry, given, lines, note, functions=combine)
