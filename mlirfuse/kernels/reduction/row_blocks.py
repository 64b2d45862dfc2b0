"""The rows of a CTA: adjacent ones, or a part of a run that is contiguous in memory.

    row = pid * 64 + arange(64)                        any rows
    row_inner = pid % 3 * 64 + arange(64)              rows of 13x13 images whose channels are
    row = pid // 3 * 169 + row_inner                   reduced: 3 blocks for each image

Triton finds from the pointers along which dimension of a tile elements are adjacent in memory. By
`row % 169` no two rows are, so that the lanes of a warp would be along the columns, and each would
load from a line of its own. An even length leaves pairs of rows that it finds.
"""

from __future__ import annotations

import dataclasses

from mlirfuse.kernels.codegen.iteration_space import Group, known_product
from mlirfuse.kernels.codegen.loop_nest import MAX_PADDED_COLUMNS, MIN_TILE_SIDE
from mlirfuse.kernels.plan import Extent
from mlirfuse.kernels.reduction.analysis import ReductionAnalysis

WARP_ROWS = 32
"""Rows of a block at least, where runs are cut: the lanes of a warp."""


@dataclasses.dataclass(frozen=True, slots=True)
class RowBlocks:
    """The blocks of rows of a kernel.

    Attributes:
      analysis: the region.
      height: rows of a block, a power of two.
      tail: how many of the last axes of the rows are a run that no block crosses; 0 for none.
    """

    analysis: ReductionAnalysis
    height: int
    tail: int = 0

    @property
    def _run(self) -> int:
        """Rows of a run; all rows where there are no runs."""
        return known_product(self.analysis.row_sizes[-self.tail :])

    @property
    def _per_run(self) -> int:
        """Blocks of a run."""
        return -(-self._run // self.height)

    def group(self) -> Group:
        """The rows as a group of the iteration space, with the mask that blocks need."""
        even = not self.analysis.num_dynamic and self._run % self.height == 0
        mask = "" if even else "row_mask"
        return Group("row", self.analysis.row_sizes, mask, apart=True, tail=self.tail)

    def indices(self, block: str, wide: str) -> list[str]:
        """The lines that compute the rows.

        Args:
          block: the number of the block, as an expression.
          wide: a cast of it to 64 bits; empty without one.
        """
        rows = f"tl.arange(0, {self.height})[:, None]"
        if not self.tail:
            return [f"row = {block}{wide} * {self.height} + {rows}"]
        return [
            f"row_outer = {block}{wide} // {self._per_run}",
            f"row_inner = {block} % {self._per_run} * {self.height} + {rows}",
            f"row = row_outer * {self._run} + row_inner",
        ]

    def extent(self, repeat: int = 1) -> Extent:
        """The CTAs of all blocks.

        Args:
          repeat: CTAs of a block.
        """
        rows = self.analysis.rows
        if self.tail:
            return Extent(rows // self._run * self._per_run, 1, (), repeat)
        return Extent(rows, self.height, tuple(range(self.analysis.num_dynamic)), repeat)


def row_blocks(analysis: ReductionAnalysis, height: int) -> RowBlocks:
    """The blocks of at most so many rows: of parts of a run where its length is odd.

    Args:
      analysis: the region.
      height: upper limit of the rows of a block, a power of two.
    """
    run, sizes = analysis.contiguous_rows, analysis.row_sizes
    tail = next((n for n in range(1, len(sizes)) if known_product(sizes[-n:]) == run), 0)
    if run % 2 == 0 or run < MIN_TILE_SIDE or analysis.num_dynamic or not tail:
        return RowBlocks(analysis, height)
    heights = [height]
    while heights[-1] > WARP_ROWS:
        heights.append(heights[-1] // 2)
    padded = {each: -(-run // each) * each for each in heights}
    most = min(padded.values()) * MAX_PADDED_COLUMNS
    return RowBlocks(analysis, next(each for each in heights if padded[each] <= most), tail)
