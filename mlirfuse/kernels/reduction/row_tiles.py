"""Tiles of rows, whose loads have a cache policy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from mlirfuse.kernels.codegen.element_types import TYPES, WIDE
from mlirfuse.kernels.codegen.iteration_space import Axis, Group
from mlirfuse.kernels.codegen.tile_writer import Tiles
from mlirfuse.kernels.matmul.problem import VECTOR_BYTES
from mlirfuse.kernels.reduction.analysis import ReductionAnalysis, spans_rows
from mlirfuse.structured.ir import ops

LANES = 32
"""Lanes of a warp, at least, each of which has a run of a tile's row."""

MIN_RUN = 4
"""Elements of a run, at least."""


def columns_of_tile(
    analysis: ReductionAnalysis, width: int, each: int, first: str = "", mask: str = ""
) -> Group:
    """The columns of a tile, in runs of which a thread loads each at once.

    On an H200 a group norm of 864 rows of 64x1816 f16 has 32 registers so, and two CTAs on each SM,
    and with an index for each element of its weights 56, and one.

    Args:
      analysis: the region.
      width: columns of the tile.
      each: elements of a thread.
      first: what is added to the columns of the tile, and ` + `; empty for none.
      mask: name of the condition that columns are in bounds; empty when they always are.
    """
    tensors = [*analysis.row_operands, *analysis.row_results]
    widest = max((ops.element_bits(value) for value in tensors), default=32)
    run = math.gcd(min(VECTOR_BYTES * 8 // widest, each), analysis.column_sizes[-1])
    if analysis.contiguous_rows > 1 or run < MIN_RUN or width < LANES * run:
        return Group("column", analysis.column_sizes, mask, origin=first.removesuffix(" + "))
    starts = f"{first}tl.arange(0, {width // run})[None, :] * {run}"
    return Group("column", analysis.column_sizes, mask, run=run, starts=starts)


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
