"""Problem and configuration of scan kernels."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from mlirfuse.kernels.problem import Problem, Record


@dataclasses.dataclass(frozen=True, slots=True)
class ScanProblem(Problem):
    """A scan along one dimension.

    Attributes:
      outer: the product of the sizes before the scanned dimension.
      columns: the size of the scanned dimension.
      inner: the product of the sizes after it.
      element_bits: width of the widest element that is read or written.
      long: whether the combination of two elements has functions.
    """

    outer: int
    columns: int
    inner: int = 1
    element_bits: int = 32
    long: bool = False

    SIZES: ClassVar[tuple[str, ...]] = ("outer", "columns", "inner")

    @property
    def family(self) -> str:
        """`scan`."""
        return "scan"


@dataclasses.dataclass(frozen=True, slots=True)
class ScanConfig(Record):
    """Tile of a scan kernel.

    Attributes:
      block_columns: elements of the scanned dimension in a tile.
      block_lanes: scans in a tile: rows, or elements of the dimensions after the scanned one.
      num_warps: warps of a CTA.
      segments: parts of a scan that are CTAs of their own.
      serial: whether each thread walks along strided scans of its own, and blocks are rows that
        are loaded together.
    """

    block_columns: int
    block_lanes: int
    num_warps: int
    segments: int = 1
    serial: bool = False
