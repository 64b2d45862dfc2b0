"""Largest and smallest elements of whole tensors, as one reduction.

IREE 3.13's importer reduces one axis after the other: each is a kernel that writes a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_empty

if TYPE_CHECKING:
    import torch


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    return {
        aten.amax.default: _of_all_axes(aten.max.default),
        aten.amin.default: _of_all_axes(aten.min.default),
    }


def _of_all_axes(op: Any) -> Callable[..., Any]:
    def decomposition(x: torch.Tensor, dim: Sequence[int] = (), keepdim: bool = False) -> Any:
        axes = {axis % x.dim() for axis in dim} or {*range(x.dim())}
        if len(axes) < 2 or len(axes) < x.dim() or is_empty(x):
            return NotImplemented
        found = op(x)
        return found.view([1] * x.dim()) if keepdim else found

    return decomposition
