"""Problem and configuration of kernels that reduce rows to numbers."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Self

from mlirfuse.kernels.problem import Problem, Record


@dataclasses.dataclass(frozen=True, slots=True)
class ReductionProblem(Problem):
    """Reductions over rows, with the elementwise ops around them.

    Attributes:
      rows: rows that are reduced.
      columns: elements of a row.
      combiners: combining ops of the reductions in alphabetical order, separated by spaces.
      reads: tensors of whole rows that are read.
      writes: tensors of whole rows that are written.
      narrow_result: whether one of these has elements of 8 bits.
      contiguous_rows: adjacent rows that are adjacent in memory; 1 where columns are innermost.
      operand_bits: bits of an element of the widest of these tensors: 16 for narrower ones, 32 for
        wider ones.
      passes: passes over the columns that dependent reductions need in loops.
      turned: whether columns are innermost in memory, but rows in a result; or rows are innermost,
        but columns in a tensor.
      heavy: whether rows that take all threads of a CTA have a long function, or an operand that
        has some of their dimensions alone, as the weights of a group norm.
      scattered: whether a row is several runs of columns in memory that are no whole vectors, as a
        channel of images of 111x111 is.
    """

    rows: int
    columns: int
    combiners: str
    reads: int
    writes: int
    narrow_result: bool = False
    contiguous_rows: int = 1
    operand_bits: int = 16
    passes: int = 1
    turned: bool = False
    heavy: bool = False
    scattered: bool = False

    SIZES: ClassVar[tuple[str, ...]] = ("rows", "columns")

    @property
    def family(self) -> str:
        """`reduction`."""
        return "reduction"


@dataclasses.dataclass(frozen=True, slots=True)
class ReductionConfig(Record):
    """How rows of any length are distributed over CTAs.

    Attributes:
      tile_elements: elements of a CTA whose rows are short enough for several.
      elements_per_thread: elements of a row tile that a thread holds.
      max_columns_per_cta: columns of a CTA; a thread block cluster shares longer rows.
      packed: whether registers keep nothing but the row across a reduction, in 16 bits as it was
        loaded; values computed from it are recomputed.
      evict_first: whether caches drop the loaded rows first.
      block_rows: rows of a tile; 0 where `tile_elements` says it.
      block_columns: columns of a tile, over which a CTA loops; 0 where the tile holds whole rows.
      num_warps: warps of a CTA; 0 where `elements_per_thread` says it.
      splits: CTAs that share the columns of a block of rows, and write partial results.
    """

    tile_elements: int
    elements_per_thread: int
    max_columns_per_cta: int
    packed: bool = False
    evict_first: bool = False
    block_rows: int = 0
    block_columns: int = 0
    num_warps: int = 0
    splits: int = 1

    def alone(self) -> Self:
        """The configuration without a kernel that combines the parts of rows."""
        return dataclasses.replace(self, splits=1)
