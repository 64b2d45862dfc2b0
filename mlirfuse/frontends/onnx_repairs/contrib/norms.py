"""Layer norms with residuals and biases in front of them, and group norms."""

from __future__ import annotations

from onnx import TensorProto

from mlirfuse.frontends.onnx_repairs.builder import Node
from mlirfuse.frontends.onnx_repairs.values import Value


def rms_norm(value: Value, scale: Value, epsilon: float, axis: int) -> tuple[Value, Value]:
    """X / sqrt(mean(x^2) + epsilon) * scale, computed in f32, and the reciprocal root."""
    wide = value.cast(TensorProto.FLOAT)
    axes = list(range(axis % value.rank, value.rank))
    mean = (wide * wide).reduce("ReduceMean", axes, keep=True)
    root = value.builder.add("Sqrt", mean + epsilon)
    inverse = 1.0 / root
    return (wide / root).cast(value.dtype) * scale, inverse


def simplified_layer_norm(node: Node) -> list[Value | None]:
    """SimplifiedLayerNormalization: an RMS norm."""
    epsilon, axis = float(node.attribute("epsilon", 1e-5)), node.attribute("axis", -1)
    result, inverse = rms_norm(node.operand(0), node.operand(1), epsilon, axis)
    return [result, inverse]


def skip_simplified_layer_norm(node: Node) -> list[Value | None]:
    """An RMS norm of the sum of a tensor, a residual and a bias, and the sum."""
    total = _sum(node.operand(0), node.operand(1), node.input(3))
    epsilon = float(node.attribute("epsilon", 1e-5))
    result, inverse = rms_norm(total, node.operand(2), epsilon, -1)
    return [result, None, inverse, total]


def skip_layer_norm(node: Node) -> list[Value | None]:
    """A layer norm of the sum of a tensor, a residual and a bias, its moments, and the sum."""
    total = _sum(node.operand(0), node.operand(1), node.input(4))
    epsilon = float(node.attribute("epsilon", 1e-12))
    last, wide = [total.rank - 1], total.cast(TensorProto.FLOAT)
    mean = wide.reduce("ReduceMean", last, keep=True)
    centered = wide - mean
    variance = (centered * centered).reduce("ReduceMean", last, keep=True)
    inverse = 1.0 / node.builder.add("Sqrt", variance + epsilon)
    return [layer_norm(total, node.operand(2), node.input(3), epsilon), mean, inverse, total]


def group_norm(node: Node) -> Value:
    """A group norm, of channels in any place, with SiLU if wanted."""
    value, gamma, beta = (node.operand(i) for i in range(3))
    last = bool(node.attribute("channels_last", 1))
    channels = gamma.static[0]
    if last:
        value = value.transpose([0, value.rank - 1, *range(1, value.rank - 1)])
    groups = node.attribute("groups")
    wide = value.cast(TensorProto.FLOAT).reshape([0, groups, -1])
    mean = wide.reduce("ReduceMean", [2], keep=True)
    centered = wide - mean
    variance = (centered * centered).reduce("ReduceMean", [2], keep=True)
    epsilon = float(node.attribute("epsilon", 1e-5))
    normal = centered / node.builder.add("Sqrt", variance + epsilon)
    shape: Value = node.builder.add("Shape", value)
    result: Value = node.builder.add("Reshape", normal, shape)
    ones = [1] * (value.rank - 2)
    result = result * gamma.reshape([channels, *ones]) + beta.reshape([channels, *ones])
    if node.attribute("activation", 0):
        result = result * node.builder.add("Sigmoid", result)
    if last:
        result = result.transpose([0, *range(2, value.rank), 1])
    return result.cast(value.dtype)


def _sum(value: Value, residual: Value, bias: Value | None) -> Value:
    total = value + residual
    return total if bias is None else total + bias


def layer_norm(value: Value, gamma: Value, beta: Value | None, epsilon: float) -> Value:
    """A layer norm over the last axis."""
    operands = [value, gamma] if beta is None else [value, gamma, beta.expand(gamma.static)]
    return value.builder.add("LayerNormalization", *operands, axis=-1, epsilon=epsilon)
