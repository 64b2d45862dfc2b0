"""Rebuilds an ONNX model node by node, with constants folded and operators repaired."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from mlirfuse.frontends.onnx_repairs.builder import KNOWN_ELEMENTS, Builder, Repair, qualified
from mlirfuse.frontends.onnx_repairs.values import (
    Refused,
    Value,
    merged_type,
    shape_of,
    type_proto,
)

Scope = dict[str, Value | None]
"""The built tensor of each name of the given graph; None for an omitted one."""


def rewrite(
    model: onnx.ModelProto,
    repairs: Mapping[str, Sequence[Repair]],
    arrays: Mapping[str, np.ndarray],
) -> None:
    """Rebuilds the graph of a model in place.

    Args:
      model: has inferred shapes. Initializers without data keep their names.
      repairs: repairs by operator, in the order in which they are tried.
      arrays: data of the initializers without data, by name.
    """
    graph = model.graph
    opsets = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
    builder = Builder(opsets, repairs)
    scope: Scope = {}
    for tensor in graph.initializer:
        proto = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        scope[tensor.name] = builder.declare(tensor.name, proto)
        if math.prod(tensor.dims) <= KNOWN_ELEMENTS and tensor.data_type != TensorProto.STRING:
            array = arrays.get(tensor.name)
            builder.constants[tensor.name] = (
                numpy_helper.to_array(tensor) if array is None else array
            )
    # Before IR version 4, each initializer is an input too.
    inputs = [value for value in graph.input if value.name not in scope]
    del graph.input[:]
    graph.input.extend(inputs)
    for value in inputs:
        scope[value.name] = builder.declare(value.name, value.type)
    _rebuild(graph, builder, scope)
    graph.initializer.extend(builder.initializers)
    used = _used(graph)
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)


def walk(
    builder: Builder,
    nodes: Iterable[onnx.NodeProto],
    scope: Scope,
    types: Mapping[str, onnx.TypeProto],
) -> None:
    """Builds nodes in order.

    Args:
      builder: takes the nodes.
      nodes: in topological order.
      scope: the built operands by name; takes the results.
      types: known types by name.
    """
    for node in nodes:
        builder.location = node.name or builder.location
        inputs = [scope[name] if name else None for name in node.input]
        if node.op_type == "If" and inputs[0] is not None and inputs[0].array is not None:
            _inline(builder, node, bool(inputs[0].array), scope)
            continue
        declared = [types.get(name) for name in node.output]
        results = builder.repaired(node, inputs, declared, scope)
        if results is None:
            node = _with_subgraphs(builder, node, inputs, scope)
            results = builder.emit_node(node, inputs, declared)
        for name, value, proto in zip(node.output, results, declared, strict=True):
            if name:
                scope[name] = value and builder.refine(value, proto and shape_of(proto))


def _inline(builder: Builder, node: onnx.NodeProto, condition: bool, scope: Scope) -> None:
    """Builds the branch of an If that a constant selects."""
    name = "then_branch" if condition else "else_branch"
    branch = next(a.g for a in node.attribute if a.name == name)
    inner = dict(scope)
    for tensor in branch.initializer:
        inner[tensor.name] = builder.constant(numpy_helper.to_array(tensor))
    walk(builder, branch.node, inner, {v.name: v.type for v in branch.value_info})
    for outer, value in zip(node.output, branch.output, strict=True):
        scope[outer] = inner[value.name]


def _rebuild(graph: onnx.GraphProto, builder: Builder, scope: Scope) -> None:
    """Replaces the nodes of a graph by the built ones; the names of its results stay."""
    types = {
        v.name: v.type for v in (*graph.value_info, *graph.output) if v.type.WhichOneof("value")
    }
    walk(builder, graph.node, scope, types)
    for value in graph.output:
        built = scope[value.name]
        assert built is not None
        if built.name != value.name:
            identity = onnx.helper.make_node("Identity", [built.name], [value.name])
            builder.nodes.append(identity)
        if built.dtype:
            proto = type_proto(built.dtype, built.shape)
            value.type.CopyFrom(merged_type(proto, value.type) or proto)
    del graph.node[:], graph.value_info[:]
    graph.node.extend(live(builder.nodes, {value.name for value in graph.output}))
    graph.value_info.extend(builder.infos(graph))
    _check_types(graph)


def _check_types(graph: onnx.GraphProto) -> None:
    """Refuses operators of other domains whose results have no type: IREE's importer needs one.

    Raises:
      Refused: there is one.
    """
    known = {v.name for v in (*graph.value_info, *graph.output) if v.type.WhichOneof("value")}
    for node in graph.node:
        if node.domain not in ("", "ai.onnx") and any(n and n not in known for n in node.output):
            raise Refused(f"IREE has no lowering for '{qualified(node)}' ({node.name})")


def _with_subgraphs(
    builder: Builder, node: onnx.NodeProto, inputs: Sequence[Value | None], scope: Scope
) -> onnx.NodeProto:
    """The node with its subgraphs rebuilt."""
    if not any(a.type == onnx.AttributeProto.GRAPH for a in node.attribute):
        return node
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for attribute in copy.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            child = Builder(builder.opsets, builder.repairs, builder)
            inner: Scope = {
                name: value and dataclasses.replace(value, builder=child)
                for name, value in scope.items()
            }
            for tensor in attribute.g.initializer:
                inner[tensor.name] = child.constant(numpy_helper.to_array(tensor))
            del attribute.g.initializer[:]
            for value, proto in zip(
                attribute.g.input, _formals(copy, attribute.g, inputs), strict=True
            ):
                value.type.CopyFrom(proto)
                fresh = value.name if value.name not in child.values else child.fresh("formal")
                inner[value.name] = child.declare(fresh, proto)
                value.name = fresh
            _rebuild(attribute.g, child, inner)
    return copy


def _formals(
    node: onnx.NodeProto, body: onnx.GraphProto, inputs: Sequence[Value | None]
) -> Iterator[onnx.TypeProto]:
    """The types of a subgraph's arguments: as stated, or those of a loop's operands."""
    for index, value in enumerate(body.input):
        if value.type.tensor_type.elem_type or node.op_type != "Loop":
            yield value.type
        elif index < 2:
            kind = (TensorProto.INT64, TensorProto.BOOL)[index]
            yield type_proto(kind, ())
        else:
            given = inputs[index]
            assert given is not None
            yield type_proto(given.dtype, given.shape)


def live(nodes: Sequence[onnx.NodeProto], needed: set[str]) -> list[onnx.NodeProto]:
    """The nodes whose results are used, in order.

    Args:
      nodes: in topological order.
      needed: names of the results that are used; takes all names that the nodes read.
    """
    kept = []
    for node in reversed(nodes):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(_operands(node))
    return kept[::-1]


def _operands(node: onnx.NodeProto) -> Iterator[str]:
    """Names that a node and its subgraphs read."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield from _used(attribute.g)


def _used(graph: onnx.GraphProto) -> set[str]:
    names = {name for node in graph.node for name in _operands(node)}
    return names | {value.name for value in graph.output}
