"""Says which value of an ONNX model has a type that a program has no value of."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from iree.compiler.extras import onnx_importer

_TENSOR = "tensor_type"

_KINDS = {
    "sequence_type": "a sequence",
    "map_type": "a map",
    "optional_type": "an optional",
    "sparse_tensor_type": "a sparse tensor",
    "opaque_type": "opaque",
}
"""Field of a `TypeProto` -> what such a value is."""


def unsupported(graph: onnx.GraphProto) -> str | None:
    """The first value of a graph that IREE's importer has no type for; None where there is none.

    The text is a clause, as `result 'y' of SplitToSequence (node 'cut') is a sequence`.
    """
    for place, proto in _typed(graph):
        if said := _said(proto):
            return f"{place} {said}"
    return None


def _typed(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TypeProto]]:
    """The values of a graph in order: where they are, and their types."""
    for value in graph.input:
        yield f"argument '{value.name}'", value.type
    types = {v.name: v.type for v in (*graph.value_info, *graph.output)}
    for node in graph.node:
        named = f" (node '{node.name}')" if node.name else ""
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _typed(attribute.g)
        for name in node.output:
            if name in types:
                yield f"result '{name}' of {node.op_type}{named}", types[name]
    for value in graph.output:
        yield f"result '{value.name}'", value.type


def _said(proto: onnx.TypeProto) -> str:
    """Why a program has no value of a type; empty where it has."""
    kind = proto.WhichOneof("value")
    if kind is None:
        return ""
    if kind != _TENSOR:
        return f"is {_KINDS.get(kind, kind)}, and programs take, make and return tensors"
    element = proto.tensor_type.elem_type
    if element == onnx.TensorProto.STRING:
        return "has strings as elements, and programs compute with numbers"
    if element == onnx.TensorProto.UNDEFINED:
        return "has no element type, and ONNX's inference finds none"
    if element not in onnx_importer.ELEM_TYPE_TO_IR_TYPE_CB:
        return f"has elements of {onnx.TensorProto.DataType.Name(element)}, which IREE lacks"
    return ""
