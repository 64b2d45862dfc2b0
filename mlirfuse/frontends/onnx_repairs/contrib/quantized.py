"""Operators on quantized tensors: computed on the dequantized ones, and quantized again."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import TensorProto

from mlirfuse.frontends.onnx_repairs.builder import Node, Repair
from mlirfuse.frontends.onnx_repairs.contrib.attention import projected_attention
from mlirfuse.frontends.onnx_repairs.quantization import saturated
from mlirfuse.frontends.onnx_repairs.values import Unsupported, Value


def _dequantized(value: Value, scale: Value, zero: Value | None, axis: int = -1) -> Value:
    """(x - zero) * scale in f32, for all elements or along an axis."""
    wide = value.cast(TensorProto.FLOAT)
    ones = [1] * (value.rank - 1 - axis % value.rank) if value.rank else []

    def along(parameter: Value) -> Value:
        parameter = parameter.cast(TensorProto.FLOAT)
        if parameter.rank == 0 or parameter.static == (1,):
            return parameter.reshape([])
        return parameter.reshape([-1, *ones])

    return (wide if zero is None else wide - along(zero)) * along(scale)


def _quantized(value: Value, scale: Value, zero: Value | None, dtype: int) -> Value:
    zero = zero and zero.cast(TensorProto.FLOAT).reshape([])
    return saturated(value / scale.cast(TensorProto.FLOAT).reshape([]), zero, dtype)


def binary(kind: str) -> Repair:
    """QLinearAdd and the like: an operator of two tensors."""

    def repair(node: Node) -> Value:
        a, a_scale, b, b_scale, scale = (node.operand(i) for i in (0, 1, 3, 4, 6))
        left = _dequantized(a, a_scale, node.input(2))
        right = _dequantized(b, b_scale, node.input(5))
        return _quantized(node.builder.add(kind, left, right), scale, node.input(7), a.dtype)

    return repair


def unary(kind: str, names: Sequence[str] = ()) -> Repair:
    """QLinearSigmoid and the like: an operator of one tensor, with these of its attributes."""

    def repair(node: Node) -> Value:
        value, scale, made = node.operand(0), node.operand(1), node.operand(3)
        if node.attribute("channels_last", 0):
            raise Unsupported("channels last")
        known = node.stated(*names)
        wide = node.builder.add(kind, _dequantized(value, scale, node.input(2)), **known)
        return _quantized(wide, made, node.input(4), value.dtype)

    return repair


def softmax(node: Node) -> Value:
    """QLinearSoftmax, whose axes before operator set 13 are all from the stated one."""
    value, scale, made = node.operand(0), node.operand(1), node.operand(3)
    axis = node.attribute("axis", -1) % value.rank
    if node.attribute("opset", 13) < 13 and axis != value.rank - 1:
        raise Unsupported("softmax over several axes")
    wide = node.builder.add("Softmax", _dequantized(value, scale, node.input(2)), axis=axis)
    return _quantized(wide, made, node.input(4), value.dtype)


def concat(node: Node) -> Value:
    """QLinearConcat: the scale and zero point of the result, then three operands a tensor."""
    scale, zero = node.operand(0), node.input(1)
    parts = [
        _dequantized(node.operand(i), node.operand(i + 1), node.input(i + 2))
        for i in range(2, len(node.inputs), 3)
    ]
    whole = node.builder.add("Concat", *parts, axis=node.attribute("axis"))
    return _quantized(whole, scale, zero, node.operand(2).dtype)


def gemm(node: Node) -> Value:
    """QGemm, whose bias has the scale of the product."""
    a, a_scale, b, b_scale = (node.operand(i) for i in (0, 1, 3, 4))
    bias, made = node.input(6), node.input(7)
    left = _dequantized(a, a_scale, node.input(2))
    axis = 0 if node.attribute("transB", 0) else 1
    right = _dequantized(b, b_scale, node.input(5), axis)
    kept = {name: node.attribute(name, 0) for name in ("transA", "transB")}
    result = node.builder.add("Gemm", left, right, **kept)
    alpha = float(node.attribute("alpha", 1.0))
    if bias is not None:
        product = a_scale.cast(TensorProto.FLOAT) * b_scale.cast(TensorProto.FLOAT)
        result = result + bias.cast(TensorProto.FLOAT) * product
    result = result * alpha
    return result if made is None else _quantized(result, made, node.input(8), a.dtype)


def _product(
    node: Node, a: Value, b: Value, a_zero: Value | None, b_zero: Value | None, scale: Value
) -> Value:
    """A product of bytes, scaled."""
    operands: list[Value | None] = [a, b, a_zero, b_zero]
    total: Value = node.builder.add("MatMulInteger", *operands)
    return total.cast(TensorProto.FLOAT) * scale


def matmul_to_float(node: Node) -> Value:
    """MatMulIntegerToFloat: a product of bytes, scaled, with a bias."""
    a, b, a_scale, b_scale = (node.operand(i) for i in range(4))
    result = _product(node, a, b, node.input(4), node.input(5), a_scale * b_scale)
    bias = node.input(6)
    return (result if bias is None else result + bias).cast(a_scale.dtype)


def dynamic_matmul(node: Node) -> Value:
    """DynamicQuantizeMatMul: the first operand is quantized by its extrema."""
    a, b, b_scale = (node.operand(i) for i in range(3))
    quantized, scale, zero = node.builder.add_all("DynamicQuantizeLinear", [a], 3)
    if quantized is None or scale is None:
        raise Unsupported("no scale")
    result = _product(node, quantized, b, zero, node.input(3), scale * b_scale)
    bias = node.input(4)
    return result if bias is None else result + bias


def dynamic_lstm(node: Node) -> list[Value | None]:
    """DynamicQuantizeLSTM: an LSTM of dequantized weights; its inputs are not quantized."""
    weights = []
    for index, scale, zero in ((1, 8, 9), (2, 10, 11)):
        weight = node.operand(index)
        wide = _along_directions(weight, node.operand(scale), node.input(zero))
        weights.append(wide.transpose([0, 2, 1]))
    names = (
        *("activations", "activation_alpha", "activation_beta", "clip", "direction"),
        *("hidden_size", "input_forget"),
    )
    known = node.stated(*names)
    operands = [node.input(0), *weights, *(node.input(i) for i in range(3, 8))]
    while operands[-1] is None:
        operands.pop()
    return node.builder.add_all("LSTM", operands, 3, **known)


def _along_directions(weight: Value, scale: Value, zero: Value | None) -> Value:
    """Weights [directions, inputs, gates] by parameters of a direction, or of its gates."""
    wide = weight.cast(TensorProto.FLOAT)

    def along(parameter: Value) -> Value:
        parameter = parameter.cast(TensorProto.FLOAT)
        return parameter.unsqueeze(1) if parameter.rank == 2 else parameter.reshape([-1, 1, 1])

    return (wide if zero is None else wide - along(zero)) * along(scale)


def attention(node: Node) -> list[Value | None]:
    """QAttention: attention whose projection is a product of bytes."""
    value, weight, bias, scale, weight_scale = (node.operand(i) for i in range(5))
    mask, zero, weight_zero, past = (node.input(i) for i in range(5, 9))
    scaled = scale.reshape([]) * weight_scale
    projected = _product(node, value, weight, zero, weight_zero, scaled) + bias
    return projected_attention(node, projected, mask, past, None)


def matmul_n_bits(node: Node) -> Value:
    """MatMulNBits: weights of 4 or 8 bits in blocks along K, each with a scale."""
    value, packed, scales = (node.operand(i) for i in range(3))
    zeros, order, bias = node.input(3), node.input(4), node.input(5)
    bits, size = node.attribute("bits", 4), node.attribute("block_size")
    depth, width = node.attribute("K"), node.attribute("N")
    if bits not in (4, 8) or order is not None:
        raise Unsupported("weights of other widths, or in another order")
    blocks = -(-depth // size)
    codes = _unpacked(packed, bits).reshape([width, blocks, size])
    factors = scales.reshape([width, blocks, 1]).cast(TensorProto.FLOAT)
    wide = codes.cast(TensorProto.FLOAT)
    if zeros is None:
        wide = wide - float(1 << (bits - 1))
    elif zeros.is_float:
        wide = wide - zeros.cast(TensorProto.FLOAT).reshape([width, blocks, 1])
    else:
        given = _unpacked(zeros, bits).reshape([width, -1]).slice(1, 0, blocks)
        wide = wide - given.cast(TensorProto.FLOAT).unsqueeze(2)
    weight = (wide * factors).reshape([width, blocks * size]).slice(1, 0, depth)
    result = value @ weight.cast(value.dtype).transpose([1, 0])
    return result if bias is None else result + bias


def _unpacked(value: Value, bits: int) -> Value:
    """The codes of bytes, the lowest bits first, in a last axis."""
    if bits == 8:
        return value
    wide = value.cast(TensorProto.INT32)
    high = wide / 16
    low = wide - high * 16
    builder = value.builder
    return builder.add("Concat", low.unsqueeze(value.rank), high.unsqueeze(value.rank), axis=-1)
