"""Products of matrices with a summand, where IREE 3.13 has a lowering for the parts only.

z = aten.addmm(b, x, y, beta=2, alpha=3)
  becomes
z = 2 * b + 3 * aten.mm(x, y)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table

if TYPE_CHECKING:
    import torch


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    return {aten.addmm.default: _addmm, aten.addbmm.default: _addbmm}


def _addmm(
    b: torch.Tensor, x: torch.Tensor, y: torch.Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Any:
    import torch

    if not (b.dtype.is_floating_point or b.dtype.is_complex):
        beta, alpha = int(beta), int(alpha)
    inner = x.shape[1]
    empty = isinstance(inner, int) and inner == 0
    if b.dtype.is_floating_point and beta == alpha == 1 and not empty:
        return NotImplemented
    shape = (x.shape[0], y.shape[1])
    # A factor of 0 drops the summand even where it is NaN.
    summand = b if beta == 1 else torch.zeros_like(b) if beta == 0 else b * beta
    if empty:
        return summand.expand(shape).clone()
    product = torch.mm(x, y)
    return summand + (product if alpha == 1 else product * alpha)


def _addbmm(
    b: torch.Tensor, x: torch.Tensor, y: torch.Tensor, *, beta: Any = 1, alpha: Any = 1
) -> torch.Tensor:
    """The batch is a part of the inner size of one product."""
    import torch

    rows = x.transpose(0, 1).flatten(1)
    return torch.addmm(b, rows, y.flatten(0, 1), beta=beta, alpha=alpha)
