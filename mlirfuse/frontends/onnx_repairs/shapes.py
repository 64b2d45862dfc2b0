"""Operators whose result's shape is an operand or decides about the form that IREE takes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mlirfuse.frontends.onnx_repairs.builder import Node
from mlirfuse.frontends.onnx_repairs.values import Unsupported, Value


def reshape(node: Node) -> Value | None:
    """A Reshape to a static shape, or in two steps.

    Where a Reshape collapses all dynamic sizes into dimension 0 and others too, as `[b, t, 2, 4]`
    to `[b * t, 8]`, IREE's importer takes one dynamic size for that of the result and the others
    for 1: a Flatten goes before it.
    """
    builder, value, target = node.builder, node.operand(0), node.operand(1)
    shape = node.result_shape()
    if target.array is None:
        if shape is None or None in shape:
            return None
        return builder.emit("Reshape", value, np.array(shape, np.int64), allowzero=int(0 in shape))
    sizes, dims = target.array.tolist(), value.sizes
    count = max((i + 1 for i, size in enumerate(dims) if size is None), default=0)
    collapses = sizes[:1] == [-1] and all(size > 0 for size in sizes[1:])
    if not collapses or dims.count(None) < 2:
        return None
    flat = builder.emit("Flatten", value, axis=count)
    flat = builder.refine(flat, (None, math.prod(size or 1 for size in dims[count:])))
    return builder.emit("Reshape", flat, target)


def expand(node: Node) -> Value:
    """An Expand to a shape that only the result's type knows."""
    shape = node.result_shape()
    if node.operand(1).array is not None or shape is None or None in shape:
        raise Unsupported("the shape is known, or is not known")
    return node.builder.emit("Expand", node.operand(0), np.array(shape, np.int64))


def view(node: Node) -> Value:
    """Squeeze or Unsqueeze along axes that only the result's type tells."""
    shape = node.result_shape()
    axes = node.input(1)
    if axes is None or axes.array is not None or shape is None or None in shape:
        raise Unsupported("the axes are known, or the shape is not")
    return node.builder.add("Reshape", node.operand(0), np.array(shape, np.int64))


def tile(node: Node) -> Value:
    """A Tile whose repeats only the result's type tells."""
    shape, value = node.result_shape(), node.operand(0)
    if node.operand(1).array is not None or shape is None or None in shape:
        raise Unsupported("the repeats are known, or the shape is not")
    repeats = [int(b or 0) // max(a, 1) for a, b in zip(value.static, shape, strict=True)]
    return node.builder.emit("Tile", value, np.array(repeats, np.int64))


def depth_to_space(node: Node) -> Value:
    """DepthToSpace to one channel: both modes are the same, of which IREE computes `DCR` right."""
    value, block = node.operand(0), node.attribute("blocksize")
    if node.attribute("mode", "DCR") != "CRD" or value.sizes[1] != block * block:
        raise Unsupported("IREE takes it")
    return node.builder.emit("DepthToSpace", value, blocksize=block, mode="DCR")


def space_to_depth(node: Node) -> Value:
    """SpaceToDepth with the channels outermost."""
    if node.attribute("mode", "DCR") != "CRD":
        raise Unsupported("IREE takes it")
    value, block = node.operand(0), node.attribute("blocksize")
    batch, channels, height, width = value.static
    parts = value.reshape([batch, channels, height // block, block, width // block, block])
    moved = parts.transpose([0, 1, 3, 5, 2, 4])
    return moved.reshape([batch, channels * block * block, height // block, width // block])


def top_k(node: Node) -> Sequence[Value | None]:
    """A TopK whose number of elements only the result's type tells."""
    value, count, shape = node.operand(0), node.operand(1), node.result_shape()
    axis = node.attribute("axis", -1)
    if count.array is not None or shape is None or shape[axis] is None:
        raise Unsupported("the number is known, or the shape is not")
    return node.again(value, node.builder.constant(np.array([shape[axis]], np.int64)))
