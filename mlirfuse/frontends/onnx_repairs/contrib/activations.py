"""Activations, and contractions with an activation behind them."""

from __future__ import annotations

import math

import numpy as np

from mlirfuse.frontends.onnx_repairs.builder import Node
from mlirfuse.frontends.onnx_repairs.values import Unsupported, Value


def gelu_of(value: Value) -> Value:
    """The exact GELU."""
    erf: Value = value.builder.add("Erf", value / math.sqrt(2))
    return value * (erf + 1.0) * 0.5


def gelu(node: Node) -> Value:
    """Gelu and BiasGelu: the GELU of the sum of the operands."""
    value, bias = node.operand(0), node.input(1)
    return gelu_of(value if bias is None else value + bias)


def fast_gelu(node: Node) -> Value:
    """The GELU by tanh, of the sum of the operands."""
    value, bias = node.operand(0), node.input(1)
    value = value if bias is None else value + bias
    inner = (value + value * value * value * 0.044715) * math.sqrt(2 / math.pi)
    return value * (node.builder.add("Tanh", inner) + 1.0) * 0.5


def quick_gelu(node: Node) -> Value:
    """The product with the sigmoid of a multiple."""
    value = node.operand(0)
    scaled = value * float(node.attribute("alpha", 1.702))
    return value * node.builder.add("Sigmoid", scaled)


def bias_split_gelu(node: Node) -> Value:
    """One half of the channels times the GELU of the other, after a bias."""
    value = node.operand(0) + node.operand(1)
    half = value.sizes[-1]
    if half is None:
        raise Unsupported("channels of unknown number")
    axis = value.rank - 1
    return value.slice(axis, 0, half // 2) * gelu_of(value.slice(axis, half // 2, half))


def bias_add(node: Node) -> Value:
    """The sum of a tensor, a bias and a residual."""
    return node.operand(0) + node.operand(1) + node.operand(2)


def activated(node: Node, value: Value) -> Value:
    """The activation that the attributes of a fused operator name."""
    name = node.attribute("activation", "")
    parameters = list(node.attribute("activation_params") or [])
    if not name:
        return value
    if name == "Clip":
        low, high = (value.lifted(float(bound)) for bound in parameters)
        return node.builder.add("Clip", value, low, high)
    names = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}.get(name, ())
    given = {
        key: node.attribute(f"activation_{key}", parameters[index] if parameters else None)
        for index, key in enumerate(names)
    }
    known = {key: float(number) for key, number in given.items() if number is not None}
    return node.builder.add(name, value, **known)


def fused_matmul(node: Node) -> Value:
    """A scaled product of tensors, some of them transposed."""
    sides = []
    for index, letter in enumerate("AB"):
        value = node.operand(index)
        order = list(range(value.rank))
        if node.attribute(f"transBatch{letter}", 0):
            order = [*order[1:-1], order[0], order[-1]]
        if node.attribute(f"trans{letter}", 0) and value.rank > 1:
            order[-2:] = order[:-3:-1]
        sides.append(value.transpose(order))
    product = sides[0] @ sides[1]
    alpha = float(node.attribute("alpha", 1.0))
    return activated(node, product if alpha == 1 else product * alpha)


def fused_gemm(node: Node) -> Value:
    """Gemm with an activation."""
    known = node.stated("alpha", "beta", "transA", "transB")
    return activated(node, node.builder.add("Gemm", *node.inputs, **known))


def fused_conv(node: Node) -> Value:
    """Conv with a residual and an activation."""
    names = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    known = node.stated(*names)
    result = node.builder.add("Conv", *node.inputs[:3], **known)
    residual = node.input(3)
    return activated(node, result if residual is None else result + residual)


def bias_softmax(node: Node) -> Value:
    """The softmax of the sum of the operands over the last axis."""
    value, bias = node.operand(0), node.operand(1)
    if node.attribute("axis", 1) % value.rank != value.rank - 1:
        raise Unsupported("softmax over several axes")
    return node.builder.add("Softmax", value + bias, axis=-1)


def bias_dropout(node: Node) -> list[Value | None]:
    """BiasDropout in inference: the sum of the operands."""
    total, residual = node.operand(0) + node.operand(1), node.input(2)
    if node.wants(1):
        raise Unsupported("a mask of random numbers")
    training = node.input(4)
    if training is not None and (training.array is None or bool(np.any(training.array))):
        raise Unsupported("training")
    return [total if residual is None else total + residual, None]
