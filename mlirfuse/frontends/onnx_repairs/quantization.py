"""QuantizeLinear, DequantizeLinear and the operators on quantized tensors as arithmetic."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from mlirfuse.frontends.onnx_repairs.builder import Node
from mlirfuse.frontends.onnx_repairs.values import FLOATS, HALVES, Unsupported, Value, numpy_type

_PLAIN = (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32)
"""Quantized types of which IREE takes the plain operators."""


def _is_plain(node: Node, quantized: int, scale: Value) -> bool:
    return (
        quantized in _PLAIN
        and scale.dtype == TensorProto.FLOAT
        and scale.rank < 2
        and not node.attribute("block_size", 0)
    )


def _along(node: Node, value: Value, parameter: Value) -> Value:
    """A scale or zero point, broadcast to the tensor: for all, along an axis, or by blocks."""
    if parameter.rank == 0 or parameter.static == (1,):
        return parameter.reshape([])
    axis = node.attribute("axis", 1) % value.rank
    if parameter.rank == 1:
        return parameter.reshape([-1, *[1] * (value.rank - axis - 1)])
    block = node.attribute("block_size", 0)
    index = np.arange(value.static[axis]) // block
    return parameter.take(index, axis)


def dequantize_linear(node: Node) -> Value:
    """(x - zero) * scale."""
    value, scale, zero = node.operand(0), node.operand(1), node.input(2)
    if _is_plain(node, value.dtype, scale):
        raise Unsupported("IREE takes it")
    dtype = node.attribute("output_dtype", 0) or scale.dtype
    wide = value.cast(TensorProto.FLOAT)
    if zero is not None:
        wide = wide - _along(node, value, zero.cast(TensorProto.FLOAT))
    return (wide * _along(node, value, scale.cast(TensorProto.FLOAT))).cast(dtype)


def quantize_linear(node: Node) -> Value:
    """Saturate(round(x / scale) + zero), where the scale is not one float32 per tensor."""
    value, scale, zero = node.operand(0), node.operand(1), node.input(2)
    if zero is not None:
        target = zero.dtype
    else:
        target = node.attribute("output_dtype", 0) or TensorProto.UINT8
    if _is_plain(node, target, scale) and value.dtype == TensorProto.FLOAT:
        raise Unsupported("IREE takes it")
    precision = node.attribute("precision", 0) or scale.dtype
    wide = value.cast(TensorProto.FLOAT) / _along(node, value, scale.cast(TensorProto.FLOAT))
    if precision in HALVES:
        wide = wide.cast(precision).cast(TensorProto.FLOAT)
    offset = None if zero is None else _along(node, value, zero.cast(TensorProto.FLOAT))
    if target in FLOATS or not _integer_range(target):
        wide = wide if offset is None else wide + offset
        return node.builder.add("Cast", wide, to=target, saturate=node.attribute("saturate", 1))
    return saturated(wide, offset, target)


def saturated(value: Value, zero: Value | None, target: int) -> Value:
    """Float32 rounded to even, moved by the zero point, and clamped to an integer type."""
    builder = value.builder
    rounded = builder.add("Round", value)
    rounded = rounded if zero is None else rounded + zero
    low, high = _integer_range(target)
    raised = builder.add("Max", rounded, rounded.lifted(low))
    clamped: Value = builder.add("Min", raised, rounded.lifted(high))
    return clamped.cast(target)


def _integer_range(dtype: int) -> tuple[float, ...]:
    import ml_dtypes

    try:
        limits = ml_dtypes.iinfo(numpy_type(dtype))
    except ValueError:
        return ()
    return float(limits.min), float(limits.max)


def qlinear_matmul(node: Node) -> Value:
    """The product of the dequantized matrices, quantized."""
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (node.operand(i) for i in range(8))
    left = a.cast(TensorProto.INT32) - _rows(a_zero.cast(TensorProto.INT32))
    right = b.cast(TensorProto.INT32) - b_zero.cast(TensorProto.INT32)
    total = (left @ right).cast(TensorProto.FLOAT)
    factors = _rows(a_scale.cast(TensorProto.FLOAT)) * b_scale.cast(TensorProto.FLOAT)
    wide = total * (factors / _rows(scale.cast(TensorProto.FLOAT)))
    return saturated(wide, _rows(zero.cast(TensorProto.FLOAT)), zero.dtype)


def _rows(parameter: Value) -> Value:
    """A parameter of each row as a column."""
    if parameter.rank == 1 and parameter.static != (1,):
        return parameter.unsqueeze(1)
    return parameter.reshape([]) if parameter.rank == 1 else parameter


def conv_integer(node: Node) -> Value:
    """A padded ConvInteger: the padding is the zero point."""
    value, weight, zero, weight_zero = (node.input(i) for i in range(4))
    pads = node.attribute("pads")
    if value is None or weight is None or not pads or not any(pads):
        raise Unsupported("no padding")
    wide = value.cast(TensorProto.INT32)
    if zero is not None:
        wide = wide - zero.cast(TensorProto.INT32).reshape([])
    kernel = weight.cast(TensorProto.INT32)
    if weight_zero is not None:
        offset = weight_zero.cast(TensorProto.INT32)
        offset = offset.reshape([-1, *[1] * (weight.rank - 1)]) if offset.rank else offset
        kernel = kernel - offset
    count = weight.rank - 2
    for axis in range(count):
        wide = wide.pad(axis + 2, pads[axis], pads[axis + count])
    kept = ("dilations", "group", "kernel_shape", "strides")
    attributes = {name: node.attribute(name) for name in kept if node.attribute(name)}
    # Exact: sums of products of 8 bits stay below 2 ** 53.
    result: Value = node.builder.add(
        "Conv", wide.cast(TensorProto.DOUBLE), kernel.cast(TensorProto.DOUBLE), **attributes
    )
    return result.cast(TensorProto.INT32)


def matmul_integer(node: Node) -> Value:
    """A MatMulInteger of unsigned bytes has zero points: without them IREE takes it as signed."""
    one, other = node.operand(0), node.operand(1)
    has_zero = node.input(2) is not None or node.input(3) is not None
    if has_zero or (one.dtype, other.dtype) != (TensorProto.UINT8, TensorProto.UINT8):
        raise Unsupported("IREE takes it")
    zero = node.builder.constant(np.zeros((), np.uint8))
    return node.builder.add("MatMulInteger", one, other, zero, zero)
