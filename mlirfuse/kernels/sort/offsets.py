"""Offsets of a row's elements in the sorted tensor and in the indices, as text of a kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlirfuse.kernels.sort.analysis import SortAnalysis
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.order_users import SortResult


def source_offset(analysis: SortAnalysis, column: str) -> str:
    """The offset of column `column` of row `row` in the sorted tensor."""
    sizes = analysis.sizes
    return _offset(analysis, [_stride(sizes, n) for n in range(len(sizes))], column)


def result_offset(analysis: SortAnalysis, result: SortResult, place: str) -> str:
    """The offset of the element at `place` of row `row` in a result."""
    sizes = [size or 0 for size in ops.shape(result.value)]
    return _offset(analysis, [_stride(sizes, axis) for axis in result.axes], place)


def _stride(sizes: Sequence[int], dimension: int) -> int:
    return math.prod(sizes[dimension + 1 :])


def _offset(analysis: SortAnalysis, strides: Sequence[int], column: str) -> str:
    """The offset of an element of a row in a tensor with these strides."""
    terms = [f"{column} * {strides[analysis.order.dimension]}"]
    inner = 1
    for n in reversed(range(len(strides))):
        if n != analysis.order.dimension:
            terms.append(f"row // {inner} % {analysis.sizes[n]} * {strides[n]}")
            inner *= analysis.sizes[n]
    return " + ".join(terms)
