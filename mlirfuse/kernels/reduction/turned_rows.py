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

from mlirfuse.kernels.codegen.element_types import TYPES
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

    @property
    def _others(self) -> list[int]:
        """The axes of which a block has one index."""
        return [n for n in range(len(self.analysis.row_sizes) - 1) if n != self.axis]

    def group(self) -> Group:
        """The rows as a group of the iteration space, with their mask."""
        return Group("row", self.analysis.row_sizes, "row_mask", apart=True)

    def indices(self, block: str, wide: str) -> list[str]:
        """The lines that compute the rows, for loads and as `turned_row` for stores, and masks.

        Args:
          block: the number of the block, as an expression.
          wide: a cast of it to 64 bits; empty without one.
        """
        sizes, (outer, inner) = self.analysis.row_sizes, self._blocks
        (outer_size, inner_size), (outer_count, inner_count) = self._sizes, self._counts
        lines = [
            f"first_inner = {block} % {inner_count} * {inner}",
            f"first_outer = {block} // {inner_count} % {outer_count} * {outer}",
            f"others = ({block} // {inner_count * outer_count}){wide}",
        ]
        terms, count = [], 1
        for axis in reversed(self._others):
            size, stride = sizes[axis] or 0, known_product(sizes[axis + 1 :])
            terms.append(f"others // {count} % {size} * {stride}")
            count *= size
        other = " + ".join(terms) or "others"  # which is 0
        tile = f"tl.arange(0, {self.height})[:, None]"
        for name, places in (
            ("row", (f"{tile} // {inner}", f"{tile} % {inner}")),
            (
                "turned_row",
                (f"tl.arange(0, {outer})[None, :]", f"tl.arange(0, {inner})[:, None]"),
            ),
        ):
            lines += [
                f"{name}_outer = first_outer + {places[0]}",
                f"{name}_inner = first_inner + {places[1]}",
                f"{name} = {other} + {name}_outer * {known_product(sizes[self.axis + 1 :])}"
                f" + {name}_inner",
                f"{name}_mask = ({name}_outer < {outer_size}) & ({name}_inner < {inner_size})",
            ]
        return lines

    def extent(self) -> Extent:
        """The CTAs of all blocks."""
        others = known_product([self.analysis.row_sizes[n] for n in self._others])
        return Extent(others * known_product(self._counts))

    def store(self, tiles: Tiles, pointer: str, value: ir.Value, axes: tuple[Axis, ...]) -> None:
        """Writes a number of each row."""
        outer, inner = self._blocks
        turned = Group("turned_row", self.analysis.row_sizes, "turned_row_mask")
        offset = Space((turned,)).offset(ops.shape(value), axes)
        tiles.axes[value] = axes
        kind = ops.element_type(value)
        stored = "tl.int8" if kind == "i1" else TYPES[kind]
        whole = f"tl.broadcast_to({tiles.tile(value)}, [{self.height}, 1]).to({stored})"
        text = f"tl.trans(tl.reshape({whole}, [{outer}, {inner}]))"
        tiles.body.writer.line(f"tl.store({pointer} + {offset}, {text}, mask=turned_row_mask)")


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
