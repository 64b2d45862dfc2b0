"""Keys of sorts: integers in the order of the elements, and the elements of integers.

    packed = key * 1024 + index        indices are results, or take elements of other tensors
    packed = key                       the sorted elements are all: half of the bits of f32

With an index no two keys are equal, so the order is stable. Without one negative zeros come before
positive ones, and NaNs are one NaN.
"""

from __future__ import annotations

from mlirfuse.kernels.codegen.element_types import TYPES
from mlirfuse.kernels.sort.analysis import SortAnalysis
from mlirfuse.kernels.sort.offsets import source_offset
from mlirfuse.structured.ir import ops

_INFINITY = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000}
"""Element type -> the bits of infinity; those of NaN, without the sign, are greater."""

_FLOATS = {"f16": "tl.float16", "bf16": "tl.bfloat16", "f32": "tl.float32"}
"""Element type -> that of Triton whose bits they are."""


def loaded_keys(analysis: SortAnalysis) -> list[str]:
    """The lines that load the elements at `row` and `column`, and compute keys in their order."""
    kind = ops.element_type(analysis.order.source)
    return [
        f"inside = (row < {analysis.rows}) & (column < {analysis.columns})",
        f"x = tl.load(x0 + {source_offset(analysis, 'column')}, mask=inside, other=0)",
        *_keys(analysis, kind),
    ]


def _keys(analysis: SortAnalysis, kind: str) -> list[str]:
    """The lines that compute integers in the order of the elements."""
    lines, bits = ["key = x"], analysis.key_bits
    if not kind.startswith("i"):
        most = 2 ** (bits - 1) - 1
        # As the negative of its size, a negative zero has the key of zero.
        negative = "~size" if analysis.has_keys_alone else "-size"
        lines = [
            f"key = x.to(tl.int{bits}, bitcast=True).to(tl.int32)",
            f"size = key & {most}",
            f"key = tl.where(key < 0, {negative}, size)",
            f"key = tl.where(size > {_INFINITY[kind]}, {most}, key)",
        ]
    return [*lines, "key = ~key"] if analysis.order.descending else lines


def found(analysis: SortAnalysis, packed: str, columns: int) -> list[str]:
    """The lines that compute `index` from packed keys; `element` where keys are all.

    Args:
      analysis: the sort.
      packed: the keys.
      columns: columns that their indices may have, a power of two.
    """
    if not analysis.has_keys_alone:
        return [f"index = ({packed} & {columns - 1}).to(tl.int32)"]
    kind, bits = ops.element_type(analysis.order.source), analysis.key_bits
    key = f"~{packed}" if analysis.order.descending else packed
    if kind.startswith("i"):
        return [f"element = ({key}).to({TYPES[kind]})"]
    return [
        f"key = {key}",
        f"size = tl.where(key < 0, ~key | {-(2 ** (bits - 1))}, key)",
        f"element = size.to(tl.int{bits}).to({_FLOATS[kind]}, bitcast=True)",
    ]
