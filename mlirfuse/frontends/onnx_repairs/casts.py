"""Casts that IREE 3.13 has no lowering for: to unsigned integers, 8 bits of float, and less.

Integers and floats of 2 and 4 bits, and the exponents of 8 bits, are stored as numpy stores them:
one element in the lowest bits of each byte. IREE's own form of such tensors is packed, and it has
none for odd numbers of elements, nor for some of the types.
"""

from __future__ import annotations

import functools

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from mlirfuse.frontends.onnx_repairs.builder import Node
from mlirfuse.frontends.onnx_repairs.values import Unsupported, Value, numpy_type

FLOAT8 = (
    TensorProto.FLOAT8E4M3FN,
    TensorProto.FLOAT8E4M3FNUZ,
    TensorProto.FLOAT8E5M2,
    TensorProto.FLOAT8E5M2FNUZ,
)

_INTEGERS = {
    TensorProto.INT2: 2,
    TensorProto.UINT2: 2,
    TensorProto.INT4: 4,
    TensorProto.UINT4: 4,
}
"""Integers that are stored in bytes -> their bits."""

STORED = {
    TensorProto.INT2: "i2",
    TensorProto.UINT2: "ui2",
    TensorProto.INT4: "i4",
    TensorProto.UINT4: "ui4",
    TensorProto.FLOAT4E2M1: "f4E2M1FN",
    TensorProto.FLOAT8E8M0: "f8E8M0FNU",
}
"""Element types that are stored as bytes -> MLIR's spelling."""

_SIGNED = {
    TensorProto.UINT16: TensorProto.INT16,
    TensorProto.UINT32: TensorProto.INT32,
    TensorProto.UINT64: TensorProto.INT64,
}

_F4_STEPS = (
    (0.25, False),
    (0.75, True),
    (1.25, False),
    (1.75, True),
    (2.5, False),
    (3.5, True),
    (5.0, False),
)
"""Magnitudes between two floats of 4 bits, and whether they round up: to an even mantissa."""


def cast(node: Node) -> Value | None:
    """A Cast in steps that IREE takes."""
    value, target = node.operand(0), node.attribute("to")
    if value.dtype in STORED:
        return _decoded(value).cast(target)
    if target in STORED:
        return _encoded(node, value, target)
    if value.dtype in FLOAT8 and target != TensorProto.FLOAT:
        return _like(value, TensorProto.FLOAT).cast(target)
    if target in FLOAT8:
        return _to_float8(node, value, target)
    if target in _SIGNED:
        if value.dtype == TensorProto.UINT64:
            value = value.builder.bitcast(value, TensorProto.INT64)
        elif value.dtype != TensorProto.INT64:
            value = value.cast(TensorProto.INT64)
        return value.builder.bitcast(value.cast(_SIGNED[target]), target)
    if target == TensorProto.INT16:
        return _like(value, target)
    return None


def _like(value: Value, target: int) -> Value:
    """A conversion by the operator without attributes, which IREE takes for more types."""
    like = value.builder.constant(np.zeros((), numpy_type(target)))
    return value.builder.emit("CastLike", value, like)


def _to_float8(node: Node, value: Value, target: int) -> Value:
    """A conversion to 8 bits; IREE's is from float32 and does not saturate."""
    value = value.cast(TensorProto.FLOAT)
    if node.attribute("saturate", 1):
        largest = float(ml_dtypes.finfo(numpy_type(target)).max)
        value = (value > largest).where(value.lifted(largest), value)
        value = (value < -largest).where(value.lifted(-largest), value)
    return _like(value, target)


@functools.cache
def _table(target: int) -> np.ndarray:
    """The float32 of each code."""
    count = 16 if target == TensorProto.FLOAT4E2M1 else 256
    return np.arange(count, dtype=np.uint8).view(numpy_type(target)).astype(np.float32)


def _decoded(value: Value) -> Value:
    """Stored elements as integers or float32."""
    builder, kind = value.builder, value.dtype
    code = builder.bitcast(value, TensorProto.UINT8)
    if kind not in _INTEGERS:
        return builder.constant(_table(kind)).take(code.cast(TensorProto.INT64), 0)
    wide = code.cast(TensorProto.INT32)
    if kind in (TensorProto.UINT2, TensorProto.UINT4):
        return wide
    half = 1 << (_INTEGERS[kind] - 1)
    return (wide >= half).where(wide - 2 * half, wide)


def _encoded(node: Node, value: Value, target: int) -> Value:
    """Numbers as stored elements."""
    builder = value.builder
    if target in _INTEGERS:
        # Towards zero, and the lowest bits of that.
        wide = value.cast(TensorProto.INT32)
        code = builder.add("Mod", wide, wide.lifted(1 << _INTEGERS[target]))
        return builder.bitcast(code.cast(TensorProto.UINT8), target)
    value = value.cast(TensorProto.FLOAT)
    bits = builder.bitcast(value, TensorProto.INT32)
    if target == TensorProto.FLOAT8E8M0:
        return builder.bitcast(_exponents(node, bits).cast(TensorProto.UINT8), target)
    code = (bits < 0).where(bits.lifted(8), bits.lifted(0))
    for step, upwards in _F4_STEPS:
        magnitude = abs(value)
        above = magnitude >= step if upwards else magnitude > step
        code = code + above.cast(TensorProto.INT32)
    code = builder.add("IsNaN", value).where(bits.lifted(8), code)
    return builder.bitcast(code.cast(TensorProto.UINT8), target)


def _exponents(node: Node, bits: Value) -> Value:
    """Float32 as biased exponents, rounded as the operator states."""
    mode = node.attribute("round_mode", "up")
    magnitude = (bits < 0).where(bits + np.iinfo(np.int32).min, bits)
    exponent = magnitude / (1 << 23)
    mantissa = magnitude - exponent * (1 << 23)
    half = 1 << 22
    if mode == "up":
        rounds = mantissa > 0
    elif mode == "nearest":
        rounds = (mantissa > half) | (mantissa.equals(half) & (exponent > 0))
    elif mode == "down":
        return exponent
    else:
        raise Unsupported(mode)
    limit = 254 if node.attribute("saturate", 1) else 255
    return exponent + (rounds & (exponent < limit)).cast(TensorProto.INT32)


def store(model: onnx.ModelProto) -> None:
    """Declares the tensors that are stored in bytes as such."""
    graph = model.graph
    for value in (*graph.input, *graph.value_info, *graph.output):
        if value.type.tensor_type.elem_type in STORED:
            value.type.tensor_type.elem_type = TensorProto.UINT8
    for tensor in graph.initializer:
        if tensor.data_type in STORED:
            codes = numpy_helper.to_array(tensor).view(np.uint8)
            tensor.CopyFrom(numpy_helper.from_array(codes, tensor.name))
