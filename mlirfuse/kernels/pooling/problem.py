"""Problem and configuration of pooling kernels."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from mlirfuse.kernels.problem import Problem, Record


@dataclasses.dataclass(frozen=True, slots=True)
class PoolingProblem(Problem):
    """A pooling over the windows of all images.

    Attributes:
      pixels: output pixels of all images and outer dimensions.
      columns: size of the result's last dimension.
      window: sizes of the window, `3x3`.
      strided_columns: whether the window moves along the last dimension, so that a thread loads
        single elements.
      element_bits: width of the result's elements.
    """

    pixels: int
    columns: int
    window: str
    strided_columns: bool = False
    element_bits: int = 16

    SIZES: ClassVar[tuple[str, ...]] = ("pixels", "columns")

    @property
    def family(self) -> str:
        """`pooling`."""
        return "pooling"


@dataclasses.dataclass(frozen=True, slots=True)
class PoolingConfig(Record):
    """Tile of a pooling kernel.

    Attributes:
      tile_elements: elements of a tile.
      max_columns: columns of a tile at most; 0 for tiles of adjacent elements of the result,
        whatever its last dimension is.
      num_warps: warps of a CTA.
    """

    tile_elements: int
    max_columns: int
    num_warps: int
