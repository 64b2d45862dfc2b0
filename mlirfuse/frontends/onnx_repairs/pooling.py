"""Pooling with explicit padding: ceil_mode, auto_pad, dilations, indices of the maxima."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from mlirfuse.frontends.onnx_repairs.builder import Node
from mlirfuse.frontends.onnx_repairs.values import Unsupported, Value, numpy_type


@dataclasses.dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a pooling operator along its spatial axes.

    Attributes:
      sizes: of the operand.
      kernel: sizes of a window.
      strides: between windows.
      dilations: between elements of a window.
      before: padding that the operator states, before each axis.
      after: padding that the operator states, after each axis.
      out: number of windows.
    """

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    out: tuple[int, ...]

    @property
    def extra(self) -> tuple[int, ...]:
        """Padding after each axis so that all windows lie in the padded operand."""
        return tuple(
            max(0, (o - 1) * s + (k - 1) * d + 1 - n - b)
            for n, k, s, d, b, o in zip(
                self.sizes,
                self.kernel,
                self.strides,
                self.dilations,
                self.before,
                self.out,
                strict=True,
            )
        )

    def index(self, axis: int) -> np.ndarray:
        """Places in the unpadded operand: one row for each window, a column for each element."""
        starts = np.arange(self.out[axis]) * self.strides[axis] - self.before[axis]
        steps = np.arange(self.kernel[axis]) * self.dilations[axis]
        return starts[:, None] + steps[None, :]


def windows(node: Node, value: Value, kernel: Sequence[int]) -> Windows:
    """The windows that an operator's attributes state."""
    sizes = value.static[2:]
    rank = len(sizes)
    strides = tuple(node.attribute("strides") or [1] * rank)
    dilations = tuple(node.attribute("dilations") or [1] * rank)
    pads = list(node.attribute("pads") or [0] * (2 * rank))
    mode = node.attribute("auto_pad", "NOTSET")
    ceil = bool(node.attribute("ceil_mode", 0))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    out = []
    for axis, (size, span, stride) in enumerate(zip(sizes, spans, strides, strict=True)):
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            count = -(-size // stride)
            total = max(0, (count - 1) * stride + span - size)
            small, large = total // 2, total - total // 2
            pads[axis], pads[axis + rank] = (
                (small, large) if mode == "SAME_UPPER" else (large, small)
            )
        else:
            if mode == "VALID":
                pads[axis] = pads[axis + rank] = 0
            room = size + pads[axis] + pads[axis + rank] - span
            count = (-(-room // stride) if ceil else room // stride) + 1
            # A window that begins in the padding after the operand does not count.
            if ceil and (count - 1) * stride >= size + pads[axis]:
                count -= 1
        out.append(count)
    return Windows(
        sizes, tuple(kernel), strides, dilations, tuple(pads[:rank]), tuple(pads[rank:]), tuple(out)
    )


def _is_plain(node: Node, found: Windows) -> bool:
    """Whether IREE takes the operator as it is."""
    return (
        node.attribute("auto_pad", "NOTSET") in ("NOTSET", "VALID")
        and not node.attribute("ceil_mode", 0)
        and all(d == 1 for d in found.dilations)
        and found.before == found.after
    )


def _padded(value: Value, found: Windows, fill: float) -> Value:
    """The operand with its padding as elements."""
    pads = np.zeros(2 * value.rank, np.int64)
    pads[2 : value.rank] = found.before
    pads[value.rank + 2 :] = found.extra
    if not pads.any():
        return value
    return value.builder.add("Pad", value, pads, value.lifted(fill))


def _elements(value: Value, found: Windows) -> list[Value]:
    """For each element of a window, that element of all windows; the operand is padded."""
    parts = []
    for steps in itertools.product(*map(range, found.kernel)):
        part = value
        for axis, step in enumerate(steps):
            start = step * found.dilations[axis]
            end = start + (found.out[axis] - 1) * found.strides[axis] + 1
            part = part.slice(axis + 2, start, end, found.strides[axis])
        parts.append(part)
    return parts


def _sums(value: Value, found: Windows) -> Value:
    """Sums over the windows of a padded operand."""
    if all(d == 1 for d in found.dilations):
        mean: Value = value.builder.emit(
            "AveragePool", value, kernel_shape=found.kernel, strides=found.strides
        )
        return mean * float(math.prod(found.kernel))
    parts = _elements(value, found)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def average_pool(node: Node) -> Value:
    """Sums over windows of the padded operand, divided by the number of counted elements."""
    value = node.operand(0)
    found = windows(node, value, node.attribute("kernel_shape"))
    if _is_plain(node, found):
        raise Unsupported("IREE takes it")
    count = np.ones((), np.float64)
    for axis, size in enumerate(found.sizes):
        index = found.index(axis)
        low, high = 0, size
        if node.attribute("count_include_pad", 0):
            low, high = -found.before[axis], size + found.after[axis]
        inside = ((index >= low) & (index < high)).sum(1)
        count = count[..., None] * inside
    total = _sums(_padded(value, found, 0), found)
    return total * (1 / np.maximum(count, 1)).astype(numpy_type(value.dtype))


def lp_pool(node: Node) -> Value:
    """The p-norm of the windows."""
    value = node.operand(0)
    found = windows(node, value, node.attribute("kernel_shape"))
    power = float(node.attribute("p", 2))
    powers = node.builder.add("Pow", abs(value), value.lifted(power))
    total = _sums(_padded(powers, found, 0), found)
    return node.builder.add("Pow", total, total.lifted(1 / power))


def max_pool(node: Node) -> list[Value | None] | None:
    """Maxima over windows of the padded operand, and their places."""
    value, dtype = node.operand(0), node.operand(0).dtype
    found = windows(node, value, node.attribute("kernel_shape"))
    wants = node.wants(1)
    integers = dtype in (TensorProto.INT8, TensorProto.UINT8)
    if integers:
        # Exact, and IREE pads float16 with -inf.
        value = value.cast(TensorProto.FLOAT)
    simple = _is_plain(node, found)
    if simple and not wants and not integers:
        return None
    fill = float(np.finfo(np.float32).min) if integers else float("-inf")
    padded = value if simple and not wants else _padded(value, found, fill)
    if not wants:
        pads = [*found.before, *found.after] if simple else [0] * (2 * len(found.kernel))
        highest = node.builder.emit(
            "MaxPool",
            padded,
            kernel_shape=found.kernel,
            strides=found.strides,
            dilations=found.dilations,
            pads=pads,
        )
        return [highest.cast(dtype)]
    parts = _elements(padded, found)
    highest = parts[0]
    for part in parts[1:]:
        highest = node.builder.add("Max", highest, part)
    return [highest.cast(dtype), _places(node, found, value, parts, highest)]


def _places(
    node: Node, found: Windows, value: Value, parts: Sequence[Value], highest: Value
) -> Value:
    """Places of the first maxima, counted over the whole operand."""
    column_major = bool(node.attribute("storage_order", 0))
    strides = [math.prod(found.sizes[i + 1 :]) for i in range(len(found.sizes))]
    if column_major:
        strides = [math.prod(found.sizes[:i]) for i in range(len(found.sizes))]
    place: Value | None = None
    combinations = list(itertools.product(*map(range, found.kernel)))
    for steps, part in reversed(list(zip(combinations, parts, strict=True))):
        at = np.zeros((), np.int64)
        for axis, step in enumerate(steps):
            at = at[..., None] + found.index(axis)[:, step] * strides[axis]
        here = value.builder.constant(at).expand(part.static)
        place = here if place is None else part.equals(highest).where(here, place)
    assert place is not None
    batch, channels = value.static[:2]
    image = np.arange(batch * channels).reshape(batch, channels, *[1] * len(found.sizes))
    return place + image * math.prod(found.sizes)


def max_unpool(node: Node) -> Value:
    """Zeros with the elements at the given places."""
    value, index = node.operand(0), node.operand(1)
    shape = node.result_shape()
    if shape is None or None in shape:
        raise Unsupported("the result has a dynamic size")
    sizes = [int(size or 0) for size in shape]
    given = list(value.static[:2])
    kernel = node.attribute("kernel_shape")
    strides = node.attribute("strides") or [1] * len(kernel)
    pads = node.attribute("pads") or [0] * (2 * len(kernel))
    natural = [
        (n - 1) * s + k - pads[i] - pads[i + len(kernel)]
        for i, (n, s, k) in enumerate(zip(value.static[2:], strides, kernel, strict=True))
    ]
    # Places count over the tensor without `output_shape`; its elements lie in front.
    count = math.prod(given) * math.prod(natural)
    zeros = value.builder.constant(np.zeros((), numpy_type(value.dtype))).expand([count])
    flat: Value = value.builder.add(
        "ScatterElements", zeros, index.reshape([-1]), value.reshape([-1]), axis=0
    )
    result = flat.reshape([*given, *natural])
    for axis, (size, found) in enumerate(zip(sizes[2:], natural, strict=True)):
        result = result.pad(axis + 2, 0, size - found)
    return result
