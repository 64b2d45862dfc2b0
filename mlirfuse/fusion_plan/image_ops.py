"""Writes convolutions and poolings as `linalg.generic`, in the layout that the image has."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mlirfuse.fusion_plan import ops
from mlirfuse.fusion_plan.chain import Chain, loops
from mlirfuse.fusion_plan.mlir_text import Body, Read, Tensor
from mlirfuse.fusion_plan.tensors import TensorSpec


def _padding(given: TensorSpec, amounts: Sequence[int]) -> list[int]:
    padding = [0] * given.rank
    for axis, amount in zip(given.spatial_axes, amounts, strict=True):
        padding[axis] = max(amount, 0)
    return padding


def _position(out: str, tap: str, stride: int, dilation: int) -> str:
    return f"{out} * {stride} + {tap} * {dilation}"


def _conv(chain: Chain, op: ops.ConvForward, given: TensorSpec, own: Mapping[str, Tensor]) -> None:
    rank = len(given.spatial_axes)
    geometry = ops.Geometry.of(op, given)
    strides, dilations = geometry.stride, geometry.dilation
    low, high = _padding(given, geometry.padding), _padding(given, geometry.high)
    chain.flush(given.dtype)
    m = chain.module
    image = chain.value
    output = op.derive(given).output
    depthwise = op.groups == given.channels == op.filters
    grouped = op.groups > 1 and not depthwise
    last = given.layout.endswith("C")
    outs = [f"o{i}" for i in range(rank)]
    taps = [f"k{i}" for i in range(rank)]
    at = [_position(*p) for p in zip(outs, taps, strides, dilations, strict=True)]
    weights = own["weights"]
    out_shape = list(output.shape)
    axis = given.channel_axis
    weight_channels: tuple[list[str], list[str]]
    if depthwise:
        in_channels, out_channels, weight_channels = ["c"], ["c"], (["c"], [])
        dropped = given.rank - 1 if last else 1
        shape = [s for i, s in enumerate(weights.shape) if i != dropped]
        groups = _merge(weights.shape, dropped)
        weights = m.reshaped(weights, groups, shape)
    elif grouped:
        in_channels, out_channels, weight_channels = ["g", "c"], ["g", "f"], (["g", "f"], ["c"])
        image = m.reshaped(image, *split(image.shape, axis, op.groups))
        low.insert(axis, 0)
        high.insert(axis, 0)
        weights = m.reshaped(weights, *split(weights.shape, 0, op.groups))
        out_shape = list(split(output.shape, axis, op.groups)[1])
    else:
        in_channels, out_channels, weight_channels = ["c"], ["f"], (["f"], ["c"])
    image = m.padded(image, low, high, 0.0)
    reduced = [*taps, *(["c"] if not depthwise else [])]
    if last:
        x = ("n", *at, *in_channels)
        w = (*weight_channels[0], *taps, *weight_channels[1])
        y = ("n", *outs, *out_channels)
    else:
        x = ("n", *in_channels, *at)
        w = (*weight_channels[0], *weight_channels[1], *taps)
        y = ("n", *out_channels, *outs)
        reduced = [*(["c"] if not depthwise else []), *taps]
    init = Read(m.filled(0.0, out_shape), y)

    def body(b: Body, given: list[str], sums: list[str]) -> Sequence[str]:
        return (b.op("arith.addf", sums[0], b.op("arith.mulf", *given)),)

    (made,) = m.generic([*y, *reduced], reduced, [Read(image, x), Read(weights, w)], [init], body)
    if grouped:
        made = m.reshaped(made, split(output.shape, axis, op.groups)[0], output.shape)
    scaled(chain, made, own["alpha"])


def scaled(chain: Chain, value: Tensor, alpha: Tensor) -> None:
    """Continues with a convolution's sums, times a scalar."""
    chain.become(value)
    chain.pointwise(lambda b, x, load: b.op("arith.mulf", x, load(alpha, ())))


def split(shape: Sequence[int], axis: int, groups: int) -> tuple[list[list[int]], tuple[int, ...]]:
    """Reassociation and shape for a dimension split into groups."""
    listed, sizes, at = [], [], 0
    for i, size in enumerate(shape):
        parts = [groups, size // groups] if i == axis else [size]
        listed.append(list(range(at, at + len(parts))))
        sizes += parts
        at += len(parts)
    return listed, tuple(sizes)


def _merge(shape: Sequence[int], dropped: int) -> list[list[int]]:
    """Reassociation that merges a dimension of size 1 with the one before it."""
    listed: list[list[int]] = []
    for i in range(len(shape)):
        if i == dropped:
            listed[-1].append(i)
        else:
            listed.append([i])
    return listed


def _pool(chain: Chain, op: ops.Pool, given: TensorSpec, own: Mapping[str, Tensor]) -> None:
    rank = len(given.spatial_axes)
    geometry = ops.Geometry.of(op, given)
    kernel, strides, padding = geometry.kernel, geometry.stride, geometry.padding
    low, high = _padding(given, padding), _padding(given, geometry.high)
    chain.flush(given.dtype)
    m = chain.module
    largest = op.mode == "max"
    start = -math.inf if largest else 0.0
    image = m.padded(chain.value, low, high, start)
    names = loops(given.rank)
    taps = [f"k{i}" for i in range(rank)]
    at = list(names)
    for i, axis in enumerate(given.spatial_axes):
        at[axis] = _position(names[axis], taps[i], strides[i], 1)
    output = op.derive(given).output
    window = m.empty(kernel)
    init = Read(m.filled(start, output.shape), tuple(names))
    name = "arith.maximumf" if largest else "arith.addf"

    def body(b: Body, values: list[str], sums: list[str]) -> Sequence[str]:
        return (b.op(name, sums[0], values[0]),)

    reads = [Read(image, tuple(at)), Read(window, tuple(taps))]
    (made,) = m.generic([*names, *taps], taps, reads, [init], body)
    chain.become(made)
    averaged(chain, op, given)


def averaged(chain: Chain, op: ops.Pool, given: TensorSpec) -> None:
    """Divides the sums of windows by the number of their elements; a maximum stays as it is."""
    if op.mode == "max":
        return
    geometry = ops.Geometry.of(op, given)
    if op.mode == "average_inclusive" or not any(geometry.padding):
        factor = 1.0 / math.prod(geometry.kernel)
        chain.pointwise(lambda b, x, load: b.op("arith.mulf", x, b.constant(factor)))
    else:
        _divide(chain, geometry, given)


def _divide(chain: Chain, geometry: ops.Geometry, given: TensorSpec) -> None:
    """Divides by the number of elements of the image in each window, computed from the indices."""
    kernel, strides, padding = geometry.kernel, geometry.stride, geometry.padding

    def step(b: Body, x: str, load: object) -> str:
        count = None
        for i, axis in enumerate(given.spatial_axes):
            out = b.line(f"linalg.index {axis} : index")
            out = b.line(f"arith.index_cast {out} : index to i32")
            begin = b.op("arith.muli", out, _integer(b, strides[i]), dtype="i32")
            begin = b.op("arith.subi", begin, _integer(b, padding[i]), dtype="i32")
            end = b.op("arith.addi", begin, _integer(b, kernel[i]), dtype="i32")
            begin = b.op("arith.maxsi", begin, _integer(b, 0), dtype="i32")
            end = b.op("arith.minsi", end, _integer(b, given.shape[axis]), dtype="i32")
            size = b.op("arith.subi", end, begin, dtype="i32")
            count = size if count is None else b.op("arith.muli", count, size, dtype="i32")
        assert count is not None
        return b.op("arith.divf", x, b.line(f"arith.sitofp {count} : i32 to f32"))

    chain.pointwise(step)


def _integer(b: Body, value: int) -> str:
    return b.line(f"arith.constant {value} : i32")


WRITERS: Mapping[str, Any] = {"conv_forward": _conv, "pool": _pool}
