"""The tile of a scan kernel: its shape, the columns of its elements, and the scan of one tile.

    lanes x columns     scans are rows: short and contiguous ones
    columns x lanes     scans are columns: strided ones
    depth x runs        one scan: element e of run r is that of column r * depth + e

In the last form most of a scan is along the runs, in the registers of few threads. Then the ends of
the runs are scanned, and each run is combined with the end before it:

    0 1 2 3 | 4 5 6 7       scans of runs           0 1 3 6 | 4 9 15 22
    ends 6, 22              scan of the ends        6, 28
    prior -, 6              the end before          0 1 3 6 | 10 15 21 28
"""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.codegen.scalar_ops import Body

DEPTH = 16
"""Elements of a run. Triton has four lanes with 16 bytes of f32 each along one."""

MIN_SCANNED = 4
"""Elements of a scan, at least: Triton 3.6 cannot compile one of two in all."""


@dataclasses.dataclass(frozen=True, slots=True)
class ScanTile:
    """A tile of a scan kernel.

    Attributes:
      columns: elements of the scanned dimension.
      lanes: scans.
      in_rows: whether the scanned dimension is contiguous.
      reverse: whether scans run from the end to the start.
      wide: whether indices have 64 bits.
    """

    columns: int
    lanes: int
    in_rows: bool
    reverse: bool
    wide: bool = False

    @property
    def has_runs(self) -> bool:
        """Whether the tile is one scan in runs."""
        return self.in_rows and self.lanes == 1 and self.columns >= DEPTH * MIN_SCANNED

    @property
    def shape(self) -> str:
        """The shape of the tile."""
        if self.has_runs:
            return f"[{DEPTH}, {self.columns // DEPTH}]"
        return self._of_columns(self.columns)

    @property
    def lane_shape(self) -> str:
        """The shape of a tile with a number of each scan."""
        return self._of_columns(1)

    def _of_columns(self, columns: int) -> str:
        return f"[{self.lanes}, {columns}]" if self.in_rows else f"[{columns}, {self.lanes}]"

    @property
    def dimension(self) -> int:
        """The dimension that is scanned, of a tile that has no runs."""
        return int(self.in_rows)

    def index(self, block: str, total: int) -> list[str]:
        """The lines that compute the columns of a block of a scan with `total` columns.

        A reversed scan has its last columns in the first block; what is out of bounds is what it
        reaches last.
        """
        local = f"tl.arange(0, {self.columns}){'[None, :]' if self.in_rows else '[:, None]'}"
        lines = []
        if self.has_runs:
            lines = [
                f"run = tl.arange(0, {self.columns // DEPTH})[None, :]",
                f"element = tl.arange(0, {DEPTH})[:, None]",
            ]
            local = f"run * {DEPTH} + element"
        number = f"tl.full([1, 1], {block}, tl.int64)" if self.wide else block
        first = f"{number} * {self.columns}"
        if self.reverse:
            first = f"{total} - ({number} + 1) * {self.columns}"
        return [*lines, f"column = {first} + {local}", *self.inside(total, self.columns)]

    def inside(self, total: int, block: int) -> list[str]:
        """The lines that compute which columns a scan has, in blocks that may not divide it."""
        condition = "column >= 0" if self.reverse else f"column < {total}"
        return [f"column_mask = {condition}"] if total % block else []

    def reduced(self, tile: str) -> str:
        """The combination of a tile's elements, for each scan."""
        if self.has_runs:
            tile = f"tl.reduce({tile}, 0, combine, keep_dims=True)"
        return f"tl.reduce({tile}, {self.dimension}, combine, keep_dims=True)"

    def scanned(self, body: Body, tile: str, kind: str, carried: str) -> tuple[str, str]:
        """Scans a tile.

        Args:
          body: the lines of the kernel.
          tile: the elements.
          kind: their type.
          carried: whether `carry` has the elements before, as a condition; empty for never.

        Returns:
          The scan, and the elements that it reaches last, in the shape of `carry`.
        """
        if self.has_runs:
            return self._scanned_runs(body, tile, kind, carried)
        found = body.name(f"tl.associative_scan({tile}, {self.dimension}, combine{self._reverse})")
        if carried:
            found = body.name(f"tl.where({carried}, combine(carry, {found}), {found})")
        column = f"tl.arange(0, {self.columns}){'[None, :]' if self.in_rows else '[:, None]'}"
        return found, self._last(column, self.columns, found, self.dimension, kind)

    def _scanned_runs(self, body: Body, tile: str, kind: str, carried: str) -> tuple[str, str]:
        runs = self.columns // DEPTH
        found = body.name(f"tl.associative_scan({tile}, 0, combine{self._reverse})")
        # In one dimension: Triton 3.6 cannot scan what a reduction left with a dimension of one.
        ends = body.name(f"tl.sum({self._at_end('element', DEPTH, found)}, 0).to({kind})")
        ends = body.name(f"tl.associative_scan({ends}, 0, combine{self._reverse})[None, :]")
        before, later = "tl.maximum(run - 1, 0)", "(run > 0)"
        if self.reverse:
            before, later = f"tl.minimum(run + 1, {runs - 1})", f"(run < {runs - 1})"
        prior = body.name(f"tl.gather({ends}, {before}, 1)")
        last = self._last("run", runs, ends, 1, kind)
        if carried:
            both = f"tl.where({later}, combine(carry, {prior}), carry)"
            prior = body.name(f"tl.where({carried}, {both}, {prior})")
            later = f"({later} | ({carried}))"
            last = body.name(last)
            last = f"tl.where({carried}, combine(carry, {last}), {last})"
        return body.name(f"tl.where({later}, combine({prior}, {found}), {found})"), last

    @property
    def _reverse(self) -> str:
        return ", reverse=True" if self.reverse else ""

    def _last(self, index: str, size: int, tile: str, dimension: int, kind: str) -> str:
        """The elements that a scan reaches last along a dimension of a tile."""
        chosen = self._at_end(index, size, tile)
        return f"tl.sum({chosen}, {dimension}, keep_dims=True).to({kind})"

    def _at_end(self, index: str, size: int, tile: str) -> str:
        """A tile with zeros but at the end of the scan along a dimension."""
        return f"tl.where({index} == {0 if self.reverse else size - 1}, {tile}, 0)"
