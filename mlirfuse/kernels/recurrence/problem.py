"""Problem and configuration of recurrence kernels."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from mlirfuse.kernels.problem import Problem, Record


@dataclasses.dataclass(frozen=True, slots=True)
class RecurrenceProblem(Problem):
    """One step of a recurrence.

    Attributes:
      rows: rows of the states, which do not depend on each other.
      columns: columns of the states.
      k: contracted elements of the widest contraction; 0 without one.
      products: tiles of contractions that a tile of the states needs: 4 for an LSTM.
      operand_bits: width of the operands of the contractions, or of the states without one.
    """

    rows: int
    columns: int
    k: int = 0
    products: int = 0
    operand_bits: int = 16

    SIZES: ClassVar[tuple[str, ...]] = ("rows", "columns", "k")

    @property
    def family(self) -> str:
        """`recurrence`."""
        return "recurrence"


@dataclasses.dataclass(frozen=True, slots=True)
class RecurrenceConfig(Record):
    """Tile of a recurrence kernel.

    Attributes:
      block_rows: rows of the states of a CTA.
      block_columns: columns of them.
      block_k: contracted elements of one `tl.dot`.
      num_warps: warps of a CTA.
      num_stages: depth of the software pipeline of loads.
      packed: whether each CTA copies its weights once, so that loads of them are vectors.
    """

    block_rows: int
    block_columns: int
    block_k: int
    num_warps: int
    num_stages: int
    packed: bool = False

    @property
    def has_one_row(self) -> bool:
        """Whether contractions are sums of products for the one row of a CTA."""
        return self.block_rows == 1

    @property
    def tile_shape(self) -> str:
        """The shape of a tile of the states."""
        return f"[{self.block_rows}, {self.block_columns}]"

    def column_tiles(self, columns: int) -> int:
        """CTAs of a row of so many columns."""
        return -(-columns // self.block_columns)
