"""Samples of images at computed places: GridSample, AffineGrid, RoiAlign and DeformConv."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from mlirfuse.frontends.onnx_repairs.builder import Node
from mlirfuse.frontends.onnx_repairs.values import Unsupported, Value


def affine_grid(node: Node) -> Value:
    """The places of the result's elements, as rows, times the transposed matrices."""
    theta, shape = node.operand(0), node.result_shape()
    if shape is None or None in shape:
        raise Unsupported("the grid has a dynamic size")
    sizes = [int(size or 0) for size in shape[1:-1]]
    corners = node.attribute("align_corners", 0)
    lines = [
        np.linspace(-1, 1, size) if corners else (2 * np.arange(size) + 1) / size - 1
        for size in sizes
    ]
    places = np.meshgrid(*lines, indexing="ij")
    rows = np.stack([*places[::-1], np.ones(sizes)], -1).reshape(-1, len(sizes) + 1)
    base = theta.lifted(0.0).builder.constant(rows.astype(np.float32)).cast(theta.dtype)
    return (base @ theta.transpose([0, 2, 1])).reshape([-1, *sizes, len(sizes)])


def grid_sample(node: Node) -> Value:
    """GridSample as a weighted sum of gathered elements, one for each tap of the filter."""
    data, grid = node.operand(0), node.operand(1)
    batch, channels, *sizes = data.static
    points = grid.static[1:-1]
    dtype = data.dtype
    grid = grid.cast(TensorProto.FLOAT).reshape([batch, math.prod(points), len(sizes)])
    corners = bool(node.attribute("align_corners", 0))
    padding = node.attribute("padding_mode", "zeros")
    mode = node.attribute("mode", "linear").removeprefix("bi")
    taps = []
    for axis, size in enumerate(sizes):
        place = grid.take(len(sizes) - 1 - axis, 2)
        place = (
            (place + 1.0) * ((size - 1) / 2)
            if corners
            else ((place + 1.0) * float(size) - 1.0) / 2.0
        )
        low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
        taps.append(_taps(place, mode, padding, size, low, high))
    flat = data.reshape([batch, channels, math.prod(sizes)])
    if dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        flat = flat.cast(TensorProto.FLOAT)
    result = _weighted(flat, taps, sizes)
    return result.reshape([batch, channels, *points]).cast(dtype)


Tap = tuple[Value, Value]
"""Indices along an axis, and weights."""


def _taps(place: Value, mode: str, padding: str, size: int, low: float, high: float) -> list[Tap]:
    """The taps of a filter at places along an axis."""
    builder = place.builder
    if mode == "nearest":
        place = builder.add("Round", place)
    outside = (place < low) | (place > high)
    if padding == "border":
        place = outside.where(_clip(place, 0.0, size - 1.0), place)
    elif padding == "reflection":
        place = outside.where(_reflected(place, low, high), place)
    if mode == "nearest":
        return [_tap(place, place * 0.0 + 1.0, padding, size, low, high)]
    base = builder.add("Floor", place)
    part = place - base
    if mode == "linear":
        weights = [(0, 1.0 - part), (1, part)]
    elif mode == "cubic":
        weights = [(i, _keys(abs(part - float(i)))) for i in range(-1, 3)]
    else:
        raise Unsupported(mode)
    return [_tap(base + float(i), weight, padding, size, low, high) for i, weight in weights]


def _tap(index: Value, weight: Value, padding: str, size: int, low: float, high: float) -> Tap:
    """A tap with an index inside of the axis; outside of it, zeros weigh nothing."""
    if padding == "zeros":
        weight = ((index < 0.0) | (index > size - 1.0)).where(weight.lifted(0.0), weight)
    elif padding == "reflection":
        index = ((index < low) | (index > high)).where(_reflected(index, low, high), index)
    return _clip(index, 0.0, size - 1.0).cast(TensorProto.INT64), weight


def _clip(value: Value, low: float, high: float) -> Value:
    builder = value.builder
    raised = builder.add("Max", value, value.lifted(low))
    return builder.add("Min", raised, value.lifted(high))


def _reflected(place: Value, low: float, high: float) -> Value:
    """Places outside of a range, mirrored at its ends until they are inside."""
    if high <= low:
        return place * 0.0 + low
    builder, span = place.builder, high - low
    below = place < low
    distance = below.where(low - place, place - high)
    count = builder.add("Floor", distance / span)
    rest = distance - count * span
    even = builder.add("Floor", count / 2.0).equals(count / 2.0)
    near = below.where(low + rest, high - rest)
    far = below.where(high - rest, low + rest)
    return even.where(near, far)


def _keys(distance: Value, a: float = -0.75) -> Value:
    """Keys' cubic kernel, for distances up to 2."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1.0
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return (distance <= 1.0).where(near, far)


def _weighted(data: Value, taps: Sequence[Sequence[Tap]], sizes: Sequence[int]) -> Value:
    """Sums of elements over all combinations of the taps of each axis.

    Args:
      data: batch, channels, elements.
      taps: for each axis, the taps, of shape batch, points.
      sizes: of the axes.
    """
    total: Value | None = None
    for combination in itertools.product(*taps):
        index, weight = combination[0]
        for (inner, factor), size in zip(combination[1:], sizes[1:], strict=True):
            index, weight = index * size + inner, weight * factor
        part = gather_batch(data, index) * weight.cast(data.dtype).unsqueeze(1)
        total = part if total is None else total + part
    assert total is not None
    return total


def gather_batch(data: Value, index: Value) -> Value:
    """Elements of `[batch, channels, elements]` by indices `[batch, points]`."""
    batch, channels, _ = data.static
    points = index.static[1]
    if batch == 1:
        return data.take(index.reshape([points]), 2)
    wide = index.unsqueeze(1).expand([batch, channels, points])
    return data.builder.add("GatherElements", data, wide, axis=2)


def roi_align(node: Node) -> Value:
    """RoiAlign with a fixed number of samples in each cell."""
    data, rois, owners = node.operand(0), node.operand(1), node.operand(2)
    samples = node.attribute("sampling_ratio", 0)
    if samples < 1:
        raise Unsupported("the number of samples depends on the regions")
    _, channels, *sizes = data.static
    count = rois.static[0]
    offset = 0.0
    # The default is of operator set 16.
    if node.attribute("coordinate_transformation_mode", "half_pixel") == "half_pixel":
        offset = 0.5
    scale = node.attribute("spatial_scale", 1.0)
    cells = [node.attribute("output_height", 1), node.attribute("output_width", 1)]
    taps = []
    for axis, (size, cell) in enumerate(zip(sizes, cells, strict=True)):
        start = rois.take(1 - axis, 1) * scale - offset
        length = rois.take(3 - axis, 1) * scale - offset - start
        if not offset:
            length = data.builder.add("Max", length, length.lifted(1.0))
        steps = ((np.arange(cell * samples) + 0.5) / (cell * samples)).astype(np.float32)
        place = start.unsqueeze(1) + length.unsqueeze(1) * data.builder.constant(steps)
        outside = (place < -1.0) | (place > float(size))
        place = _clip(place, 0.0, size - 1.0)
        base = data.builder.add("Floor", place)
        part = place - base
        shape = [count, -1, 1] if axis == 0 else [count, 1, -1]
        samples_shape = [count, cells[0] * samples, cells[1] * samples]
        taps.append(
            [
                (
                    _clip(base + float(i), 0.0, size - 1.0)
                    .cast(TensorProto.INT64)
                    .reshape(shape)
                    .expand(samples_shape)
                    .reshape([count, -1]),
                    outside.where(weight.lifted(0.0), weight)
                    .reshape(shape)
                    .expand(samples_shape)
                    .reshape([count, -1]),
                )
                for i, weight in ((0, 1.0 - part), (1, part))
            ]
        )
    images = data.take(owners, 0).reshape([count, channels, math.prod(sizes)])
    shape = [count, channels, cells[0], samples, cells[1], samples]
    if node.attribute("mode", "avg") == "avg":
        return _weighted(images, taps, sizes).reshape(shape).reduce("ReduceMean", [3, 5])
    parts: list[Value] = []
    for combination in itertools.product(*taps):
        (row, tall), (column, wide) = combination
        index = row * sizes[1] + column
        parts.append(gather_batch(images, index) * (tall * wide).unsqueeze(1))
    highest = parts[0]
    for part in parts[1:]:
        highest = data.builder.add("Max", highest, part)
    return highest.reshape(shape).reduce("ReduceMax", [3, 5])


def deform_conv(node: Node) -> Value:
    """DeformConv: bilinear samples for each element of the kernel, and a product of matrices."""
    data, weight, offset = (node.operand(i) for i in range(3))
    bias, mask = node.input(3), node.input(4)
    batch, channels, *sizes = data.static
    if len(sizes) != 2:
        raise Unsupported("not two spatial axes")
    filters, _, *kernel = weight.static
    out = offset.static[2:]
    groups, owners = node.attribute("group", 1), node.attribute("offset_group", 1)
    strides = node.attribute("strides") or [1, 1]
    dilations = node.attribute("dilations") or [1, 1]
    pads = node.attribute("pads") or [0] * 4
    taps_count, points = math.prod(kernel), math.prod(out)
    # Offsets: batch, owner, element of the kernel, axis, place.
    moved = offset.reshape([batch * owners, taps_count, 2, points])
    taps = []
    for axis, size in enumerate(sizes):
        steps = np.arange(kernel[axis]) * dilations[axis] - pads[axis]
        starts = np.arange(out[axis]) * strides[axis]
        at = [steps[:, None], steps[None, :]][axis] + np.zeros(kernel)
        begin = [starts[:, None], starts[None, :]][axis] + np.zeros(out)
        fixed = at.reshape(-1, 1) + begin.reshape(1, -1)
        place = moved.take(axis, 2) + fixed.astype(np.float32)
        place = place.reshape([batch * owners, taps_count * points])
        taps.append(_taps(place, "linear", "zeros", size, 0.0, size - 1.0))
    images = data.reshape([batch * owners, channels // owners, math.prod(sizes)])
    samples = _weighted(images, taps, sizes)
    samples = samples.reshape([batch, owners, channels // owners, taps_count, points])
    if mask is not None:
        samples = samples * mask.reshape([batch, owners, 1, taps_count, points])
    rows = samples.reshape([batch, groups, channels // groups * taps_count, points])
    kernels = weight.reshape([1, groups, filters // groups, channels // groups * taps_count])
    result = (kernels @ rows).reshape([batch, filters, *out])
    return result if bias is None else result + bias.reshape([1, filters, 1, 1])
