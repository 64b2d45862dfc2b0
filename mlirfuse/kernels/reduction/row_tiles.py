"""Tiles of rows, whose loads have a cache policy."""

from __future__ import annotations

from collections.abc import Sequence

from mlirfuse.kernels.codegen.iteration_space import Axis
from mlirfuse.kernels.codegen.tile_writer import Tiles
from mlirfuse.kernels.reduction.analysis import spans_rows


class RowTiles(Tiles):
    """The tiles of a kernel of rows.

    Attributes:
      evict_first: whether the L2 evicts loaded rows first.
    """

    evict_first = False

    def policy(self, axes: Sequence[Axis | None]) -> str:
        """The cache policy of loads of a tensor with these axes, as an argument."""
        return ", eviction_policy='evict_first'" if self.evict_first and spans_rows(axes) else ""
