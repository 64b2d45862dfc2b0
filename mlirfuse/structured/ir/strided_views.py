"""Tensors that are slices of another one: where their elements are in its memory."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse.structured.ir import ops


@dataclasses.dataclass(frozen=True, slots=True)
class StridedView:
    """The elements of a tensor in the memory of its base.

    Attributes:
      base: a tensor, row-major and contiguous.
      offset: index of the first element.
      strides: elements of the base from one index of each dimension to the next.
    """

    base: ir.Value
    offset: int
    strides: tuple[int, ...]

    def covering_shape(self) -> tuple[int, ...] | None:
        """The shape of a row-major tensor with these strides; its first size is 1.

        None where a stride is no multiple of the next one, or the last is not 1.
        """
        if not self.strides or self.strides[-1] != 1:
            return None
        pairs = list(itertools.pairwise(self.strides))
        if any(outer % inner for outer, inner in pairs):
            return None
        return (1, *(outer // inner for outer, inner in pairs))


def strided_view(value: ir.Value) -> StridedView | None:
    """The tensor that a value is a slice of, through static slices and reshapes.

    Returns:
      None for a tensor that is no slice, or whose shape is not static.
    """
    found = _view(value)
    return found if found is not None and _has_slice(value, found) else None


def _has_slice(value: ir.Value, found: StridedView) -> bool:
    return math.prod(size or 0 for size in ops.shape(value)) != math.prod(
        size or 0 for size in ops.shape(found.base)
    )


def contiguous(value: ir.Value) -> StridedView:
    """A static tensor as a view of itself."""
    sizes = [size or 0 for size in ops.shape(value)]
    return StridedView(value, 0, tuple(math.prod(sizes[d + 1 :]) for d in range(len(sizes))))


def _view(value: ir.Value) -> StridedView | None:
    if None in ops.shape(value):
        return None
    op = ops.defining_op(value)
    if op is not None and op.name in ("tensor.extract_slice", *ops.RESHAPES):
        source = _view(op.operands[0])
        moved = _moved(op, source) if source is not None and source.strides else None
        if moved is not None:
            return moved
    return contiguous(value)


def _moved(op: ir.Operation, source: StridedView) -> StridedView | None:
    """The view of an op's result; None where its elements have no strides."""
    if op.name == "tensor.extract_slice":
        return _sliced(op, source)
    expands = op.name == "tensor.expand_shape"
    sizes = [size or 0 for size in ops.shape(op.results[0] if expands else op.operands[0])]
    if expands:
        strides = []
        for group, stride in zip(ops.reassociation(op), source.strides, strict=True):
            parts = [sizes[d] for d in group]
            strides += [stride * math.prod(parts[n + 1 :]) for n in range(len(parts))]
        return dataclasses.replace(source, strides=tuple(strides))
    merged = [
        merged_stride([source.strides[d] for d in group], [sizes[d] for d in group])
        for group in ops.reassociation(op)
    ]
    known = tuple(stride for stride in merged if stride is not None)
    return dataclasses.replace(source, strides=known) if len(known) == len(merged) else None


def merged_stride(strides: Sequence[int], sizes: Sequence[int]) -> int | None:
    """The stride of dimensions with these that are merged; None where they have no common one."""
    kept = [place for place in zip(strides, sizes, strict=True) if place[1] != 1]
    for (outer, _), (inner, size) in itertools.pairwise(kept):
        if outer != inner * size:
            return None
    return kept[-1][0] if kept else strides[-1]


def _sliced(op: ir.Operation, source: StridedView) -> StridedView | None:
    boxes = ops.slice_params(op).boxes
    if not all(isinstance(number, int) for box in boxes for number in box):
        return None
    kept = ops.kept_dimensions([size for _, size, _ in boxes], ops.shape(op.results[0]))
    places = list(zip(boxes, source.strides, strict=True))
    strides = [step * stride for (_, _, step), stride in places]
    offset = sum(first * stride for (first, _, _), stride in places)
    return StridedView(source.base, source.offset + offset, tuple(strides[d] for d in kept))
