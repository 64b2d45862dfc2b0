"""Imports of PyTorch's models for a number of samples, in place of any number."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.core import UsageError
from mlirfuse.frontends.batches.open_sizes import is_one_batch
from mlirfuse.frontends.imported import ImportedModel
from mlirfuse.frontends.torch_program import lower_fx

if TYPE_CHECKING:
    import torch


def of_module(
    imported: ImportedModel,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    again: Callable[[Any], ImportedModel],
) -> Callable[[int], ImportedModel] | None:
    """The import of a module for a number of samples, each the first of the example inputs.

    Args:
      imported: the module, imported for any sizes.
      args: its positional example inputs.
      kwargs: its example inputs by keyword; one of the two is empty.
      again: imports it for other example inputs.

    Returns:
      The import; None where other sizes are open than one number of samples, which is the first of
      arguments.
    """
    names = {place: size.name for size in imported.sizes for place in size.dimensions}
    shapes = (
        [
            names.get((index, axis), (index, axis)) if size is None else size
            for axis, size in enumerate(spec.shape)
        ]
        for index, spec in enumerate(imported.inputs)
    )
    if not is_one_batch(shapes):
        return None
    batched = [None in spec.shape for spec in imported.inputs]

    def import_(number: int) -> ImportedModel:
        return again(_resized(args, kwargs, batched, number))

    return import_


def _resized(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], batched: Sequence[bool], number: int
) -> Any:
    """The example inputs with so many samples in those that are batches.

    Raises:
      UsageError: they hold other tensors than the program takes.
    """
    import torch
    from torch.utils import _pytree as pytree

    leaves, structure = pytree.tree_flatten((args, dict(kwargs)))
    tensors = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    if len(tensors) != len(batched):
        raise UsageError(f"{len(tensors)} tensors for a program that takes {len(batched)}")
    for n, is_batch in zip(tensors, batched, strict=True):
        if is_batch:
            leaves[n] = leaves[n][:1].expand(number, *leaves[n].shape[1:]).contiguous()
    args, kwargs = pytree.tree_unflatten(leaves, structure)
    return kwargs or args


def of_graph(
    module: torch.fx.GraphModule, *, source: str, timeout: float | None
) -> Callable[[int], ImportedModel] | None:
    """The import of a graph for a number of samples.

    Args:
      module: a graph of tensors, as it is lowered; a copy of it is kept.
      source: name of the model, for messages.
      timeout: seconds for the lowering; None for no limit.

    Returns:
      The import; None where the graph takes or returns numbers, has no symbolic size, or others
      than one of samples, which is the first of its arguments.
    """
    import torch

    placeholders = [node.meta["val"] for node in module.graph.find_nodes(op="placeholder")]
    results = module.graph.output_node().args[0]
    values = [*placeholders, *(node.meta["val"] for node in results)]
    if not all(isinstance(value, torch.Tensor) for value in values):
        return None
    shapes = [
        [size if isinstance(size, int) else size.node.expr for size in value.shape]
        for value in placeholders
    ]
    symbols = (size for shape in shapes for size in shape if not isinstance(size, int))
    if not is_one_batch(shapes) or not all(size.is_Symbol for size in symbols):
        return None
    kept = _copied(module)
    return functools.partial(_imported, kept, source, timeout)


def _copied(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The module with a graph of its own; tensors are shared."""
    import torch

    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    return torch.fx.GraphModule(module, graph)


def _imported(
    module: torch.fx.GraphModule, source: str, timeout: float | None, number: int
) -> ImportedModel:
    copy = _copied(module)
    _specialize(copy, number)
    imported = lower_fx(copy, source=source, function="main", timeout=timeout)
    imported.unflatten = list
    return imported


def _specialize(module: torch.fx.GraphModule, number: int) -> None:
    """Gives the nodes of a graph the values that they have for a number of samples."""
    import torch
    from torch._subclasses import FakeTensorMode
    from torch.fx.node import map_arg

    class Values(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, n: torch.fx.Node) -> Any:
            result = super().run_node(n)
            n.meta = {**n.meta, "val": result}
            n.meta.pop("tensor_meta", None)  # the importer would take the sizes from it
            return result

    graph = module.graph
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        given = [
            torch.empty(
                [size if isinstance(size, int) else number for size in value.shape],
                dtype=value.dtype,
                device=value.device,
            )
            for value in (node.meta["val"] for node in graph.find_nodes(op="placeholder"))
        ]
        Values(module).run(*given)
    for node in list(graph.nodes):
        value = node.meta.get("val")
        if node.op != "output" and isinstance(value, int):
            for user in list(node.users):

                def known(used: torch.fx.Node, node: Any = node, value: int = value) -> Any:
                    return value if used is node else used

                user.args, user.kwargs = map_arg(user.args, known), map_arg(user.kwargs, known)
            graph.erase_node(node)
    module.recompile()
