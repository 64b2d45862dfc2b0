"""Matmuls of groups of rows, each with a matrix of its own: the experts of a mixture.

y[r] = x[r] @ w[g]    for the rows r of group g, which ends before row ends[g]
  becomes
y = concat over g (x where the row is of group g, else 0) @ w with its groups one below the other

One contraction over groups and columns, whatever the sizes of the groups, which depend on values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table

if TYPE_CHECKING:
    import torch

_OF_TRANSFORMERS = "grouped_mm_fallback"
"""Name of the op that transformers registers when it is imported; its operands are those here."""


def table() -> Table:
    """The decompositions of PyTorch's op, and of transformers' where it is imported."""
    import torch

    found: Table = {torch.ops.aten._grouped_mm.default: _grouped_mm}
    others = torch.ops.transformers
    if hasattr(others, _OF_TRANSFORMERS):
        found[getattr(others, _OF_TRANSFORMERS).default] = _grouped_mm
    return found


def _grouped_mm(
    x: torch.Tensor,
    w: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Any:
    """Rows (R, K) by matrices (G, K, N), the groups ending before rows `offs` (G): (R, N).

    Rows behind the last group are zeros. Other forms are left to the exporter.
    """
    import torch

    if x.dim() != 2 or w.dim() != 3 or offs is None or bias is not None:
        return NotImplemented
    rows, columns = x.shape
    groups = w.shape[0]
    row = torch.arange(rows, dtype=offs.dtype, device=x.device)
    group = (row.unsqueeze(-1) >= offs).to(torch.int32).sum(-1, dtype=torch.int32)
    number = torch.arange(groups, dtype=torch.int32, device=x.device)
    of_group = (group.unsqueeze(-1) == number).unsqueeze(-1)
    wide = torch.where(of_group, x.unsqueeze(1), 0).reshape(rows, groups * columns)
    y = torch.mm(wide, w.reshape(groups * columns, -1))
    return y if out_dtype is None else y.to(out_dtype)
