"""Problem and configuration of kernels that reduce rows."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

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
    """

    rows: int
    columns: int
    combiners: str
    reads: int
    writes: int
    narrow_result: bool = False

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
    """

    tile_elements: int
    elements_per_thread: int
    max_columns_per_cta: int
    packed: bool = False
    evict_first: bool = False
