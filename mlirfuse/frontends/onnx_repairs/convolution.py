"""ConvTranspose and Col2Im as convolutions of a tensor with zeros between its elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mlirfuse.frontends.onnx_repairs.builder import Node
from mlirfuse.frontends.onnx_repairs.choices import by_value
from mlirfuse.frontends.onnx_repairs.values import Unsupported, Value, numpy_type


def conv_transpose(node: Node) -> Value | None:
    """ConvTranspose with explicit padding; of groups, or padded unequally, as a convolution."""
    value, weight, bias = node.operand(0), node.operand(1), node.input(2)
    sizes, kernel = value.static[2:], weight.static[2:]
    rank = len(kernel)
    strides = node.attribute("strides") or [1] * rank
    dilations = node.attribute("dilations") or [1] * rank
    extra = list(node.attribute("output_padding") or [0] * rank)
    pads = list(node.attribute("pads") or [0] * (2 * rank))
    mode = node.attribute("auto_pad", "NOTSET")
    target = node.attribute("output_shape")
    group = node.attribute("group", 1)
    if mode == "NOTSET" and not target and group == 1 and pads[:rank] == pads[rank:]:
        return None
    if mode.startswith("SAME") and not target:
        target = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    if target:
        for axis in range(rank):
            full = (sizes[axis] - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1
            total = full + extra[axis] - target[-rank:][axis]
            small, large = total // 2, total - total // 2
            first = small if mode == "SAME_UPPER" else large
            pads[axis], pads[axis + rank] = first, total - first
    elif mode == "VALID":
        pads = [0] * (2 * rank)
    return transposed(value, weight, bias, strides, dilations, pads, extra, group)


def transposed(
    value: Value,
    weight: Value,
    bias: Value | None,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
    extra: Sequence[int],
    group: int,
) -> Value:
    """A transposed convolution, as one of the mirrored kernel.

    Args:
      value: batch, channels, spatial axes.
      weight: channels, filters of a group, kernel.
      bias: of each filter.
      strides: zeros between elements, plus one.
      dilations: between elements of the kernel.
      pads: elements left out before each axis, then after each.
      extra: elements added after each axis.
      group: number of groups.
    """
    builder = value.builder
    channels, filters, *kernel = weight.static
    rank = len(kernel)
    sizes = value.static[2:]
    for axis in range(rank):
        position, stride = axis + 2, strides[axis]
        if stride > 1:
            shape = list(value.static)
            spread = value.unsqueeze(position + 1).pad(position + 1, 0, stride - 1)
            shape[position] *= stride
            end = (sizes[axis] - 1) * stride + 1
            value = spread.reshape(shape).slice(position, 0, end)
        reach = (kernel[axis] - 1) * dilations[axis]
        before = reach - pads[axis]
        after = reach - pads[axis + rank] + extra[axis]
        count = value.static[position]
        value = value.slice(position, max(0, -before), count - max(0, -after))
        value = value.pad(position, max(0, before), max(0, after))
    grouped = weight.reshape([group, channels // group, filters, *kernel])
    order = [0, 2, 1, *range(3, rank + 3)]
    turned = grouped.transpose(order).reshape([group * filters, channels // group, *kernel])
    for axis in range(rank):
        if kernel[axis] > 1:
            turned = turned.take(np.arange(kernel[axis])[::-1].copy(), axis + 2)
    operands = [value, turned] if bias is None else [value, turned, bias]
    return builder.add("Conv", *operands, dilations=list(dilations), group=group)


def col2im(node: Node) -> Value:
    """Sums of the columns at their places: a transposed convolution with an identity kernel."""
    value, block = node.operand(0), node.operand(2)
    shape = node.result_shape()
    if shape is None or None in shape:
        raise Unsupported("the image has a dynamic size")
    batch, channels, *sizes = (int(size or 0) for size in shape)
    rank = len(sizes)
    elements = value.static[1] // channels
    strides = node.attribute("strides") or [1] * rank
    dilations = node.attribute("dilations") or [1] * rank
    pads = node.attribute("pads") or [0] * (2 * rank)

    def counts(kernel: Sequence[int]) -> list[int]:
        return [
            (size + pads[i] + pads[i + rank] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
            for i, size in enumerate(sizes)
        ]

    def build(kernel: np.ndarray) -> Value:
        blocks = [int(size) for size in kernel]
        columns = value.reshape([batch * channels, elements, *counts(blocks)])
        eye = np.eye(elements, dtype=numpy_type(value.dtype))
        weight = value.builder.constant(eye.reshape(elements, 1, elements))
        # One filter for each element of the kernel: the identity, as an image.
        kernels = weight.reshape([elements, 1, *blocks])
        rest = [
            size + pads[i] + pads[i + rank] - ((n - 1) * strides[i] + (k - 1) * dilations[i] + 1)
            for i, (size, n, k) in enumerate(zip(sizes, counts(blocks), blocks, strict=True))
        ]
        image = transposed(columns, kernels, None, strides, dilations, pads, rest, 1)
        return image.reshape([batch, channels, *sizes])

    candidates = [
        np.array(kernel)
        for kernel in _factorizations(elements, rank)
        if math.prod(counts(kernel)) == value.static[2] and min(counts(kernel)) > 0
    ]
    return by_value(block, candidates, build)


def _factorizations(number: int, count: int) -> list[tuple[int, ...]]:
    """All products of `count` factors that are a number."""
    if count == 1:
        return [(number,)]
    return [
        (factor, *rest)
        for factor in range(1, number + 1)
        if number % factor == 0
        for rest in _factorizations(number // factor, count - 1)
    ]
