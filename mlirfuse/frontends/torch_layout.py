"""Tensors whose axes have another order in memory, passed and returned in that order.

    forward(x: f32[640, 64] of strides (1, 640)) -> gelu(x), of strides (1, 640)
  becomes
    main(x: f32[64, 640]) -> f32[64, 640]

Otherwise each call would begin with a transposed copy of `x`. The caller passes `x` as before: the
runtime permutes it, which copies nothing where its memory is that of the example.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_nodes import meta_with
from mlirfuse.frontends.torch_program import tensor_names
from mlirfuse.support.signature import TensorSpec, inverse

if TYPE_CHECKING:
    import torch

Order = tuple[int, ...]


def memory_order(value: torch.Tensor) -> Order | None:
    """The axes from the outermost to the innermost in memory; None for memory with gaps.

    A transposed matrix gives `(1, 0)`. None where the order depends on a symbolic size.
    """
    from torch.fx.experimental.symbolic_shapes import statically_known_true as known

    shape, strides = value.shape, value.stride()
    axes = [axis for axis in range(value.dim()) if not known(shape[axis] == 1)]
    order: list[int] = []
    inner: Any = 1
    while axes:
        axis = next((axis for axis in reversed(axes) if known(strides[axis] == inner)), None)
        if axis is None:
            return None
        axes.remove(axis)
        order.insert(0, axis)
        inner = inner * shape[axis]
    if order == sorted(order):
        return tuple(range(value.dim()))
    return (*(axis for axis in range(value.dim()) if axis not in order), *order)


def user_arguments(program: torch.export.ExportedProgram) -> frozenset[str]:
    """Names of the arguments that a caller passes and the program does not update."""
    from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

    signature = program.graph_signature
    updated = {
        spec.target
        for spec in signature.output_specs
        if spec.kind == OutputKind.USER_INPUT_MUTATION
    }
    return frozenset(
        spec.arg.name
        for spec in signature.input_specs
        if spec.kind == InputKind.USER_INPUT
        and not isinstance(spec.arg, ConstantArgument)
        and spec.arg.name not in updated
    )


def permute_arguments(
    program: torch.export.ExportedProgram, names: Collection[str]
) -> dict[str, Order]:
    """Gives arguments the order of their axes in memory, and results that of their arguments.

    A result gets the order that PyTorch's has where all arguments of its shape have it: with
    arguments of several orders some are transposed in any case, and programs of one order have
    fewer transposes between their ops.

    Args:
      program: a decomposed program, which is changed.
      names: the arguments that may change.

    Returns:
      Name of an argument or a result -> its order, for those whose axes are not in order.
    """
    import torch
    from torch.export.graph_signature import OutputKind, TensorArgument

    graph, permute = program.graph, torch.ops.aten.permute.default
    placeholders = graph.find_nodes(op="placeholder")
    first = next(node for node in graph.nodes if node.op != "placeholder")
    orders: dict[str, Order] = {}
    by_shape: dict[str, set[Order | None]] = {}
    for node in placeholders:
        if node.name in names:
            by_shape.setdefault(_shape(node), set()).add(_static_order(node))
    for node in placeholders:
        order = _static_order(node) if node.name in names else None
        if order is None:
            continue
        value = node.meta["val"]
        with graph.inserting_before(first):
            back = graph.call_function(permute, (node, list(inverse(order))))
        back.meta = {"val": value}
        node.replace_all_uses_with(back, lambda user, back=back: user is not back)
        node.meta = _permuted_meta(node, order)
        orders[node.name] = order
    if not orders:
        return orders
    _sink_permutes(graph, by_shape)
    output = graph.output_node()
    results = list(output.args[0])
    for index, spec in enumerate(program.graph_signature.output_specs):
        order = _static_order(results[index]) if spec.kind == OutputKind.USER_OUTPUT else None
        if order is None or by_shape.get(_shape(results[index])) != {order}:
            continue
        with graph.inserting_before(output):
            stored = graph.call_function(permute, (results[index], list(order)))
        stored.meta = {"val": results[index].meta["val"].permute(order)}
        spec.arg = TensorArgument(name=stored.name)
        results[index] = stored
        orders[stored.name] = order
    output.args = (tuple(results),)
    return orders


def _sink_permutes(graph: torch.fx.Graph, by_shape: Mapping[str, set[Order | None]]) -> None:
    """Moves permutes behind pointwise ops all of whose operands have one order.

    IREE moves a transpose with one user only; ops of two orders would be kernels of their own.

    Args:
      graph: the graph, which is changed.
      by_shape: the orders of the arguments of each shape.
    """
    import torch

    permute = torch.ops.aten.permute.default
    for node in list(graph.nodes):
        found = _in_stored_order(node)
        if found is None:
            continue
        back, operands = found
        order = list(inverse(back))
        if not by_shape.get(_shape(node), set()) <= {tuple(order)}:
            continue  # a transpose at the argument is one of a load
        with graph.inserting_before(node):
            given = [_stored(graph, operand, order) for operand in operands]
            replaced = dict(zip(operands, given, strict=True))
            args = torch.fx.node.map_arg(node.args, lambda n, r=replaced: r.get(n, n))
            stored = graph.call_function(node.target, args, node.kwargs)
            moved = graph.call_function(permute, (stored, list(back)))
        stored.meta = _permuted_meta(node, order)
        moved.meta = {"val": node.meta["val"]}
        node.replace_all_uses_with(moved)
        graph.erase_node(node)
    graph.eliminate_dead_code()


def _in_stored_order(node: torch.fx.Node) -> tuple[Order, list[torch.fx.Node]] | None:
    """The permutation that all operands of a pointwise op have behind them, and its operands.

    Operands with one element along some axes are permuted too. None where there is no permutation,
    or another one, and for other ops.
    """
    import torch

    value = node.meta.get("val")
    aten = torch.ops.aten
    pointwise = torch.Tag.pointwise in getattr(node.target, "tags", ())
    if not (pointwise or node.target is aten._to_copy.default) or not isinstance(
        value, torch.Tensor
    ):
        return None
    operands = [
        operand
        for operand in node.all_input_nodes
        if isinstance(operand.meta.get("val"), torch.Tensor) and operand.meta["val"].dim()
    ]
    backs = set()
    for operand in operands:
        if operand.target is aten.permute.default:
            backs.add(tuple(operand.args[1]))
        elif operand.meta["val"].numel() >= value.numel():
            return None
        if operand.meta["val"].dim() != value.dim():
            return None
    return (backs.pop(), operands) if len(backs) == 1 else None


def _stored(graph: torch.fx.Graph, operand: torch.fx.Node, order: list[int]) -> torch.fx.Node:
    """An operand in stored order: before its permute, or permuted."""
    import torch

    permute = torch.ops.aten.permute.default
    if operand.target is permute:
        return operand.args[0]
    found = graph.call_function(permute, (operand, order))
    found.meta = {"val": operand.meta["val"].permute(order)}
    return found


def _shape(node: Any) -> str:
    """The sizes of a tensor, symbolic ones by name."""
    return str(getattr(node.meta.get("val"), "shape", ""))


def _permuted_meta(node: torch.fx.Node, order: Sequence[int]) -> dict[str, Any]:
    """What a graph knows of an op, for one whose result has its axes in another order."""
    return meta_with(node, node.meta["val"].permute(order))


def _static_order(node: Any) -> Order | None:
    """The order of a tensor of static sizes whose axes are not in order; None for others."""
    import torch

    value = getattr(node, "meta", {}).get("val")
    if not isinstance(value, torch.Tensor) or value.is_complex() or not value.dim():
        return None
    if not all(isinstance(size, int) and size for size in (*value.shape, *value.stride())):
        return None
    order = memory_order(value)
    return None if order == tuple(range(value.dim())) else order


def of_model(
    specs: Sequence[TensorSpec], signature: Any, orders: Mapping[str, Order]
) -> tuple[TensorSpec, ...]:
    """The specs of a program's arguments or results with the shapes of the model.

    Args:
      specs: those of the program.
      signature: `input_specs` or `output_specs` of the exported program.
      orders: results of `permute_arguments`.
    """
    found = []
    for spec, name in zip(specs, tensor_names(signature), strict=True):
        order = orders.get(name, ())
        spec = dataclasses.replace(spec, order=order)
        shape = tuple(spec.shape[axis] for axis in spec.inverse) if order else spec.shape
        found.append(dataclasses.replace(spec, shape=shape))
    return tuple(found)
