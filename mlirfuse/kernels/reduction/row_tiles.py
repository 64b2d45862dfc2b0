"""Tiles of rows, whose loads have a cache policy."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.builders.numbers import HALVES
from mlirfuse.kernels.codegen.element_types import TYPES
from mlirfuse.kernels.codegen.iteration_space import Axis, Group
from mlirfuse.kernels.codegen.tile_writer import Tiles
from mlirfuse.kernels.matmul.problem import VECTOR_BYTES
from mlirfuse.kernels.reduction.analysis import ReductionAnalysis, spans_rows
from mlirfuse.structured.ir import ops

LANES = 32
"""Lanes of a warp, at least, each of which has a run of a tile's row."""

MIN_RUN = 4
"""Elements of a run, at least."""

EXACT = frozenset(
    (
        *("linalg.yield", "linalg.index", "math.absf"),
        *(f"arith.{name}" for name in ("cmpf", "cmpi", "constant", "negf", "select")),
        *(f"arith.{name}f" for name in ("maximum", "maxnum", "minimum", "minnum")),
    )
)
"""Scalar ops whose results need no rounding where their operands are rounded."""


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


def compares_values(analysis: ReductionAnalysis) -> bool:
    """Whether a region compares computed values with each other, as `argmax` does.

    It has the first of those that are equal when they are rounded to the type in memory.
    """
    names = {name for op in analysis.group for name in ops.scalar_names(op)}
    return "linalg.index" in names


class RowTiles(Tiles):
    """The tiles of a kernel of rows, computed in f32 where they are floats of 16 bits.

    Attributes:
      evict_first: whether the L2 evicts loaded rows first.
      rounds: whether the result of each op is rounded. One op of PyTorch is one of the region, and
        PyTorch rounds its result alone: a sigmoid of bf16 whose exponential is rounded, too, is one
        from 5.5 on, and PyTorch's from 6.2 on.
    """

    evict_first = False
    rounds = False

    def policy(self, axes: Sequence[Axis | None]) -> str:
        """The cache policy of loads of a tensor with these axes, as an argument."""
        return ", eviction_policy='evict_first'" if self.evict_first and spans_rows(axes) else ""

    def define(self, value: ir.Value, name: str) -> None:
        """Sets the tile of a value inside the region, rounded to its type where that is asked."""
        kind = ops.element_type(value)
        exact = EXACT.issuperset(ops.scalar_names(value.owner.operation))
        if self.rounds and kind in HALVES and self.body.types[kind] != TYPES[kind] and not exact:
            name = self.body.name(f"{name}.to({TYPES[kind]}).to({self.body.types[kind]})")
        super().define(value, name)
