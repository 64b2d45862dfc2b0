"""Problem and configuration of sort kernels."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from mlirfuse.kernels.problem import Problem, Record


@dataclasses.dataclass(frozen=True, slots=True)
class SortProblem(Problem):
    """Rows that are sorted.

    Attributes:
      rows: rows.
      columns: elements of a row.
      count: elements of a sorted row that are selected.
      element_bits: width of an element.
      keys_alone: whether the sorted elements are the only result.
    """

    rows: int
    columns: int
    count: int
    element_bits: int = 32
    keys_alone: bool = False

    SIZES: ClassVar[tuple[str, ...]] = ("rows", "columns", "count")

    @property
    def family(self) -> str:
        """`sort`."""
        return "sort"


@dataclasses.dataclass(frozen=True, slots=True)
class SortConfig(Record):
    """Tiles of sort kernels.

    Attributes:
      block_rows: rows of a tile.
      num_warps: warps of a CTA.
      chunk_columns: elements of a row that a CTA sorts, a power of two, or a multiple of a tile's;
        0 where rows are whole.
      merge_width: sorted runs that a later kernel merges into one.
      tile_columns: elements of a chunk that are in registers at a time, where the CTA walks along
        it and keeps its first elements; 0 where it sorts the whole chunk.
    """

    block_rows: int
    num_warps: int
    chunk_columns: int = 0
    merge_width: int = 2
    tile_columns: int = 0
