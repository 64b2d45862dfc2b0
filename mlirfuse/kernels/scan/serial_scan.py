"""Scans along a strided dimension in which each thread walks along scans of its own.

    load row 0 ... load row 7          all in flight at a time
    carry = combine(carry, row 0)      store
    carry = combine(carry, row 1)      store ...

Each element is combined once and in the registers of one thread. `tl.associative_scan` combines it
several times, and its code is as long as a tile is: with a combination that has functions, as that
of log-sum-exp, it exceeds the cache of instructions. The rows of a block are written one by one.
"""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.codegen.demand_writer import Demand
from mlirfuse.kernels.codegen.tile_writer import Tiles
from mlirfuse.kernels.scan.block_scan import BlockScan
from mlirfuse.kernels.scan.scan_tile import ScanTile

TOTALS_IN_FLIGHT = 8
"""Totals of segments that are loaded at a time."""


@dataclasses.dataclass(frozen=True, slots=True)
class SerialScan(BlockScan):
    """The kernels of a scan that is not along the contiguous dimension; a tile has one row."""

    @property
    def num_stages(self) -> int:
        """No software pipeline: the loads of a block precede its combinations."""
        return 1

    @property
    def tile(self) -> ScanTile:
        """The tile of a CTA: one element of each scan."""
        return ScanTile(1, self.config.block_lanes, False, self.analysis.reversed, self.wide)

    def _write_column(self, tiles: Tiles, block: str, row: int) -> None:
        """Writes the index along the scanned dimension of a row of a block."""
        size, writer = self.config.block_columns, tiles.body.writer
        writer.write(self.tile.index(f"({block} * {size} + {row})", self.columns))
        writer.write(self.tile.inside(self.columns, size))

    def _rows(self, tiles: Tiles, block: str) -> list[tuple[Demand, str]]:
        """Writes the loads of a block; the elements of each row, and what they are made from."""
        found = []
        for row in range(self.config.block_columns):
            self._write_column(tiles, block, row)
            tiles.forget_loads()
            demand = Demand(tiles, self.analysis.group)
            found.append((demand, self.scanned(tiles, demand)))
        return found

    def write_block(self, tiles: Tiles, block: str, carried: str) -> str:
        """Writes the scan of a block, row by row; returns the last one."""
        reached = ""
        for row, (demand, elements) in enumerate(self._rows(tiles, block)):
            found = elements
            if row:
                found = f"combine({reached}, {elements})"
            elif carried:
                found = f"tl.where({carried}, combine(carry, {elements}), {elements})"
            self._write_column(tiles, block, row)
            tiles.forget_loads()
            reached = tiles.body.name(found)
            self.write_results(tiles, demand, reached)
        return reached

    def write_total(self, tiles: Tiles, block: str) -> str:
        """Writes the combination of the rows of a block, by pairs; returns it."""
        found = [elements for _, elements in self._rows(tiles, block)]
        while len(found) > 1:
            pairs = zip(found[::2], found[1::2], strict=False)
            odd = found[-1:] if len(found) % 2 else []
            found = [tiles.body.name(f"combine({a}, {b})") for a, b in pairs] + odd
        return found[0]

    def write_prefix(self, tiles: Tiles) -> None:
        """Writes `carry`, the total of the segments before this one, in a loop over them."""
        writer, kind, before = tiles.body.writer, self.kind, "tl.program_id(1)"
        writer.line(f"carry = tl.zeros({self.tile.lane_shape}, {kind})")
        with writer.indented(f"for first in tl.range(0, {before}, {TOTALS_IN_FLIGHT}):"):
            for n in range(TOTALS_IN_FLIGHT):
                writer.line(f"segment{n} = tl.full([1, 1], first + {n}, tl.int32)")
                total = self.total_of(f"segment{n}", f"segment{n} < {before}")
                writer.line(f"total{n} = {total}.to({kind})")
            for n in range(TOTALS_IN_FLIGHT):
                condition = f"segment{n} < {before}" if n else "segment0 > 0"
                otherwise = "carry" if n else "total0"
                both = f"combine(carry, total{n})"
                writer.line(f"carry = tl.where({condition}, {both}, {otherwise})")
