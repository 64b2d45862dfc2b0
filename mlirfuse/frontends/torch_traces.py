"""Traces a model below PyTorch's transformations of functions, for its exporter.

    forward(x): return torch.func.grad(loss)(x)
  becomes
    forward(x): y = aten.cos(x); return aten.mul(y, 2)

The exporter records calls of `torch.func.grad`, `jvp` and the like, and cannot decompose all of
them. Arguments of some become constants of its program, without their values (PyTorch 2.13).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mlirfuse.core import ImportFailedError

if TYPE_CHECKING:
    import torch


def lost_arguments(program: torch.export.ExportedProgram) -> bool:
    """Whether the exporter took tensors that depend on the arguments for constants."""
    import torch

    constants = program.constants.values()
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return any(isinstance(value, torch.Tensor) and wrapped(value) for value in constants)


def traced(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> torch.nn.Module:
    """A module of aten ops that computes what a model does for arguments of these sizes.

    Raises:
      ImportFailedError: the model writes to its own tensors.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils import _pytree as pytree

    from mlirfuse.frontends.torch_decompositions import decomposition_table, derivatives

    model = copy.deepcopy(model)  # whose tensors a trace updates
    state = [*model.parameters(), *model.buffers()]
    versions = [tensor._version for tensor in state]
    leaves, spec = pytree.tree_flatten((args, dict(kwargs)))
    places = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    results: list[Any] = []

    def flat(*tensors: torch.Tensor) -> list[torch.Tensor]:
        filled = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = tensor
        given, named = pytree.tree_unflatten(filled, spec)
        values, results[:] = _split(model(*given, **named))
        return values

    # The exporter leaves ops as they are that have several kernels of PyTorch's.
    table = {**decomposition_table(whole_attention=False), **derivatives.table()}
    graph = make_fx(flat, table, tracing_mode="fake", _allow_non_fake_inputs=True)(
        *[leaves[place] for place in places]
    )
    if [tensor._version for tensor in state] != versions or any(map(_writes, graph.graph.nodes)):
        raise ImportFailedError("a trace does not keep what a model writes to its own tensors")

    class Traced(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.aten = graph

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            given = pytree.tree_leaves((args, kwargs))
            found = iter(self.aten(*[given[place] for place in places]))
            constants, result = results
            whole = [next(found) if value is None else value[0] for value in constants]
            return pytree.tree_unflatten(whole, result)

    return Traced().eval()


def _writes(node: torch.fx.Node) -> bool:
    """Whether an op writes to a tensor that is no argument and no result of another op."""
    schema = getattr(node.target, "_schema", None)
    given = any(source.op == "get_attr" for source in node.all_input_nodes)
    return schema is not None and schema.is_mutable and given


def _split(result: Any) -> tuple[list[torch.Tensor], list[Any]]:
    """The tensors of a result; its other leaves, each in a tuple, and its containers."""
    import torch
    from torch.utils import _pytree as pytree

    leaves, spec = pytree.tree_flatten(result)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    constants = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]
    return tensors, [constants, spec]
