"""Operators of ONNX Runtime's domain `com.microsoft`, by those of ONNX.

Its optimizer and quantizer write them, and so do exporters of models for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from mlirfuse.frontends.onnx_repairs.builder import Node, Repair
from mlirfuse.frontends.onnx_repairs.contrib import (
    activations,
    attention,
    embeddings,
    norms,
    quantized,
)
from mlirfuse.frontends.onnx_repairs.values import Value

__all__ = ["REPAIRS", "qualify"]

DOMAIN = "com.microsoft"

_UNQUALIFIED = frozenset({"SimplifiedLayerNormalization"})
"""Operators that ONNX Runtime has in ONNX's domain, where no operator set of ONNX has them."""


def _standard(node: Node) -> Sequence[Value | None]:
    """The operator of the same name that ONNX has."""
    return node.again(*node.inputs)


_STANDARD = (
    "DequantizeLinear",
    "GatherND",
    "GridSample",
    "Pad",
    "QuantizeLinear",
    "Range",
    "Trilu",
)
"""Operators that ONNX has, too."""

_POOLED = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")

_OPERATORS: Mapping[str, Repair] = {
    "Attention": attention.attention,
    "BiasAdd": activations.bias_add,
    "BiasDropout": activations.bias_dropout,
    "BiasGelu": activations.gelu,
    "BiasSoftmax": activations.bias_softmax,
    "BiasSplitGelu": activations.bias_split_gelu,
    "DynamicQuantizeLSTM": quantized.dynamic_lstm,
    "DynamicQuantizeMatMul": quantized.dynamic_matmul,
    "EmbedLayerNormalization": embeddings.embed_layer_norm,
    "FastGelu": activations.fast_gelu,
    "FusedConv": activations.fused_conv,
    "FusedGemm": activations.fused_gemm,
    "FusedMatMul": activations.fused_matmul,
    "FusedMatMulActivation": activations.fused_matmul,
    "Gelu": activations.gelu,
    "GroupNorm": norms.group_norm,
    "GroupQueryAttention": attention.group_query_attention,
    "MatMulIntegerToFloat": quantized.matmul_to_float,
    "MatMulNBits": quantized.matmul_n_bits,
    "MultiHeadAttention": attention.multi_head_attention,
    "QAttention": quantized.attention,
    "QEmbedLayerNormalization": embeddings.quantized_embed_layer_norm,
    "QGemm": quantized.gemm,
    "QLinearAdd": quantized.binary("Add"),
    "QLinearAveragePool": quantized.unary("AveragePool", _POOLED),
    "QLinearConcat": quantized.concat,
    "QLinearGlobalAveragePool": quantized.unary("GlobalAveragePool"),
    "QLinearLeakyRelu": quantized.unary("LeakyRelu", ("alpha",)),
    "QLinearMul": quantized.binary("Mul"),
    "QLinearSigmoid": quantized.unary("Sigmoid"),
    "QLinearSoftmax": quantized.softmax,
    "QuickGelu": activations.quick_gelu,
    "RotaryEmbedding": attention.rotary_embedding,
    "SimplifiedLayerNormalization": norms.simplified_layer_norm,
    "SkipLayerNormalization": norms.skip_layer_norm,
    "SkipSimplifiedLayerNormalization": norms.skip_simplified_layer_norm,
    "TransposeMatMul": activations.fused_matmul,
    **dict.fromkeys(_STANDARD, _standard),
}

REPAIRS: Mapping[str, Sequence[Repair]] = {
    f"{DOMAIN}.{name}": (repair,) for name, repair in _OPERATORS.items()
}
"""Repairs by operator."""


def qualify(model: onnx.ModelProto) -> bool:
    """Moves operators of ONNX Runtime that are in ONNX's domain; returns whether there are any."""
    found = [
        node
        for node in model.graph.node
        if node.op_type in _UNQUALIFIED and node.domain in ("", "ai.onnx")
    ]
    for node in found:
        node.domain = DOMAIN
    if found and all(o.domain != DOMAIN for o in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    return bool(found)
