"""Layer norms of sums of embeddings, whose tables may be quantized."""

from __future__ import annotations

from collections.abc import Callable

from onnx import TensorProto

from mlirfuse.frontends.onnx_repairs.builder import Node
from mlirfuse.frontends.onnx_repairs.contrib.norms import layer_norm
from mlirfuse.frontends.onnx_repairs.sizes import numbers, size_of
from mlirfuse.frontends.onnx_repairs.values import Unsupported, Value

Table = Callable[[Value | None], Value]
"""Rows of a table; all of it for None."""

_TABLES = 5
"""Tables of words, positions and segments, the weight and the bias of the norm."""


def embed_layer_norm(node: Node) -> list[Value | None]:
    """EmbedLayerNormalization: the norm, the lengths of a mask, the sum."""

    def table(index: int) -> Table | None:
        whole = node.input(2 + index)

        def rows(places: Value | None) -> Value:
            assert whole is not None
            return whole if places is None else whole.take(places, 0)

        return None if whole is None else rows

    return _embedded(node, [table(i) for i in range(_TABLES)], node.input(8))


def quantized_embed_layer_norm(node: Node) -> list[Value | None]:
    """QEmbedLayerNormalization: rows are dequantized after they were read."""

    def table(index: int) -> Table | None:
        whole, scale = node.input(2 + index), node.input(8 + index)
        zero = node.input(8 + _TABLES + index)
        if whole is None or scale is None:
            return None

        def rows(places: Value | None) -> Value:
            assert whole is not None
            assert scale is not None
            codes = whole if places is None else whole.take(places, 0)
            wide = codes.cast(TensorProto.FLOAT)
            if zero is not None:
                wide = wide - zero.cast(TensorProto.FLOAT).reshape([])
            return wide * scale.reshape([])

        return rows

    return _embedded(node, [table(i) for i in range(_TABLES)], None)


def _embedded(node: Node, tables: list[Table | None], places: Value | None) -> list[Value | None]:
    ids, segments, mask = node.operand(0), node.input(1), node.input(7)
    words, positions, kinds, gamma, beta = tables
    if words is None or positions is None or gamma is None:
        raise Unsupported("a table is omitted")
    total = words(ids) + positions(numbers(size_of(ids, 1)) if places is None else places)
    if segments is not None and kinds is not None:
        total = total + kinds(segments)
    lengths = None
    if node.wants(1):
        counted = ids * 0 if mask is None else mask
        lengths = counted.cast(TensorProto.INT32).reduce("ReduceSum", [1])
    epsilon = float(node.attribute("epsilon", 1e-12))
    bias = None if beta is None else beta(None)
    return [layer_norm(total, gamma(None), bias, epsilon), lengths, total]
