"""Operators on unsigned integers that IREE 3.13 computes as signed ones.

Up to 32 bits they are computed in int64. Of 64 bits, those that only compare see the sign bit
flipped, which keeps the order; quotients are built from half of the dividend.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from mlirfuse.frontends.onnx_repairs.builder import Node
from mlirfuse.frontends.onnx_repairs.values import UNSIGNED, Value

ORDERED = (
    *("ArgMax", "ArgMin", "Clip", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max"),
    *("Min", "ReduceMax", "ReduceMin", "TopK"),
)
"""Operators that compare elements, and move them."""

ARITHMETIC = ("Div", "Mod")

_SIGN = np.iinfo(np.int64).min


def signed(node: Node) -> Sequence[Value | None] | None:
    """The operator on signed integers of more bits."""
    kind = node.operand(0).dtype
    if kind not in UNSIGNED:
        return None
    if kind != TensorProto.UINT64:
        wide = [_replaced(value, kind, TensorProto.INT64) for value in node.inputs]
        return [
            result.cast(kind) if _holds(node, index, kind) and result is not None else result
            for index, result in enumerate(node.again(*wide))
        ]
    if node.kind in ARITHMETIC:
        return [_divided(node)]
    flipped = [
        value.builder.bitcast(value, TensorProto.INT64) + _SIGN
        if value is not None and value.dtype == kind
        else value
        for value in node.inputs
    ]
    return [
        result.builder.bitcast(result - _SIGN, kind)
        if _holds(node, index, kind) and result is not None
        else result
        for index, result in enumerate(node.again(*flipped))
    ]


def _replaced(value: Value | None, kind: int, target: int) -> Value | None:
    return value.cast(target) if value is not None and value.dtype == kind else value


def _holds(node: Node, index: int, kind: int) -> bool:
    """Whether a result has the operands' type; others are indices or booleans."""
    proto = node.results[index]
    return proto is not None and proto.tensor_type.elem_type == kind


def _divided(node: Node) -> Value:
    """The quotient or remainder of 64 bits."""
    builder, left, right = node.builder, node.operand(0), node.operand(1)
    n = builder.bitcast(left, TensorProto.INT64)
    d = builder.bitcast(right, TensorProto.INT64)
    half = builder.emit("BitShift", left, left.lifted(1), direction="RIGHT")
    half = builder.bitcast(half, TensorProto.INT64)
    # IREE's shift copies the sign.
    half = (half < 0).where(half + _SIGN, half)
    small = (d < 0).where(d.lifted(1), d)
    near = half / small * 2
    rest = n - near * small
    near = near + (rest + _SIGN >= small + _SIGN).cast(TensorProto.INT64)
    # A divisor with the highest bit goes in once or not at all.
    large = (n + _SIGN >= d + _SIGN).cast(TensorProto.INT64)
    quotient = (d < 0).where(large, near)
    result = quotient if node.kind == "Div" else n - quotient * d
    return builder.bitcast(result, left.dtype)
