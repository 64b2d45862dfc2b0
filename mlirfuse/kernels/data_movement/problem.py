"""Problem and configuration of concatenation kernels."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from mlirfuse.kernels.problem import Problem, Record


@dataclasses.dataclass(frozen=True, slots=True)
class ConcatProblem(Problem):
    """A concatenation along one axis.

    Attributes:
      elements: elements of the result.
      parts: tensors that are copied.
      element_bits: width of an element.
    """

    elements: int
    parts: int
    element_bits: int = 16

    SIZES: ClassVar[tuple[str, ...]] = ("elements", "parts")

    @property
    def family(self) -> str:
        """`concat`."""
        return "concat"


@dataclasses.dataclass(frozen=True, slots=True)
class ConcatConfig(Record):
    """Tile of a concatenation kernel.

    Attributes:
      tile_elements: elements of the result that a CTA writes.
      num_warps: warps of a CTA.
    """

    tile_elements: int
    num_warps: int
