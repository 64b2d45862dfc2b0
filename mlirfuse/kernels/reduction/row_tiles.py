"""Tiles of rows, whose loads have a cache policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlirfuse.kernels.codegen.element_types import TYPES, WIDE
from mlirfuse.kernels.codegen.iteration_space import Axis
from mlirfuse.kernels.codegen.tile_writer import Tiles
from mlirfuse.kernels.reduction.analysis import ReductionAnalysis, spans_rows
from mlirfuse.structured.ir import ops


def computed_types(analysis: ReductionAnalysis) -> Mapping[str, str]:
    """The types in which a kernel computes: f32 for floats of 16 bits.

    They are rounded after each op where the region compares computed values with each other, as
    `argmax` does, which has the first of those that are equal when they are rounded.
    """
    names = {name for op in analysis.group for name in ops.scalar_names(op)}
    return TYPES if "linalg.index" in names else WIDE


class RowTiles(Tiles):
    """The tiles of a kernel of rows.

    Attributes:
      evict_first: whether the L2 evicts loaded rows first.
    """

    evict_first = False

    def policy(self, axes: Sequence[Axis | None]) -> str:
        """The cache policy of loads of a tensor with these axes, as an argument."""
        return ", eviction_policy='evict_first'" if self.evict_first and spans_rows(axes) else ""
