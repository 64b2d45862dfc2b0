"""IREE's importer of FX graphs with literals and locations of ours."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from mlirfuse.frontends.torch_nodes import CurrentNode
from mlirfuse.frontends.weights import INLINE_BYTES, Weights
from mlirfuse.marks import LAYER, of_metadata
from mlirfuse.support.tensor_bytes import bytes_of

if TYPE_CHECKING:
    import torch
    from iree.compiler import ir


TensorKey: TypeAlias = tuple[Any, ...]
"""Tells the memory of a tensor from that of others."""


def tensor_key(tensor: torch.Tensor) -> TensorKey:
    """The key of a tensor: equal for tensors of the same memory, type and layout."""
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tuple(tensor.stride())


@functools.cache
def importer_classes() -> tuple[Any, Any]:
    """Subclasses of the importer's hooks, and of its cache.

    Hooks take weights, which collect large tensors, and names of parameters by `tensor_key`; a
    cache takes a context, the importer's tracker, and what is told of each node before it is
    imported. They are made once: a class is in a cycle with itself, and one that is made for an
    import would keep its context, with all constants, until the garbage collector runs.
    """
    import numpy as np
    import torch
    from iree.compiler import ir
    from iree.compiler.extras import fx_importer

    class Hooks(fx_importer.FxImporterHooks):  # type: ignore[misc]
        def __init__(self, weights: Weights, parameters: Mapping[TensorKey, str]) -> None:
            self.weights = weights
            self.parameters = parameters
            self.attributes: dict[TensorKey, ir.Attribute] = {}

        def resolve_literal(self, importer: Any, literal: Any, info: Any) -> ir.Value | None:
            if not isinstance(literal, torch.Tensor) or literal.layout != torch.strided:
                return None
            if literal.dtype.is_complex:
                return self.complex(importer, literal, info)
            if literal.numel() < 2 or literal.dtype == torch.bool:
                return None
            if literal.dtype == torch.float64:
                # IREE converts it to float32, in inline data but not in resources.
                array = np.ascontiguousarray(literal.detach().cpu().numpy())
                return self.literal(importer, literal, ir.DenseElementsAttr.get(array))
            small = literal.nbytes < INLINE_BYTES
            if small and literal.dtype != torch.bfloat16:
                return None
            key, attributes = tensor_key(literal), self.attributes
            if key in self.parameters and key not in attributes:
                tensor_type = str(fx_importer.create_mlir_tensor_type(literal))
                text = self.weights.add_parameter(self.parameters[key], tensor_type)
                attributes[key] = ir.Attribute.parse(text)
            if key not in attributes:
                array = bytes_of(literal).numpy()
                name = info.input_spec.target if info is not None else "constant"
                tensor_type = str(fx_importer.create_mlir_tensor_type(literal))
                # Small constants become parts of dispatches, where IREE supports no bf16 resource
                # on the CPU; the importer would make one.
                text = (
                    f'dense<"0x{array.tobytes().hex()}"> : {tensor_type}'
                    if small
                    else self.weights.add(name, array, tensor_type)
                )
                attributes[key] = ir.Attribute.parse(text)
            return self.literal(importer, literal, attributes[key])

        def resolve_input(self, importer: Any, value: Any, info: Any) -> ir.Value | None:
            return self.resolve_literal(importer, value, info)

        def complex(self, importer: Any, literal: torch.Tensor, info: Any) -> ir.Value:
            # IREE 3.13 cannot evaluate an expression of complex constants.
            parts = []
            for part in (torch.real(literal), torch.imag(literal)):
                part = part.detach().cpu().contiguous()
                found = self.resolve_literal(importer, part, info)
                small = ir.DenseElementsAttr.get(part.numpy()) if found is None else None
                parts.append(found or self.literal(importer, part, small))
            return ir.Operation.create(
                "torch.aten.complex",
                results=[importer._cc.tensor_to_vtensor_type(literal)],
                operands=parts,
            ).result

        def literal(self, importer: Any, tensor: torch.Tensor, value: ir.Attribute) -> ir.Value:
            return ir.Operation.create(
                "torch.vtensor.literal",
                results=[importer._cc.tensor_to_vtensor_type(tensor)],
                attributes={"value": value},
            ).result

    class Cache(fx_importer.ContextCache):  # type: ignore[misc]
        def __init__(self, context: ir.Context, tracker: Any, current: CurrentNode) -> None:
            super().__init__(context, py_attr_tracker=tracker)
            self.current = current

        def get_node_location(self, node: torch.fx.Node) -> ir.Location:
            self.current.node = node
            return _located(super().get_node_location(node), node, self._c)

    return Hooks, Cache


def _located(position: ir.Location | None, node: torch.fx.Node, context: ir.Context) -> ir.Location:
    """Adds the submodule and the marks of a node to its source position."""
    from iree.compiler import ir

    location = position or ir.Location.unknown(context)
    # An argument's location becomes the function's, which is a part of many ops' locations.
    if node.op != "call_function":
        return location
    layer = _module_path(node)
    for name in (*([LAYER + layer] if layer else []), *of_metadata(node.meta.get("custom"))):
        location = ir.Location.name(name, location, context=context)
    return location


_DYNAMO_ITEM = re.compile(r"\['([\w.]+)'\]")
_DYNAMO_ROOT = re.compile(r"^[LG]\.")
"""Local and global variables of the compiled function."""


def _module_path(node: torch.fx.Node) -> str:
    """The submodule whose code made the node, e.g. `blocks.0.norm`; empty for the model's own.

    Dynamo's path of a model that a compiled function calls, as `G['model'].blocks.0.norm`, is
    `model.blocks.0.norm`.
    """
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = str(stack[-1][0]).removeprefix("L['self']") if stack else ""
    return _DYNAMO_ROOT.sub("", _DYNAMO_ITEM.sub(r".\1", path)).lstrip(".")
