"""Elementwise ops and shapes that IREE's importer lowers wrong or not at all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_half

if TYPE_CHECKING:
    import torch


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    comparisons = (aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge)
    return {
        aten.squeeze.dims: _squeeze_dims,
        aten.gelu.default: _gelu,
        **{op.Scalar: _compared_in_one_type(op.Scalar) for op in comparisons},
    }


def _squeeze_dims(x: torch.Tensor, dims: list[int]) -> torch.Tensor:
    named = {d % x.dim() for d in dims} if x.dim() else set()
    # A dynamic size counts as more than one, as it does for PyTorch.
    return x.view(
        [
            size
            for dim, size in enumerate(x.shape)
            if not (dim in named and isinstance(size, int) and size == 1)
        ]
    )


def _gelu(x: torch.Tensor, *, approximate: str = "none") -> Any:
    """GELU by tanh with sqrt(2/pi), where IREE's importer uses 0.797724.

    The error is 5e-5 of the result, below half precision, but no fusion pass recognizes that GELU.
    """
    import torch

    if approximate != "tanh" or is_half(x.dtype):
        return NotImplemented
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))
    return 0.5 * x * (1.0 + torch.tanh(inner))


def _compared_in_one_type(op: Any) -> Callable[..., Any]:
    """Compares a tensor with a scalar of its own kind of type, as PyTorch's promotion does.

    IREE's importer folds a comparison of a floating-point constant with an integer as one of their
    bits, and crashes on a comparison of an integer constant with a float.
    """

    def decomposition(x: torch.Tensor, other: Any) -> Any:
        import torch

        if not isinstance(other, int | float):
            return NotImplemented
        if x.dtype.is_floating_point and not isinstance(other, float):
            return op(x, float(other))
        if not x.dtype.is_floating_point and isinstance(other, float):
            return op(x.to(torch.get_default_dtype()), other)
        if x.dtype == torch.bool:
            return op(x.to(torch.int64), int(other))
        return NotImplemented

    return decomposition
