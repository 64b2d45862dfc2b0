"""Unique by comparisons of all pairs of elements, or of parts along an axis."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from mlirfuse.frontends.onnx_repairs.builder import Node
from mlirfuse.frontends.onnx_repairs.indexing import places_of
from mlirfuse.frontends.onnx_repairs.values import FLOATS, HALVES, Unsupported, Value

MAX_PARTS = 1 << 13
"""Most elements, or parts, whose pairs are compared."""

MAX_PART_ELEMENTS = 64
"""Most elements of a part."""


def unique(node: Node) -> list[Value | None]:
    """The first one of equal elements, in the order of the values or of the places."""
    value, axis = node.operand(0), node.attribute("axis")
    if axis is None:
        value, axis = value.reshape([-1]), 0
    axis %= value.rank
    order = [axis, *(i for i in range(value.rank) if i != axis)]
    count = value.static[axis]
    equal, less = _compared(value.transpose(order).reshape([count, -1]))
    earlier = value.builder.constant(np.tri(count, k=-1, dtype=bool))
    first = ~_any(equal & earlier)
    ahead = less if node.attribute("sorted", 1) else earlier
    place = _count(ahead & first)
    index = value.builder.constant(np.arange(count))
    # In the column of each place, the row of its element.
    at_place = first.unsqueeze(1) & place.unsqueeze(1).equals(index)
    source = (at_place.cast(TensorProto.INT64) * np.arange(count)[:, None]).reduce("ReduceSum", [0])
    total = first.cast(TensorProto.INT64).reduce("ReduceSum", [0])
    shape = node.result_shape()
    size = None if shape is None else shape[axis]
    kept = source.take(np.arange(size) if size is not None else places_of(index < total, None), 0)
    inverse = ((equal & first).cast(TensorProto.INT64) * place).reduce("ReduceSum", [1])
    return [value.take(kept, axis), kept, inverse, _count(equal).take(kept, 0)]


def _compared(rows: Value) -> tuple[Value, Value]:
    """For each pair of rows i and j: whether they are equal, and whether j is before i.

    NaN equals itself and is after all numbers.
    """
    count, width = rows.static
    if count > MAX_PARTS or not 0 < width <= MAX_PART_ELEMENTS:
        raise Unsupported(f"{count} parts of {width} elements")
    if rows.dtype in (*HALVES, TensorProto.BOOL):
        rows = rows.cast(TensorProto.FLOAT)
    found: tuple[Value, Value] | None = None
    for column in reversed(range(width)):
        part = rows.take(column, 1)
        this, other = part.unsqueeze(1), part.unsqueeze(0)
        equal, less = this.equals(other), other < this
        if part.dtype in FLOATS:
            is_nan = rows.builder.add("IsNaN", part)
            equal = equal | (is_nan.unsqueeze(1) & is_nan.unsqueeze(0))
            less = less | (is_nan.unsqueeze(1) & ~is_nan.unsqueeze(0))
        found = (equal & found[0], less | (equal & found[1])) if found else (equal, less)
    assert found is not None
    return found


def _count(flags: Value) -> Value:
    """How many flags of each row hold."""
    return flags.cast(TensorProto.INT64).reduce("ReduceSum", [1])


def _any(flags: Value) -> Value:
    """Whether a flag of each row holds."""
    return _count(flags) > 0
