"""Operators that ONNX defines as functions of simpler ones, replaced by their bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from mlirfuse.frontends.onnx_repairs.builder import Node
from mlirfuse.frontends.onnx_repairs.rewrite import Scope, walk
from mlirfuse.frontends.onnx_repairs.values import Unsupported, Value, type_proto


def expand(node: Node) -> Sequence[Value | None]:
    """Builds the body of a function operator in its place.

    Raises:
      Unsupported: the operator is no function for these operands.
    """
    builder = node.builder
    domain = "" if node.proto.domain == "ai.onnx" else node.proto.domain
    version = builder.opsets[domain]
    schema = onnx.defs.get_schema(node.kind, version, domain)
    body = _body(schema, node, version)
    if body is None:
        raise Unsupported(f"{node.kind} is no function")
    given = {a.name: a for a in node.proto.attribute}
    attributes = {
        name: given.get(name) or attribute.default_value
        for name, attribute in schema.attributes.items()
        if name in given or attribute.default_value.type
    }
    inputs = [*node.inputs, *[None] * (len(body.input) - len(node.inputs))]
    # Subgraphs among the attributes read the caller's tensors.
    scope: Scope = {**node.scope, **dict(zip(body.input, inputs, strict=True))}
    location = builder.location
    walk(builder, [_bound(inner, attributes) for inner in body.node], scope, {})
    builder.location = location
    return [scope.get(name) for name in body.output][: len(node.proto.output)]


def _body(schema: onnx.defs.OpSchema, node: Node, version: int) -> onnx.FunctionProto | None:
    """The newest body of a function that suits the model's operator set."""
    plain = [v for v in schema.function_opset_versions if v <= version]
    dependent = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    if not plain and not dependent:
        return None
    if max(plain, default=0) > max(dependent, default=0):
        data = schema.get_function_with_opset_version(max(plain))
    else:
        types = [
            b"" if value is None else type_proto(value.dtype, value.shape).SerializeToString()
            for value in node.inputs
        ]
        data = schema.get_context_dependent_function_with_opset_version(
            max(dependent), node.proto.SerializeToString(), types
        )
    return onnx.FunctionProto.FromString(data) if data else None


def _bound(node: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """A node of a body with the caller's attributes in place of references."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name in attributes:
                copy.attribute.add().CopyFrom(attributes[attribute.ref_attr_name])
                copy.attribute[-1].name = attribute.name
        else:
            copy.attribute.add().CopyFrom(attribute)
            if attribute.type == onnx.AttributeProto.GRAPH:
                bound = [_bound(inner, attributes) for inner in attribute.g.node]
                del copy.attribute[-1].g.node[:]
                copy.attribute[-1].g.node.extend(bound)
    return copy
