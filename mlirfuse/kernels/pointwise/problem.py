"""Problem and configuration of elementwise kernels."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from mlirfuse.kernels.problem import Problem, Record


@dataclasses.dataclass(frozen=True, slots=True)
class PointwiseProblem(Problem):
    """Elementwise ops, with gathers, slices and permuted operands.

    Attributes:
      elements: elements of the largest result.
      trait: the costliest access or function: `gathered`, `swapped`, `permuted`, `sliced`,
        `error function`, `functions`, `arithmetic`, or `transposed`.
      result_bits: width of the widest element of a result.
      several_results: whether there is more than one result.
      wide_indices: whether it reads a number of 64 bits for each element, as gathers along a
        dimension do.
      gathers: elements that it reads at computed places for one of a result, at most.
      spread: whether the tensors of these have as many elements as the result: neighbors of the
        result are apart there.
    """

    elements: int
    trait: str = "arithmetic"
    result_bits: int = 16
    several_results: bool = False
    wide_indices: bool = False
    gathers: int = 0
    spread: bool = False

    SIZES: ClassVar[tuple[str, ...]] = ("elements",)

    @property
    def family(self) -> str:
        """`pointwise`, or `transpose`, which has other tiles."""
        return "transpose" if self.trait == "transposed" else "pointwise"


@dataclasses.dataclass(frozen=True, slots=True)
class PointwiseConfig(Record):
    """Tile of an elementwise kernel.

    Attributes:
      block_rows: rows of a tile.
      block_columns: columns of a tile.
      num_warps: warps of a CTA.
    """

    block_rows: int
    block_columns: int
    num_warps: int
