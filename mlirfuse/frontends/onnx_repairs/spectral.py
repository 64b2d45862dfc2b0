"""Fourier transforms as products with matrices of cosines and sines."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from mlirfuse.frontends.onnx_repairs.builder import Node
from mlirfuse.frontends.onnx_repairs.choices import by_value, over_axes
from mlirfuse.frontends.onnx_repairs.values import Unsupported, Value, numpy_type

DIRECT = 512
"""Longest transform that is one product; longer ones of composite length are split."""


def dft(node: Node) -> Value:
    """DFT: real and complex, forward and inverse, onesided, of a given length."""
    value, length = node.operand(0), node.input(1)
    inverse = bool(node.attribute("inverse", 0))
    onesided = bool(node.attribute("onesided", 0))
    shape = node.result_shape()
    # Since operator set 20, the axis is an operand.
    axis_value = node.input(2)
    builder = node.builder
    if axis_value is None:
        axis = node.attribute("axis", 1) if builder.opset < 20 else -2
        axis_value = builder.constant(np.array(axis, np.int64))

    def build(axes: tuple[int, ...]) -> Value:
        axis = axes[0]
        size = value.static[axis]
        count = size
        if length is not None:
            if length.array is not None:
                count = int(length.array)
            elif shape is not None and shape[axis] is not None and not (onesided or inverse):
                count = int(shape[axis] or 0)
            else:
                raise Unsupported("the length is not known")
        elif onesided and inverse:
            count = 2 * (size - 1)
        return _transform(value, axis, count, inverse=inverse, onesided=onesided)

    candidates = [
        (axis,)
        for axis in range(value.rank - 1)
        if shape is None
        or all(
            a is None or b is None or a == b
            for i, (a, b) in enumerate(zip(value.sizes[:-1], shape[:-1], strict=True))
            if i != axis
        )
    ]
    return over_axes(axis_value, value.rank, candidates, build)


def _transform(value: Value, axis: int, count: int, *, inverse: bool, onesided: bool) -> Value:
    """A transform of `count` elements of an axis; the last axis holds real and imaginary parts."""
    dtype = value.dtype
    if dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        value = value.cast(TensorProto.FLOAT)
    size, parts = value.static[axis], value.static[-1]
    rank = value.rank
    real = value.take(0, rank - 1)
    imaginary = value.take(1, rank - 1) if parts == 2 else None
    if inverse and onesided and imaginary is not None:
        # The other half is the mirrored conjugate.
        mirror = np.arange(count // 2 - 1 + count % 2, 0, -1)
        real = _joined(real, real.take(mirror, axis), axis)
        imaginary = _joined(imaginary, -imaginary.take(mirror, axis), axis)
        size = count
    order = [i for i in range(rank - 1) if i != axis] + [axis]
    back = [order.index(i) for i in range(rank - 1)]

    def last(tensor: Value) -> Value:
        if size > count:
            tensor = tensor.slice(axis, 0, count)
        return tensor.pad(axis, 0, max(count - size, 0)).transpose(order)

    results = _fourier(
        last(real), None if imaginary is None else last(imaginary), count, inverse=inverse
    )
    if onesided and not inverse:
        kept = count // 2 + 1
        results = tuple(part.slice(rank - 2, 0, kept) for part in results)
    if inverse:
        results = tuple(part / float(count) for part in results)
    if inverse and onesided:
        results = results[:1]
    stacked = [part.transpose(back).unsqueeze(-1) for part in results]
    whole = stacked[0] if len(stacked) == 1 else _joined(stacked[0], stacked[1], rank - 1)
    return whole.cast(dtype)


def _joined(left: Value, right: Value, axis: int) -> Value:
    return left.builder.add("Concat", left, right, axis=axis)


def _fourier(
    real: Value, imaginary: Value | None, count: int, *, inverse: bool
) -> tuple[Value, ...]:
    """The transform along the last axis, not normalized."""
    factor = _factor(count) if count > DIRECT else count
    if factor == count:
        return _product(
            real, imaginary, np.outer(np.arange(count), np.arange(count)) / count, inverse
        )
    # Cooley-Tukey: columns of length `factor`, twiddles, rows of length `rest`.
    rest = count // factor
    lead = list(real.static[:-1])

    def split(tensor: Value) -> Value:
        axes = list(range(len(lead)))
        wide = tensor.reshape([*lead, factor, rest])
        return wide.transpose([*axes, len(lead) + 1, len(lead)])

    columns = _fourier(
        split(real), None if imaginary is None else split(imaginary), factor, inverse=inverse
    )
    angles = np.outer(np.arange(rest), np.arange(factor)) / count
    cosines, sines = _waves(columns[0], angles, inverse)
    turned = (
        columns[0] * cosines - columns[1] * sines,
        columns[0] * sines + columns[1] * cosines,
    )
    swap = [*range(len(lead)), len(lead) + 1, len(lead)]
    rows = _fourier(turned[0].transpose(swap), turned[1].transpose(swap), rest, inverse=inverse)
    return tuple(part.transpose(swap).reshape([*lead, count]) for part in rows)


def _factor(count: int) -> int:
    """The largest factor up to the square root; the number itself if it is prime."""
    root = int(count**0.5)
    return next((f for f in range(root, 1, -1) if count % f == 0), count)


def _waves(like: Value, turns: np.ndarray, inverse: bool) -> tuple[Value, Value]:
    """Cosines and sines of angles in turns, in the element type of a value."""
    kind = numpy_type(like.dtype)
    angles = 2 * np.pi * (turns % 1.0) * (1 if inverse else -1)
    builder = like.builder
    return builder.constant(np.cos(angles).astype(kind)), builder.constant(
        np.sin(angles).astype(kind)
    )


def _product(
    real: Value, imaginary: Value | None, turns: np.ndarray, inverse: bool
) -> tuple[Value, ...]:
    cosines, sines = _waves(real, turns, inverse)
    if imaginary is None:
        return real @ cosines, real @ sines
    return (
        real @ cosines - imaginary @ sines,
        real @ sines + imaginary @ cosines,
    )


def stft(node: Node) -> Value:
    """STFT: frames, windowed, transformed."""
    signal, step, window, length = (node.input(i) for i in range(4))
    shape = node.result_shape()
    if signal is None or step is None or shape is None or None in shape:
        raise Unsupported("a dynamic size")
    onesided = bool(node.attribute("onesided", 1))
    builder = node.builder
    frames = int(shape[1] or 0)

    def framed(count: int) -> Value:
        starts = builder.constant(np.arange(frames, dtype=np.int64)) * step.cast(
            TensorProto.INT64
        ).reshape([])
        index = starts.unsqueeze(1) + np.arange(count)
        value = signal if signal.rank == 3 else signal.unsqueeze(2)
        last = value.static[1] - 1
        index = (index > last).where(index.lifted(last), index)
        frame = value.take(index, 1)
        if window is not None:
            frame = frame * window.reshape([1, 1, count, 1])
        return _transform(frame, 2, count, inverse=False, onesided=onesided)

    if window is not None:
        count = window.static[0]
    else:
        if length is None:
            raise Unsupported("a frame has no length")
        bins = int(shape[2] or 0)
        lengths = [2 * bins - 2, 2 * bins - 1] if onesided else [bins]
        sizes = [np.array([count]) for count in lengths]
        return by_value(length.reshape([1]), sizes, lambda size: framed(int(size[0])))
    return framed(count)
