"""Reductions and scans along axes: axes that an operand holds, and products."""

from __future__ import annotations

import itertools

import numpy as np

from mlirfuse.frontends.onnx_repairs.builder import Node
from mlirfuse.frontends.onnx_repairs.choices import over_axes
from mlirfuse.frontends.onnx_repairs.values import Unsupported, Value

_LISTED_AXES = 13
"""Operator set in which ReduceSum takes its axes as an operand; 18 in other reductions."""


def reduction(node: Node) -> Value | None:
    """A reduction over constant axes, of the operators that IREE has."""
    value, axes = node.operand(0), node.input(1)
    keep = bool(node.attribute("keepdims", 1))
    listed = node.attribute("axes")
    rank, opset = value.rank, node.builder.opset
    if axes is None or axes.array is not None:
        known = None if axes is None else axes.array
        given = listed if known is None else [int(axis) for axis in known]
        if not given:
            if node.attribute("noop_with_empty_axes", 0):
                return _each(node.kind, value)
            given = range(rank)
        return _reduced(node.kind, value, tuple(sorted(axis % rank for axis in given)), keep, opset)
    (count,) = axes.static
    expected = node.result_shape()
    candidates = [
        choice
        for choice in itertools.combinations(range(rank), count)
        if expected is None or _fits(value.sizes, choice, keep, expected)
    ]
    return over_axes(
        axes, rank, candidates, lambda chosen: _reduced(node.kind, value, chosen, keep, opset)
    )


def _fits(
    sizes: tuple[int | None, ...],
    axes: tuple[int, ...],
    keep: bool,
    expected: tuple[int | None, ...],
) -> bool:
    """Whether a reduction over axes has the expected shape."""
    found = [
        1 if axis in axes else size for axis, size in enumerate(sizes) if keep or axis not in axes
    ]
    return len(found) == len(expected) and all(
        a is None or b is None or a == b for a, b in zip(found, expected, strict=True)
    )


def _each(kind: str, value: Value) -> Value:
    """The reduction of each element alone."""
    if kind == "ReduceL1" or kind == "ReduceL2":
        return abs(value)
    if kind == "ReduceSumSquare":
        return value * value
    if kind == "ReduceLogSum":
        return value.builder.add("Log", value)
    return value


def _reduced(kind: str, value: Value, axes: tuple[int, ...], keep: bool, opset: int) -> Value:
    """A reduction over constant axes."""
    builder = value.builder
    result: Value
    if kind == "ReduceL1":
        return _reduced("ReduceSum", abs(value), axes, keep, opset)
    if kind == "ReduceSumSquare":
        return _reduced("ReduceSum", value * value, axes, keep, opset)
    if kind == "ReduceL2":
        result = builder.add("Sqrt", _reduced("ReduceSumSquare", value, axes, keep, opset))
        return result
    if kind == "ReduceLogSum":
        result = builder.add("Log", _reduced("ReduceSum", value, axes, keep, opset))
        return result
    if kind == "ReduceLogSumExp":
        highest = _reduced("ReduceMax", value, axes, True, opset)
        infinite = abs(highest).equals(float("inf"))
        highest = infinite.where(highest.lifted(0.0), highest)
        summed = _reduced("ReduceSum", builder.add("Exp", value - highest), axes, keep, opset)
        return builder.add("Log", summed) + (highest if keep else highest.squeeze(*axes))
    if not axes:
        return value
    if opset >= (_LISTED_AXES if kind == "ReduceSum" else 18):
        return builder.emit(kind, value, np.array(axes, np.int64), keepdims=int(keep))
    return builder.emit(kind, value, axes=list(axes), keepdims=int(keep))


def scan(node: Node) -> Value:
    """A cumulative sum or product along an axis."""
    value, axis = node.operand(0), node.operand(1)
    exclusive, reverse = node.attribute("exclusive", 0), node.attribute("reverse", 0)
    if node.kind == "CumSum" and axis.array is not None:
        raise Unsupported("IREE takes a constant axis")

    def build(axes: tuple[int, ...]) -> Value:
        if node.kind == "CumSum":
            chosen = node.builder.constant(np.array(axes[0], np.int64))
            (result,) = node.again(value, chosen)
            assert result is not None
            return result
        return _product(value, axes[0], exclusive=bool(exclusive), reverse=bool(reverse))

    return over_axes(axis, value.rank, [(i,) for i in range(value.rank)], build)


def _product(value: Value, axis: int, *, exclusive: bool, reverse: bool) -> Value:
    """Products of all elements up to each, in log2(size) steps."""
    size = value.sizes[axis]
    if size is None:
        raise Unsupported("the axis is dynamic")

    # Elements beyond the end are 1: gathered and masked, since IREE 3.13 does not compile a chain
    # of slices and pads.
    tail = [1] * (value.rank - axis % value.rank - 1)

    def shifted(tensor: Value, count: int) -> Value:
        index = np.arange(size) + (count if reverse else -count)
        inside = ((index >= 0) & (index < size)).reshape(-1, *tail)
        moved = tensor.take(index.clip(0, size - 1), axis)
        return value.builder.constant(inside).where(moved, tensor.lifted(1))

    if exclusive:
        value = shifted(value, 1)
    step = 1
    while step < size:
        value = value * shifted(value, step)
        step *= 2
    return value
