"""What the CTAs that share rows have stored, read by the kernel after theirs."""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.codegen.combiners import COMBINERS, Combiner, neutral_tile
from mlirfuse.kernels.codegen.iteration_space import power_of_two
from mlirfuse.kernels.codegen.writer import Writer
from mlirfuse.kernels.reduction.analysis import ReductionAnalysis
from mlirfuse.kernels.reduction.exponentials import Exponentials
from mlirfuse.kernels.reduction.extreme_positions import ExtremePosition, Positions
from mlirfuse.kernels.reduction.moments import Moments
from mlirfuse.kernels.reduction.passes_over_columns import Centered

LANES = 256
"""Elements of a tile of parts, at least, one for each thread: with fewer of them Triton lets
several threads have the same, in this tile and in those of columns that it is combined with. On an
H200 the second kernel of a batch norm of 256x8x56x56 bf16 took 68 us with 128 parts, and 7 with
256."""

_SUM, _MAXIMUM = COMBINERS["arith.addf"], COMBINERS["arith.maximumf"]


Parts = Moments | Exponentials | Positions
"""The accumulator of a sum around a value of rows, or of a position."""


@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """The columns of a CTA.

    Attributes:
      count: CTAs that share the columns of their rows.
      columns: columns of each, a multiple of the tile's; the last one has the rest.
    """

    count: int
    columns: int


class PartialResults:
    """Loads the tensors of scratch, one after the other, for a block of rows.

    Attributes:
      writer: the lines of the kernel.
      analysis: the region.
      split: the columns of the CTAs that have stored.
      width: parts in a tile, a power of two.
      row_mask: the rows that there are; empty for all.
      wide: the cast of indices to 64 bits; empty where they need none.
    """

    def __init__(
        self,
        writer: Writer,
        analysis: ReductionAnalysis,
        split: Split,
        block_rows: int,
        row_mask: str,
        wide: str,
    ) -> None:
        """Begins to read.

        Args:
          writer: the lines of the kernel.
          analysis: the region.
          split: the columns of the CTAs that have stored.
          block_rows: rows of a CTA.
          row_mask: the rows that there are; empty for all.
          wide: the cast of indices to 64 bits; empty where they need none.
        """
        self.writer = writer
        self.analysis = analysis
        self.split = split
        self.row_mask = row_mask
        self.wide = wide
        self._read = 0
        self.width = max(power_of_two(split.count), LANES // min(block_rows, LANES))
        writer.line(f"part = tl.arange(0, {self.width})[None, :]")

    def around(self, found: Centered) -> Parts:
        """The accumulators of a sum around a value of rows, or of its position."""
        if isinstance(found, ExtremePosition):
            extreme = self.parts(found.combiner, "f32")
            first = self.parts(found.first, found.element)
            return Positions(extreme, first, found.combiner, found.element)
        if not found.squared:
            highest = self.parts(_MAXIMUM, "f32")
            return Exponentials(highest, self.parts(_SUM, "f32"))
        mean, squares, shift = (self.parts(_SUM, "f32") for _ in range(3))
        return Moments(mean, squares, shift, self._counts())

    def of_rows(self, kind: str) -> str:
        """A number of each row, of an accumulator's type, that is the same for all CTAs."""
        guard = f", mask={self.row_mask}, other=0" if self.row_mask else ""
        return self.writer.name(f"tl.load({self._next()} + row{guard}){_bits(kind)}")

    def parts(self, combiner: Combiner, element: str) -> str:
        """Partial results, with neutral elements in place of parts that there are not."""
        count = self.split.count
        inside = f"(part < {count})" if self.width != count else ""
        both = " & ".join(text for text in (self.row_mask, inside) if text)
        guard = f", mask={both}, other=0" if both else ""
        bits = _bits(combiner.accumulator(element))
        loaded = f"tl.load({self._next()} + part * {self.analysis.rows} + row{guard}){bits}"
        if inside:
            loaded = f"tl.where({inside}, {loaded}, {neutral_tile(combiner, element)})"
        return self.writer.name(loaded)

    def _next(self) -> str:
        self._read += 1
        return f"s{self._read - 1}"

    def _counts(self) -> str:
        """The columns of each part."""
        columns = self.split.columns
        rest = f"{self.analysis.columns} - part{self.wide} * {columns}"
        return self.writer.name(f"tl.maximum(tl.minimum({rest}, {columns}), 0) * 1.0")


def _bits(kind: str) -> str:
    """The cast of loaded scratch to an accumulator of unsigned integers; empty for others."""
    return f".to({kind}, bitcast=True)" if "uint" in kind else ""
