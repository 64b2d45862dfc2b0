"""Primitives that PyTorch's decompositions leave, as the functions that PyTorch computes them by.

prims.rev(x, [0])                    prims.copy_strided(x, strides)
  becomes
aten.flip(x, [0])                    aten.clone(x)

A program has no strides, so that a copy to others is a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table

if TYPE_CHECKING:
    import torch


def table() -> Table:
    """The decompositions, of primitives that IREE's dialect of PyTorch does not have."""
    import torch
    from iree.compiler import ir

    context = ir.Context()
    found: Table = {}
    for name in torch._prims.__all__:
        op: Any = getattr(getattr(torch.ops.prims, name, None), "default", None)
        compute = getattr(op, "impl_aten", None)
        known = context.is_registered_operation(f"torch.prims.{name}")
        if compute is not None and not known and not op._schema.is_mutable:
            found[op] = compute
    return {**found, torch.ops.prims.copy_strided.default: _copy_strided}


def _copy_strided(x: torch.Tensor, stride: object) -> torch.Tensor:
    return x.clone()
