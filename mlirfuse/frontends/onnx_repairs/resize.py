"""Resize as weighted sums of gathered elements, one axis after the other.

    y[o] = sum of w[o, k] * x[clamp(i[o, k])]     for the taps k of the filter

Weights and indices are constants where the scales are. The taps of a long filter become a matrix.
"""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from mlirfuse.frontends.onnx_repairs.builder import Builder, Node
from mlirfuse.frontends.onnx_repairs.values import Unsupported, Value

GATHERED_TAPS = 8
"""Most taps of a filter that are gathered one by one; longer filters are matrices."""


def resize(node: Node) -> Value:
    """Resize of static sizes in all its modes."""
    builder, data = node.builder, node.operand(0)
    roi, scales, sizes = (node.input(i) for i in (1, 2, 3))
    return _resized(node, builder, data, roi, scales, sizes)


def upsample(node: Node) -> Value:
    """Upsample, the Resize of old operator sets."""
    return _resized(node, node.builder, node.operand(0), None, node.operand(1), None)


def _resized(
    node: Node,
    builder: Builder,
    data: Value,
    roi: Value | None,
    scales: Value | None,
    sizes: Value | None,
) -> Value:
    given = data.static
    axes = [axis % len(given) for axis in node.attribute("axes") or range(len(given))]
    expected = node.result_shape()
    if expected is None or None in expected:
        raise Unsupported("the result has a dynamic size")
    if scales is not None and scales.shape == (0,):
        scales = None
    factors = None
    if scales is not None:
        factors = scales.cast(TensorProto.DOUBLE)
    elif sizes is not None and node.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        lowest = node.attribute("keep_aspect_ratio_policy") == "not_larger"
        ratios = sizes.cast(TensorProto.DOUBLE) / np.array([given[a] for a in axes], np.float64)
        factor = ratios.reduce("ReduceMin" if lowest else "ReduceMax", [0], keep=True)
        factors = factor.expand([len(axes)])
    dtype = data.dtype
    mode = node.attribute("mode", "nearest")
    inside: Value | None = None
    if mode != "nearest" and dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        data = data.cast(TensorProto.FLOAT)
    for position, axis in enumerate(axes):
        size, target = given[axis], expected[axis]
        assert target is not None
        if factors is None:
            if size == target and roi is None:
                continue
            scale = builder.constant(np.array(target / size))
        else:
            scale = factors.take(position, 0)
            if scale.array is not None and float(scale.array) == 1 and roi is None:
                continue
        region = None
        if node.attribute("coordinate_transformation_mode") == "tf_crop_and_resize":
            if roi is None:
                raise Unsupported("there is no region")
            wide = roi.cast(TensorProto.DOUBLE)
            region = (wide.take(position, 0), wide.take(position + len(axes), 0))
        where = _coordinates(node, scale, size, target, region)
        if region is not None:
            held = (where >= 0.0) & (where <= float(size - 1))
            held = held.reshape([target, *[1] * (len(given) - axis - 1)])
            inside = held if inside is None else inside & held
        if mode == "nearest":
            index = _nearest(node.attribute("nearest_mode", "round_prefer_floor"), where)
            data = data.take(_clamped(index, size), axis)
        else:
            data = _filtered(node, data, axis, where, scale, target / size)
    if inside is not None:
        data = inside.where(data, node.attribute("extrapolation_value", 0.0))
    return data.cast(dtype)


def _coordinates(
    node: Node, scale: Value, size: int, target: int, region: tuple[Value, Value] | None
) -> Value:
    """For each element of the result, its place along an axis of the operand."""
    # Upsample has no attribute for it.
    default = "half_pixel" if node.kind == "Resize" else "asymmetric"
    mode = node.attribute("coordinate_transformation_mode", default)
    builder = scale.builder
    place = builder.constant(np.arange(target, dtype=np.float64))
    width = scale * float(size)
    if mode == "asymmetric":
        return place / scale
    if mode in ("align_corners", "tf_crop_and_resize"):
        alone = width.equals(1.0)
        steps = alone.where(width.lifted(1.0), width - 1.0)
        if region is None:
            return alone.where(place * 0.0, place * float(size - 1) / steps)
        start, end = region
        length = (end - start) * float(size - 1)
        return alone.where(length / 2.0, place * length / steps) + start * float(size - 1)
    found = (place + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return width.equals(1.0).where(found.lifted(-0.5), found)
    if mode == "half_pixel_symmetric":
        return found + (1.0 - float(target) / width) * (size / 2)
    if mode == "half_pixel":
        return found
    raise Unsupported(mode)


def _nearest(mode: str, where: Value) -> Value:
    builder = where.builder
    rounded: Value
    if mode == "round_prefer_floor":
        rounded = builder.add("Ceil", where - 0.5)
    elif mode == "round_prefer_ceil":
        rounded = builder.add("Floor", where + 0.5)
    else:
        rounded = builder.add({"floor": "Floor", "ceil": "Ceil"}[mode], where)
    return rounded


def _clamped(index: Value, size: int) -> Value:
    """Floats as indices of an axis."""
    builder = index.builder
    low = builder.add("Max", index, index.lifted(0.0))
    clamped: Value = builder.add("Min", low, index.lifted(float(size - 1)))
    return clamped.cast(TensorProto.INT64)


def _filtered(
    node: Node, data: Value, axis: int, where: Value, scale: Value, lowest: float
) -> Value:
    """A linear or cubic filter along an axis, at the places `where`.

    Args:
      node: the Resize.
      data: the operand.
      axis: of the operand.
      where: coordinates along the axis, one for each element of the result.
      scale: size of the result over size of the operand, for filters against aliasing.
      lowest: lower bound of `scale`.
    """
    builder = data.builder
    size, (target,) = data.static[axis], where.static
    radius = 2 if node.attribute("mode") == "cubic" else 1
    antialias = bool(node.attribute("antialias", 0))
    start = 1 - radius
    if antialias:
        start = math.floor(-radius / min(lowest, 1.0)) + 1
        scale = builder.add("Min", scale, scale.lifted(1.0))
    taps = np.arange(start, 2 - start, dtype=np.float64)
    base = (builder.add("Ceil", where) - 1.0).unsqueeze(1)
    distance = abs(base + taps - where.unsqueeze(1))
    distance = distance * scale if antialias else distance
    weights = (
        _cubic(distance, node.attribute("cubic_coeff_a", -0.75))
        if radius == 2
        else (builder.add("Max", 1.0 - distance, distance.lifted(0.0)))
    )
    index = base + taps
    if antialias:
        weights = weights / weights.reduce("ReduceSum", [1], keep=True)
    if node.attribute("exclude_outside", 0):
        held = (index >= 0.0) & (index <= float(size - 1))
        weights = held.where(weights, 0.0)
        weights = weights / weights.reduce("ReduceSum", [1], keep=True)
    weights = weights.cast(data.dtype)
    clamped = _clamped(index, size)
    if len(taps) > GATHERED_TAPS:
        one_hot = clamped.unsqueeze(2).equals(np.arange(size)).cast(data.dtype)
        matrix = (one_hot * weights.unsqueeze(2)).reduce("ReduceSum", [1]).transpose([1, 0])
        order = [i for i in range(data.rank) if i != axis] + [axis]
        back = [order.index(i) for i in range(data.rank)]
        return (data.transpose(order) @ matrix).transpose(back)
    total: Value | None = None
    tail = [1] * (data.rank - axis - 1)
    for tap in range(len(taps)):
        weight = weights.take(tap, 1).reshape([target, *tail])
        part = data.take(clamped.take(tap, 1), axis) * weight
        total = part if total is None else total + part
    assert total is not None
    return total


def _cubic(distance: Value, a: float) -> Value:
    """Keys' cubic kernel."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1.0
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return (distance <= 1.0).where(near, (distance < 2.0).where(far, 0.0))
