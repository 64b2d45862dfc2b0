"""Problem and configuration of scatter kernels."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from mlirfuse.kernels.problem import Problem, Record


@dataclasses.dataclass(frozen=True, slots=True)
class ScatterProblem(Problem):
    """A scatter of windows.

    Attributes:
      windows: windows that are updated.
      elements: contiguous elements of a window.
      element_bits: width of an element.
      combiner: kind of the way into memory: `store`, `plain`, `atomic` or `compare_and_swap`.
    """

    windows: int
    elements: int
    element_bits: int = 32
    combiner: str = "atomic"

    SIZES: ClassVar[tuple[str, ...]] = ("windows", "elements")

    @property
    def family(self) -> str:
        """`scatter`."""
        return "scatter"


@dataclasses.dataclass(frozen=True, slots=True)
class ScatterConfig(Record):
    """Tile of a scatter kernel.

    Attributes:
      block_windows: windows of a tile; one where windows have one element.
      block_elements: elements of a window in a tile, or windows of one element.
      num_warps: warps of a CTA.
    """

    block_windows: int
    block_elements: int
    num_warps: int
