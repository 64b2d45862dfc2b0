"""Windows over images whose sizes are not known: padding that is computed by the program.

IREE's importer needs the sizes for `auto_pad`, and pads one side of a pooling as the other.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from mlirfuse.frontends.onnx_repairs.builder import Node
from mlirfuse.frontends.onnx_repairs.sizes import numbers, size_of
from mlirfuse.frontends.onnx_repairs.values import Unsupported, Value

_SAME = ("SAME_UPPER", "SAME_LOWER")


@dataclasses.dataclass(frozen=True, slots=True)
class _Padding:
    """Padding of the spatial axes of an operand.

    Attributes:
      sizes: of the axes of the operand, a vector.
      before: padding before each.
      stated: padding after each, that the operator states.
      after: padding after each, so that all windows lie in the padded operand.
    """

    sizes: Value
    before: Value
    stated: Value
    after: Value

    def apply(self, value: Value, fill: float) -> Value:
        """The operand with its padding as elements."""
        builder, zeros = value.builder, value.builder.constant(np.zeros(2, np.int64))
        pads = builder.add("Concat", zeros, self.before, zeros, self.after, axis=0)
        return builder.add("Pad", value, pads, value.lifted(fill))


def _is_open(value: Value) -> bool:
    """Whether a size of the images is not known."""
    return None in value.sizes[2:]


def _padding(node: Node, value: Value, kernel: list[int]) -> _Padding:
    rank = len(kernel)
    ones = [1] * rank
    stride = np.array(node.attribute("strides") or ones, np.int64)
    dilation = np.array(node.attribute("dilations") or ones, np.int64)
    pads = np.array(node.attribute("pads") or [0, 0] * rank, np.int64)
    span = (np.array(kernel, np.int64) - 1) * dilation + 1
    mode = node.attribute("auto_pad", "NOTSET")
    sizes: Value = value.builder.add("Shape", value, start=2)
    zero = np.zeros(rank, np.int64)
    if mode in _SAME:
        count = (sizes + (stride - 1)) / stride
        total = value.builder.add("Max", (count - 1) * stride + span - sizes, sizes.lifted(zero))
        small = total / 2
        large = total - small
        before, after = (small, large) if mode == "SAME_UPPER" else (large, small)
        return _Padding(sizes, before, after, after)
    before, after = (
        value.builder.constant(zero if mode == "VALID" else p) for p in (pads[:rank], pads[rank:])
    )
    if not node.attribute("ceil_mode", 0):
        return _Padding(sizes, before, after, after)
    count = (sizes + before + after - span + (stride - 1)) / stride + 1
    # A window that begins in the padding after the operand does not count.
    late = ((count - 1) * stride >= sizes + before).cast(sizes.dtype)
    needed = (count - late - 1) * stride + span - sizes - before
    return _Padding(sizes, before, after, value.builder.add("Max", needed, sizes.lifted(zero)))


def convolution(node: Node) -> Value | None:
    """Conv with `auto_pad`, as one of the padded image."""
    value, weight = node.operand(0), node.operand(1)
    if not _is_open(value) or node.attribute("auto_pad", "NOTSET") not in _SAME:
        return None
    padded = _padding(node, value, list(weight.static[2:])).apply(value, 0)
    kept = node.stated("strides", "dilations", "group")
    return node.builder.emit("Conv", padded, *node.inputs[1:], **kept)


def _unpadded(node: Node, kind: str, value: Value) -> Value:
    """A pooling of an operand that has its padding."""
    return node.builder.emit(kind, value, **node.stated("kernel_shape", "strides", "dilations"))


def _is_plain(node: Node) -> bool:
    """Whether IREE takes a pooling as it is."""
    pads = node.attribute("pads") or []
    half = len(pads) // 2
    return (
        node.attribute("auto_pad", "NOTSET") in ("NOTSET", "VALID")
        and not node.attribute("ceil_mode", 0)
        and pads[:half] == pads[half:]
    )


def max_pool(node: Node) -> Value | None:
    """Maxima over windows of the padded operand."""
    value = node.operand(0)
    if not _is_open(value) or _is_plain(node):
        return None
    if node.wants(1):
        raise Unsupported("places in an image of unknown sizes")
    padding = _padding(node, value, node.attribute("kernel_shape"))
    return _unpadded(node, "MaxPool", padding.apply(value, float("-inf")))


def average_pool(node: Node) -> Value | None:
    """Means over windows of the padded operand, by the number of their elements that count."""
    value = node.operand(0)
    if not _is_open(value) or _is_plain(node):
        return None
    kernel = node.attribute("kernel_shape")
    if any(step != 1 for step in node.attribute("dilations") or ()):
        raise Unsupported("dilations of an image of unknown sizes")
    padding = _padding(node, value, kernel)
    mean = _unpadded(node, "AveragePool", padding.apply(value, 0))
    strides = node.attribute("strides") or [1] * len(kernel)
    for axis, (size, stride) in enumerate(zip(kernel, strides, strict=True)):
        counted = _counted(node, padding, mean, axis, size, stride).cast(value.dtype)
        behind = len(kernel) - 1 - axis
        mean = mean * (
            float(size) / (counted.unsqueeze(*range(1, behind + 1)) if behind else counted)
        )
    return mean


def _counted(
    node: Node, padding: _Padding, windows: Value, axis: int, kernel: int, stride: int
) -> Value:
    """For each window along an axis, its elements that count."""
    builder = node.builder

    def of_axis(vector: Value) -> Value:
        return vector.take(axis, 0)

    number = numbers(size_of(windows, axis + 2))
    before, size = of_axis(padding.before), of_axis(padding.sizes)
    start = number * stride - before
    low, high = size * 0, size
    if node.attribute("count_include_pad", 0):
        low, high = low - before, high + of_axis(padding.stated)
    end = builder.add("Min", start + kernel, high)
    return end - builder.add("Max", start, low)
