"""Results of complex32, which IREE 3.13's runtime has no arrays of, as pairs of float16.

    forward(x: f16[4]) -> complex32[4]
  becomes
    main(x: f16[4]) -> f16[4, 2]

The caller gets a complex32 tensor again, or a complex64 array where the arguments are numpy's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.core import ImportFailedError

if TYPE_CHECKING:
    import torch


def expose_halves(program: torch.export.ExportedProgram, source: str) -> frozenset[int]:
    """Changes the results of complex32 of a decomposed program; returns their indices.

    Raises:
      ImportFailedError: an argument is of complex32.
    """
    import torch
    from torch.export.graph_signature import InputKind, TensorArgument

    aten, graph = torch.ops.aten, program.graph
    users = {
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.kind == InputKind.USER_INPUT
    }
    for node in graph.find_nodes(op="placeholder"):
        if node.name in users and _is_half(node):
            raise ImportFailedError(
                f"{source}: '{node.name}' is of complex32, of which IREE has no arrays; complex64"
                " would be accepted"
            )
    output = graph.output_node()
    results = list(output.args[0])
    found = [index for index, node in enumerate(results) if _is_half(node)]
    for index in found:
        with graph.inserting_before(output):
            pair = graph.call_function(aten.view_as_real.default, (results[index],))
        pair.meta = {"val": torch.view_as_real(results[index].meta["val"])}
        results[index] = pair
        program.graph_signature.output_specs[index].arg = TensorArgument(name=pair.name)
    output.args = (tuple(results),)
    return frozenset(found)


def joined(
    unflatten: Callable[[Sequence[Any]], Any], indices: frozenset[int]
) -> Callable[[Sequence[Any]], Any]:
    """`unflatten` for results of which those at `indices` are pairs."""
    if not indices:
        return unflatten

    def call(results: Sequence[Any]) -> Any:
        return unflatten(
            [_joined(value) if index in indices else value for index, value in enumerate(results)]
        )

    return call


def as_pairs(tensor: torch.Tensor) -> torch.Tensor:
    """The pairs of a tensor of complex32; another tensor itself."""
    import torch

    return torch.view_as_real(tensor) if tensor.dtype == torch.complex32 else tensor


def _is_half(node: Any) -> bool:
    import torch

    value = getattr(node, "meta", {}).get("val")
    return isinstance(value, torch.Tensor) and value.dtype == torch.complex32


def _joined(value: Any) -> Any:
    import numpy as np
    import torch

    if isinstance(value, torch.Tensor):
        return torch.view_as_complex(value)
    if isinstance(value, np.ndarray):
        return value.astype(np.float32).view(np.complex64)[..., 0]
    return value
