"""Slices, paddings, scatters and selections by computed indices."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from mlirfuse.frontends.onnx_repairs.builder import Node
from mlirfuse.frontends.onnx_repairs.values import Unsupported, Value, numpy_type


def slice_(node: Node) -> Value | None:
    """A Slice whose bounds are known only when the program runs, and its size from its type."""
    value, starts, _ = node.operand(0), node.operand(1), node.operand(2)
    given = [node.input(i) for i in range(1, 5)]
    if all(v is None or v.array is not None for v in given):
        return None
    shape = node.result_shape()
    if shape is None or None in shape:
        return None
    builder = node.builder
    count = starts.static[0]
    starts = starts.cast(TensorProto.INT64)
    axes, steps = node.input(3), node.input(4)
    where = builder.constant(np.arange(count)) if axes is None else axes.cast(TensorProto.INT64)
    where = (where < 0).where(where + value.rank, where)
    stride = None if steps is None else steps.cast(TensorProto.INT64)
    for axis, (size, out) in enumerate(zip(value.static, shape, strict=True)):
        assert out is not None
        chosen = where.equals(axis)
        start = chosen.where(starts, 0)
        start = (start < 0).where(start + size, start)
        step = stride and chosen.where(stride, 0).reduce("ReduceSum", [0])
        if step is None:
            index = start.reduce("ReduceSum", [0]) + np.arange(out)
        else:
            # 0 where no step is stated for the axis.
            step = step.equals(0).where(step.lifted(1), step)
            last = (step < 0).where(step.lifted(size - 1), step.lifted(size))
            first = builder.add("Min", start.reduce("ReduceSum", [0]), last)
            index = first + step * np.arange(out)
        value = value.take(_clamped(index, size), axis)
    return value


def _clamped(index: Value, size: int) -> Value:
    low = (index < 0).where(index.lifted(0), index)
    return (low > size - 1).where(low.lifted(size - 1), low)


def gather(node: Node) -> Value | None:
    """A Gather of floats at known places that follow each other: a slice, which is no gather.

    Models take the first token so; only its row is computed then.
    """
    value, places = node.operand(0), node.operand(1).array
    if not value.is_float or places is None or places.ndim > 1 or not places.size:
        return None
    first, count = int(places.flat[0]), places.size
    step = int(places.flat[1]) - first if count > 1 else 1
    if step < 1 or (first < 0 and count > 1):
        return None
    if not np.array_equal(places.reshape(-1), first + step * np.arange(count)):
        return None
    axis = node.attribute("axis", 0) % value.rank
    end = np.iinfo(np.int64).max if first == -1 else first + step * (count - 1) + 1
    taken = value.slice(axis, first, end, step)
    return taken if places.ndim else taken.squeeze(axis)


def pad(node: Node) -> Value | None:
    """A padding with elements of the tensor, gathered along each axis."""
    value, pads = node.operand(0), node.operand(1)
    mode = node.attribute("mode", "constant")
    if mode == "constant":
        return None
    axes = node.known(3)
    chosen = range(value.rank) if axes is None else [int(axis) % value.rank for axis in axes]
    shape, count = node.result_shape(), len(chosen)
    for position, axis in enumerate(chosen):
        size = value.static[axis]
        if pads.array is not None:
            before, after = int(pads.array[position]), int(pads.array[position + count])
            if not before and not after:
                continue
            index = pads.builder.constant(np.arange(-before, size + after))
        elif shape is not None and (out := shape[axis]) is not None:
            index = np.arange(out) - pads.take(position, 0)
            assert isinstance(index, Value)
        else:
            raise Unsupported("the result has a dynamic size")
        value = value.take(_source(index, size, mode), axis)
    return value


def _source(index: Value, size: int, mode: str) -> Value:
    """The places inside of an axis that places around it repeat."""
    builder = index.builder
    if mode == "edge":
        return _clamped(index, size)
    if mode == "wrap":
        return builder.add("Mod", index, index.lifted(size))
    period = max(1, 2 * (size - 1))
    turned = builder.add("Mod", index, index.lifted(period))
    return (turned < size).where(turned, period - turned)


def scatter_elements(node: Node) -> Value | None:
    """ScatterElements with a maximum or minimum, by the whole places of its elements."""
    reduction = node.attribute("reduction", "none")
    if reduction not in ("max", "min"):
        return None
    value, index, updates = (node.operand(i) for i in range(3))
    axis = node.attribute("axis", 0) % value.rank
    shape = index.static
    index = index.cast(TensorProto.INT64)
    index = (index < 0).where(index + value.static[axis], index)
    places = [
        index if i == axis else index.builder.constant(grid)
        for i, grid in enumerate(np.indices(shape))
    ]
    whole = node.builder.add("Concat", *(place.unsqueeze(-1) for place in places), axis=-1)
    flat = whole.reshape([math.prod(shape), value.rank])
    return node.builder.add("ScatterND", value, flat, updates.reshape([-1]), reduction=reduction)


def tensor_scatter(node: Node) -> Value:
    """TensorScatter: the places that an update covers read it, others the cache."""
    past, update, starts = node.operand(0), node.operand(1), node.input(2)
    axis = node.attribute("axis", -2) % past.rank
    size, length = past.static[axis], update.static[axis]
    tail = [1] * (past.rank - axis - 1)
    place = past.builder.constant(np.arange(size))
    if starts is None:
        offset = place.reshape([1] * axis + [size, *tail])
    else:
        first = starts.cast(TensorProto.INT64).reshape([-1, *[1] * (past.rank - 1)])
        offset = place.reshape([1] * axis + [size, *tail]) - first
    if node.attribute("mode", "linear") == "circular":
        offset = past.builder.add("Mod", offset, offset.lifted(size))
    covered: Value = (offset >= 0) & (offset < length)
    wide = _clamped(offset, length).expand(past.static)
    moved = past.builder.add("GatherElements", update, wide, axis=axis)
    return covered.where(moved, past)


def compress(node: Node) -> Value:
    """Compress as a Gather of the places that hold."""
    value, condition = node.operand(0), node.operand(1)
    shape = node.result_shape()
    axis = node.attribute("axis")
    if axis is None:
        value, axis = value.reshape([-1]), 0
    size = None if shape is None else shape[axis % value.rank]
    return value.take(places_of(condition, size), axis)


def places_of(condition: Value, size: int | None) -> Value:
    """Indices of the elements that hold, of one dimension, in order.

    Args:
      condition: booleans of one dimension.
      size: how many of them hold; None where that is known only when the program runs.
    """
    held = condition.cast(TensorProto.INT64)
    if size is None:
        return condition.builder.add("NonZero", held).reshape([-1])
    length = condition.static[0]
    # The number of elements that hold up to each one.
    before = np.tri(length, dtype=np.int64)
    rank = (held.unsqueeze(0) * before).reduce("ReduceSum", [1])
    chosen = rank.equals(np.arange(1, size + 1)[:, None]) & condition
    return (chosen.cast(TensorProto.INT64) * np.arange(length)).reduce("ReduceSum", [1])


def reverse_sequence(node: Node) -> Value:
    """ReverseSequence by the place that each element comes from."""
    value, lengths = node.operand(0), node.operand(1)
    time, batch = node.attribute("time_axis", 0), node.attribute("batch_axis", 1)
    shape = value.static
    step = np.arange(shape[time]).reshape([-1 if i == time else 1 for i in range(value.rank)])
    ends = lengths.cast(TensorProto.INT64)
    ends = ends.reshape([-1 if i == batch else 1 for i in range(value.rank)])
    place = value.builder.constant(step)
    source = (ends > place).where(ends - 1 - place, place).expand(shape)
    return value.builder.add("GatherElements", value, source, axis=time)


def feature_extractor(node: Node) -> Value:
    """ArrayFeatureExtractor of the machine learning domain: a Gather of the last axis."""
    value, index = node.operand(0), node.operand(1)
    rows = value if value.rank > 1 else value.unsqueeze(0)
    return rows.take(index.reshape([-1]), -1)


def binarizer(node: Node) -> Value:
    """Binarizer of the machine learning domain."""
    value = node.operand(0)
    above: Value = value > float(node.attribute("threshold", 0.0))
    return above.cast(value.dtype)


def prelu(node: Node) -> Value:
    """PRelu of the first operator sets, where a slope for each channel is not broadcast."""
    value, slope = node.operand(0), node.operand(1)
    channels = value.sizes[1] if value.rank > 1 else None
    if slope.rank != 1 or value.rank < 3 or slope.sizes[0] in (1, value.sizes[-1]):
        raise Unsupported("broadcast as usual")
    if slope.sizes[0] != channels:
        raise Unsupported("no slope for each channel")
    return node.builder.emit("PRelu", value, slope.reshape([-1, *[1] * (value.rank - 2)]))


def lp_normalization(node: Node) -> Value:
    """The tensor over its norm; zeros where the norm is zero."""
    value = node.operand(0)
    kind = "ReduceL1" if node.attribute("p", 2) == 1 else "ReduceL2"
    norm = value.reduce(kind, [node.attribute("axis", -1) % value.rank], keep=True)
    empty = norm.equals(0.0)
    scaled = value / empty.where(norm.lifted(1.0), norm)
    return empty.where(value.lifted(np.zeros((), numpy_type(value.dtype)).item()), scaled)
