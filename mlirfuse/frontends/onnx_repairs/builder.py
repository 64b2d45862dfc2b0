"""Construction of an ONNX graph: types are inferred, constants folded, and nodes repaired."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from mlirfuse.frontends.containment import leave_out
from mlirfuse.frontends.onnx_repairs import folding
from mlirfuse.frontends.onnx_repairs.values import (
    Operand,
    Refused,
    Shape,
    Unsupported,
    Value,
    merged_type,
    numpy_type,
    shape_of,
    type_proto,
)

FOLDED_ELEMENTS = 1 << 16
"""Largest constant that is computed during the import, in elements."""

SHAPE_ELEMENTS = 1024
"""Largest constant that the inference of shapes is given, in elements."""

KNOWN_ELEMENTS = 1 << 16
"""Largest constant whose elements are known to repairs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """An operator of the given graph whose operands are built already.

    Attributes:
      builder: the graph under construction.
      proto: the operator; names of operands and results are those of the given graph.
      inputs: operands; None for an omitted one.
      results: known types of the results, by ordinal.
      scope: the built tensors of the names that its subgraphs may read.
    """

    builder: Builder
    proto: onnx.NodeProto
    inputs: tuple[Value | None, ...]
    results: tuple[onnx.TypeProto | None, ...]
    scope: Mapping[str, Value | None]

    @property
    def kind(self) -> str:
        """Name of the operator."""
        return str(self.proto.op_type)

    def input(self, index: int) -> Value | None:
        """An operand; None for an omitted one."""
        return self.inputs[index] if index < len(self.inputs) else None

    def operand(self, index: int) -> Value:
        """An operand that must be there."""
        value = self.input(index)
        if value is None:
            raise Unsupported(f"operand {index} is omitted")
        return value

    def known(self, index: int) -> np.ndarray | None:
        """The elements of an operand.

        Raises:
          Unsupported: they are not known; None is an omitted operand.
        """
        value = self.input(index)
        if value is None:
            return None
        if value.array is None:
            raise Unsupported(f"operand {index} is not a constant")
        return value.array

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute."""
        for attribute in self.proto.attribute:
            if attribute.name == name:
                value = onnx.helper.get_attribute_value(attribute)
                return value.decode() if isinstance(value, bytes) else value
        return default

    def stated(self, *names: str) -> dict[str, Any]:
        """The attributes of these names that the operator has."""
        found = {name: self.attribute(name) for name in names}
        return {name: value for name, value in found.items() if value is not None}

    def result_shape(self, index: int = 0) -> Shape | None:
        """The shape of a result; None for an unknown rank."""
        proto = self.results[index]
        return None if proto is None else shape_of(proto)

    def wants(self, index: int) -> bool:
        """Whether a result is used."""
        return index < len(self.proto.output) and self.proto.output[index] != ""

    def again(self, *inputs: Value | None) -> list[Value | None]:
        """The same operator on other operands."""
        kept = {a.name: onnx.helper.get_attribute_value(a) for a in self.proto.attribute}
        return self.builder.add_all(self.kind, inputs, len(self.proto.output), **kept)


Repair = Callable[[Node], "Value | Sequence[Value | None] | None"]
"""Builds other operators for a node and returns its results; None leaves the node as it is."""


class Builder:
    """A graph under construction.

    Attributes:
      opset: version of the operator set of the default domain.
      nodes: the nodes so far, in order.
      constants: elements of small constants, by name.
      initializers: the constants that were made.
      values: all tensors, by name.
      location: name that new nodes get.
    """

    def __init__(
        self,
        opsets: Mapping[str, int],
        repairs: Mapping[str, Sequence[Repair]],
        parent: Builder | None = None,
    ) -> None:
        """Creates an empty graph.

        Args:
          opsets: version of each domain's operator set.
          repairs: repairs by operator, in the order in which they are tried.
          parent: the graph that holds this one.
        """
        self.opsets = dict(opsets)
        self.opset = self.opsets[""]
        self.repairs = repairs
        self.parent = parent
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[TensorProto] = parent.initializers if parent else []
        self.constants: dict[str, np.ndarray] = parent.constants if parent else {}
        self.values: dict[str, Value] = (
            {n: dataclasses.replace(v, builder=self) for n, v in parent.values.items()}
            if parent
            else {}
        )
        self.made: dict[str, onnx.TypeProto] = {}
        self.location: str = parent.location if parent else ""
        self._numbers: Any = parent._numbers if parent else itertools.count()
        self._imports = [onnx.helper.make_opsetid(d, v) for d, v in self.opsets.items()]

    def fresh(self, kind: str) -> str:
        """A name that no tensor has."""
        return f"{self.location or kind}.{kind}.{next(self._numbers)}"

    def declare(self, name: str, proto: onnx.TypeProto) -> Value:
        """Makes a tensor known by name and type."""
        tensor = proto.tensor_type
        value = Value(self, name, tensor.elem_type, shape_of(proto))
        self.values[name] = value
        return value

    def refine(self, value: Value, shape: Shape | None) -> Value:
        """The value with the sizes that are known too."""
        made = self.made.get(value.name)
        if made is None or shape is None:
            return value
        merged = merged_type(made, type_proto(value.dtype, shape))
        assert merged is not None
        if shape_of(merged) == value.shape:
            return value
        self.made[value.name] = merged
        return self.declare(value.name, merged)

    def constant(self, array: np.ndarray) -> Value:
        """A constant tensor."""
        name = self.fresh("constant")
        array = np.asarray(array)
        tensor = constant_proto(array, name)
        self.initializers.append(tensor)
        self.constants[name] = array
        proto = onnx.helper.make_tensor_type_proto(tensor.data_type, array.shape)
        holder = self.parent
        while holder is not None:  # constants of a subgraph are in the main graph
            holder.declare(name, proto)
            holder = holder.parent
        return self.declare(name, proto)

    def add(self, kind: str, *inputs: Operand | None, **attributes: Any) -> Value:
        """Builds an operator of one result, with repairs."""
        return _only(self.build(*self._node(kind, inputs, 1, attributes)))

    def add_all(
        self, kind: str, inputs: Sequence[Operand | None], outputs: int, **attributes: Any
    ) -> list[Value | None]:
        """Builds an operator of several results, with repairs."""
        return self.build(*self._node(kind, inputs, outputs, attributes))

    def emit(self, kind: str, *inputs: Operand | None, **attributes: Any) -> Value:
        """Builds an operator of one result as it is, without repairs."""
        return _only(self.emit_node(*self._node(kind, inputs, 1, attributes), [None]))

    def infos(self, graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
        """The types of the tensors inside of a graph."""
        outputs = {value.name for value in graph.output}
        return [
            onnx.helper.make_value_info(name, self.made[name])
            for node in graph.node
            for name in node.output
            if name and name not in outputs and name in self.made
        ]

    def bitcast(self, value: Value, dtype: int) -> Value:
        """The bits of each element as another type of the same size; in any operator set."""
        if value.dtype == dtype:
            return value
        if value.shape == ():
            # IREE 3.13 crashes on a scalar.
            return self.bitcast(value.unsqueeze(0), dtype).squeeze(0)
        node, operands = self._node("BitCast", [value], 1, {"to": dtype})
        return _only(self.emit_node(node, operands, [type_proto(dtype, value.shape)]))

    def reduce(self, kind: str, value: Value, axes: Sequence[int], *, keep: bool = False) -> Value:
        """A reduction such as `ReduceSum` over axes; its repair knows the operator set's form."""
        return self.add(kind, value, np.array(list(axes), np.int64), keepdims=int(keep))

    def _node(
        self,
        kind: str,
        inputs: Sequence[Operand | None],
        outputs: int,
        attributes: Mapping[str, Any],
    ) -> tuple[onnx.NodeProto, list[Value | None]]:
        operands = [
            value if value is None or isinstance(value, Value) else self.constant(np.asarray(value))
            for value in inputs
        ]
        names = ["" if value is None else value.name for value in operands]
        results = [self.fresh(kind) for _ in range(outputs)]
        node = onnx.helper.make_node(kind, names, results, self.location, **attributes)
        return node, operands

    def build(self, node: onnx.NodeProto, inputs: Sequence[Value | None]) -> list[Value | None]:
        """Builds a node without subgraphs, with repairs, and returns its results.

        Args:
          node: the operator; the names of its operands are not used.
          inputs: its operands; None for an omitted one.
        """
        unknown = [None] * len(node.output)
        results = self.repaired(node, inputs, unknown, {})
        return self.emit_node(node, inputs, unknown) if results is None else results

    def repaired(
        self,
        node: onnx.NodeProto,
        inputs: Sequence[Value | None],
        declared: Sequence[onnx.TypeProto | None],
        scope: Mapping[str, Value | None],
    ) -> list[Value | None] | None:
        """The results of a node as constants or by a repair; None where it has neither.

        Args:
          node: the operator, with its subgraphs as they are given.
          inputs: its operands; None for an omitted one.
          declared: known types of its results.
          scope: the built tensors of the names that its subgraphs may read.
        """
        if (folded := self._folded(node, inputs)) is not None:
            return folded
        repairs = self.repairs.get(qualified(node), ())
        if not repairs:
            return None
        operands = tuple(inputs)
        while operands and operands[-1] is None:
            operands = operands[:-1]
        types = tuple(self._types(node, operands, declared))
        if (empty := self._empty(types)) is not None:
            return empty
        view = Node(self, node, operands, types, scope)
        for repair in repairs:
            before = len(self.nodes)
            try:
                results = repair(view)
            except Refused:
                raise
            except Unsupported:
                del self.nodes[before:]
                continue
            except Exception as error:  # IREE may take the operator as it is
                leave_out(f"the repair of {view.kind}", error)
                del self.nodes[before:]
                continue
            if results is not None:
                found = [results] if isinstance(results, Value) else list(results)
                count = len(node.output)
                return [*found, *[None] * count][:count]
        return None

    def emit_node(
        self,
        node: onnx.NodeProto,
        inputs: Sequence[Value | None],
        types: Sequence[onnx.TypeProto | None],
    ) -> list[Value | None]:
        """Appends a node as it is, and returns its results; None for an omitted one.

        Args:
          node: the operator; the names of its operands are not used.
          inputs: its operands.
          types: of its results; None for one to infer.
        """
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        del copy.input[:]
        given = ["" if value is None else value.name for value in inputs]
        while given and not given[-1]:  # IREE has no lowering for some with an omitted last operand
            given.pop()
        copy.input.extend(given)
        names = [
            name and (name if name not in self.values else self.fresh(node.op_type))
            for name in node.output
        ]
        del copy.output[:]
        copy.output.extend(names)
        types = self._types(node, inputs, types)
        self.nodes.append(copy)
        results: list[Value | None] = []
        for name, proto in zip(names, types, strict=True):
            if not name:
                results.append(None)
                continue
            self.made[name] = proto or onnx.TypeProto()
            results.append(self.declare(name, self.made[name]))
        return results

    def _empty(self, types: Sequence[onnx.TypeProto | None]) -> list[Value | None] | None:
        """Results without elements as constants; None where there are elements."""
        shapes = [None if proto is None else shape_of(proto) for proto in types]
        if not all(shape is not None and 0 in shape and None not in shape for shape in shapes):
            return None
        return [
            self.constant(
                np.zeros(
                    tuple(size or 0 for size in shape), numpy_type(proto.tensor_type.elem_type)
                )
            )
            for shape, proto in zip(shapes, types, strict=True)
            if proto is not None and shape is not None
        ]

    def _types(
        self,
        node: onnx.NodeProto,
        inputs: Sequence[Value | None],
        declared: Sequence[onnx.TypeProto | None],
    ) -> list[onnx.TypeProto | None]:
        """The types of a node's results: inferred, and those that the model states."""
        domain = "" if node.domain == "ai.onnx" else node.domain
        subgraphs = any(a.type == onnx.AttributeProto.GRAPH for a in node.attribute)
        if subgraphs or not onnx.defs.has(node.op_type, domain):
            return list(declared)
        version = self.opsets.get(domain, self.opset)
        probe = onnx.NodeProto()
        probe.CopyFrom(node)
        del probe.input[:]
        probe.input.extend("" if value is None else f"i{i}" for i, value in enumerate(inputs))
        types, data = {}, {}
        for i, value in enumerate(inputs):
            if value is not None:
                types[f"i{i}"] = type_proto(value.dtype, value.shape)
                if value.array is not None and value.array.size <= SHAPE_ELEMENTS:
                    data[f"i{i}"] = numpy_helper.from_array(value.array, f"i{i}")
        try:
            schema = onnx.defs.get_schema(node.op_type, version, domain)
            found = onnx.shape_inference.infer_node_outputs(
                schema, probe, types, data, opset_imports=self._imports
            )
            if not schema.has_type_and_shape_inference_function and not domain:
                # GroupNormalization and MeanVarianceNormalization.
                found = {node.output[0]: types["i0"]}
        except Exception:  # inference is a help, and the types may be stated
            found = {}
        return [
            merged_type(found.get(name), proto)
            for name, proto in zip(node.output, declared, strict=True)
        ]

    def _folded(
        self, node: onnx.NodeProto, inputs: Sequence[Value | None]
    ) -> list[Value | None] | None:
        """The results as constants; None where they are not known or not small."""
        if node.domain not in ("", "ai.onnx") or node.op_type in folding.KEPT:
            return None
        if node.op_type == "Shape" and inputs[0] is not None and inputs[0].shape is not None:
            attributes = {a.name: a.i for a in node.attribute}
            sizes = inputs[0].shape[attributes.get("start", 0) : attributes.get("end")]
            if None in sizes:
                return None
            return [self.constant(np.array(sizes, np.int64))]
        if node.op_type == "Size" and inputs[0] is not None and inputs[0].shape is not None:
            if None in inputs[0].shape:
                return None
            return [self.constant(np.array(math.prod(inputs[0].static), np.int64))]
        if node.op_type == "Constant":
            return (
                [self.constant(folding.constant_array(node))] if folding.is_numeric(node) else None
            )
        subgraphs = any(a.type == onnx.AttributeProto.GRAPH for a in node.attribute)
        if not inputs or subgraphs or node.op_type.startswith("Random"):
            return None
        arrays = [None if value is None else value.array for value in inputs]
        if any(v is not None and a is None for v, a in zip(inputs, arrays, strict=True)):
            return None
        if sum(0 if a is None else a.size for a in arrays) > FOLDED_ELEMENTS:
            return None
        try:
            results = folding.evaluated(node, arrays, self._imports)
        except Exception:  # the reference does not know every operator
            return None
        if sum(np.size(array) for array in results) > FOLDED_ELEMENTS:
            return None
        return [self.constant(np.asarray(array)) for array in results]


def _only(results: Sequence[Value | None]) -> Value:
    (result,) = results
    assert result is not None
    return result


def qualified(node: onnx.NodeProto) -> str:
    """The operator's name, with its domain where it is not the default one."""
    return f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type


def constant_proto(array: np.ndarray, name: str) -> TensorProto:
    """The elements as ONNX's message."""
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
