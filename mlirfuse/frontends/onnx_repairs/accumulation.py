"""Sums of half precision accumulate in float32, as ONNX runtimes do.

In float16 a mean over 4096 elements is 2 % off, and a norm 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx import TensorProto

from mlirfuse.frontends.onnx_repairs.builder import Node
from mlirfuse.frontends.onnx_repairs.values import HALVES, Value

ACCUMULATING = frozenset(
    {
        "AveragePool",
        "CumSum",
        "GlobalAveragePool",
        "InstanceNormalization",
        "LogSoftmax",
        "LpNormalization",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMean",
        "ReduceSum",
        "ReduceSumSquare",
    }
)
"""Operators that IREE's lowering accumulates in the element type."""


def accumulate_wide(node: Node) -> Sequence[Value | None] | None:
    """Casts operands of half precision to float32, and the results back."""
    first = node.operand(0)
    if first.dtype not in HALVES:
        return None
    wide = [
        value.cast(TensorProto.FLOAT) if value is not None and value.dtype in HALVES else value
        for value in node.inputs
    ]
    results = node.again(*wide)
    return [result and result.cast(first.dtype) for result in results]
