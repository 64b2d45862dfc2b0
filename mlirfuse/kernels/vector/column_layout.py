"""The kept dimensions of reductions whose lanes are elements of the last one in memory."""

from __future__ import annotations

import dataclasses
import math

from mlirfuse.kernels.codegen.element_types import Unsupported
from mlirfuse.kernels.codegen.iteration_space import Axis
from mlirfuse.kernels.vector.row_analysis import COLUMN, ROW, RowAnalysis, accesses, are_contiguous


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """The kept axes of a region.

    Attributes:
      lanes: those whose elements are lanes: contiguous, the innermost last.
      outer: the others.
      extent: elements of `lanes`.
      num_outer: elements of `outer`.
    """

    lanes: tuple[int, ...]
    outer: tuple[int, ...]
    extent: int
    num_outer: int


def layout(analysis: RowAnalysis) -> Layout | None:
    """The kept axes, where one is the last dimension of an operand; None where a reduced one is.

    Args:
      analysis: a region that reduces; the largest operand in memory with a reduced axis counts.
    """
    reads = [[axis for axis in read if _size(analysis, axis) > 1] for read in accesses(analysis)]
    reads = [read for read in reads if any(axis[0] == COLUMN for axis in read)]
    if not reads:
        return None
    large = max(reads, key=lambda read: math.prod(_size(analysis, axis) for axis in read))
    last = max(n for n, axis in enumerate(large) if axis[0] == COLUMN)
    return _layout(analysis, large[last + 1 :]) if large[last + 1 :] else None


def _layout(analysis: RowAnalysis, kept: list[Axis]) -> Layout:
    """The layout with as many of these axes as lanes as are contiguous in all tensors."""
    while kept and not are_contiguous(analysis, kept):
        kept = kept[1:]
    if not kept:
        raise Unsupported("an operand whose lanes are not contiguous")
    sizes, lanes = analysis.row_sizes, tuple(axis[1] for axis in kept)
    outer = tuple(n for n in range(len(sizes)) if n not in lanes)
    extent, num_outer = (math.prod(sizes[n] for n in axes) for axes in (lanes, outer))
    return Layout(lanes, outer, extent, num_outer)


def _size(analysis: RowAnalysis, axis: Axis) -> int:
    return (analysis.row_sizes if axis[0] == ROW else analysis.column_sizes)[axis[1]]
