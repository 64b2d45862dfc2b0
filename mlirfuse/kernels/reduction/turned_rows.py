"""The rows of a CTA in two dimensions, for results whose innermost dimension is not that of memory.

    place_outer, place_inner = block + arange(1024) // 32, block + arange(1024) % 32
    row = place_outer * 120 + place_inner              lanes load adjacent rows
    store(..., trans(reshape(number, [32, 32])))       and store adjacent numbers

    largest values over the second dimension of 54x6x1096x120, written as 54x120x1096

A thread's numbers go to other threads through shared memory. Lanes that stored their own would
store each to a sector of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.kernels.codegen.iteration_space import Axis, Group, Space, known_product
from mlirfuse.kernels.codegen.tile_writer import Tiles
from mlirfuse.kernels.plan import Extent
from mlirfuse.kernels.reduction.analysis import ROW, ReductionAnalysis
from mlirfuse.structured.ir import ops

LANES = 32
"""Adjacent rows of a block along the innermost dimension of memory."""

MIN_OUTER = 8
"""Adjacent rows of a block along the innermost dimension of the results, and their size, at
least."""


@dataclasses.dataclass(frozen=True, slots=True)
class TurnedRows:
    """The blocks of rows of a kernel.

    Attributes:
      analysis: the region.
      height: rows of a block, a power of two.
      axis: axis of the rows that is innermost in the results.
    """

    analysis: ReductionAnalysis
    height: int
    axis: int

    @property
    def _blocks(self) -> tuple[int, int]:
        """Rows of a block along the innermost dimension of the results, and of memory."""
        return self.height // LANES, LANES

    @property
    def _sizes(self) -> tuple[int, int]:
        sizes = self.analysis.row_sizes
        return sizes[self.axis] or 0, sizes[-1] or 0

    @property
    def _counts(self) -> tuple[int, int]:
        """Blocks along these dimensions."""
        outer, inner = (
            -(-size // block) for size, block in zip(self._sizes, self._blocks, strict=True)
        )
        return outer, inner

    def group(self, name: str = "row") -> Group:
        """The rows as a group of the iteration space, with their mask; `turned` in a store."""
        sizes = self.analysis.row_sizes
        others = self._indices
        own = [others.get(axis, f"{name}_outer") for axis in range(len(sizes) - 1)]
        return Group(name, sizes, f"{name}_mask", indices=(*own, f"{name}_inner"))

    def indices(self, block: str, wide: str) -> list[str]:
        """The lines that compute the rows, for loads, and their indices for stores.

        Args:
          block: the number of the block, as an expression.
          wide: a cast of it to 64 bits; empty without one.
        """
        outer, inner = self._blocks
        (outer_size, inner_size), (outer_count, inner_count) = self._sizes, self._counts
        lines = [
            f"first_inner = ({block} % {inner_count} * {inner}){wide}",
            f"first_outer = ({block} // {inner_count} % {outer_count} * {outer}){wide}",
            f"others = ({block} // {inner_count * outer_count}){wide}",
        ]
        tile = f"tl.arange(0, {self.height})[:, None]"
        lines += [
            f"row_outer = first_outer + {tile} // {inner}",
            f"row_inner = first_inner + {tile} % {inner}",
            f"turned_outer = first_outer + tl.arange(0, {outer})[None, :]",
            f"turned_inner = first_inner + tl.arange(0, {inner})[:, None]",
        ]
        for name in ("row", "turned"):
            inside = f"({name}_outer < {outer_size}) & ({name}_inner < {inner_size})"
            lines.append(f"{name}_mask = {inside}")
        return lines

    @property
    def _indices(self) -> dict[int, str]:
        """Axis of the rows of which a block has one index -> the index."""
        found, count, sizes = {}, 1, self.analysis.row_sizes
        for axis in reversed(range(len(sizes) - 1)):
            if axis != self.axis:
                found[axis] = f"others // {count} % {sizes[axis]}"
                count *= sizes[axis] or 0
        return found

    def extent(self) -> Extent:
        """The CTAs of all blocks."""
        others = known_product([self.analysis.row_sizes[axis] for axis in self._indices])
        return Extent(others * known_product(self._counts))

    def store(self, tiles: Tiles, pointer: str, value: ir.Value, axes: tuple[Axis, ...]) -> None:
        """Writes a number of each row."""
        outer, inner = self._blocks
        offset = Space((self.group("turned"),)).offset(ops.shape(value), axes)
        tiles.axes[value] = axes
        whole = f"tl.broadcast_to({tiles.stored(value)}, [{self.height}, 1])"
        text = f"tl.trans(tl.reshape({whole}, [{outer}, {inner}]))"
        tiles.body.writer.line(f"tl.store({pointer} + {offset}, {text}, mask=turned_mask)")


def turned_rows(
    analysis: ReductionAnalysis, height: int, results: Sequence[tuple[Axis, ...]]
) -> TurnedRows | None:
    """The blocks of rows; None where results have the order of memory, or columns.

    Args:
      analysis: the region.
      height: rows of a block, a power of two.
      results: the axes of the dimensions of each result.
    """
    sizes, every = analysis.row_sizes, [axis for axes in results for axis in axes]
    if analysis.num_dynamic or height < MIN_OUTER * LANES or any(kind != ROW for kind, _ in every):
        return None
    long = [[n for _, n in axes if sizes[n] != 1] for axes in results]
    last = {axes[-1] if axes else 0 for axes in long}
    if len(last) != 1:
        return None
    (axis,) = last
    small = (sizes[axis] or 0) < MIN_OUTER or (sizes[-1] or 0) < LANES
    return None if small or axis == len(sizes) - 1 else TurnedRows(analysis, height, axis)
