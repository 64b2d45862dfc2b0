"""Embeddings of bags of indices, and rows that are scaled to a largest norm."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_half

if TYPE_CHECKING:
    import torch


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    return {
        aten._embedding_bag.default: _embedding_bag,
        aten._embedding_bag_forward_only.default: _embedding_bag,
        aten.embedding_renorm.default: _embedding_renorm,
    }


def _embedding_renorm(
    weight: torch.Tensor, indices: torch.Tensor, max_norm: float, norm_type: float
) -> torch.Tensor:
    """Scales the rows that are used, and whose norm is larger."""
    import torch

    used = torch.zeros(weight.shape[0], device=weight.device)
    used = used.scatter(0, indices.reshape(-1), 1.0) > 0
    wide = weight.float() if is_half(weight.dtype) else weight
    norm = torch.linalg.vector_norm(wide, norm_type, 1)
    scale = torch.where(used & (norm > max_norm), max_norm / (norm + 1e-7), 1.0)
    return (wide * scale.unsqueeze(-1)).to(weight.dtype)


def _embedding_bag(
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[torch.Tensor, ...]:
    """Sum (0), mean (1) or maximum (2) of the rows of each bag; other results are not computed.

    IREE 3.13 gives wrong sums where each index has a weight of its own.
    """
    import torch

    count = indices.shape[0]
    place = torch.arange(count, device=weight.device)
    start = offsets[:-1] if include_last_offset else offsets
    end = torch.cat([offsets[1:], offsets.new_full((0 if include_last_offset else 1,), count)])
    inside = (place >= start.unsqueeze(-1)) & (place < end.unsqueeze(-1))
    if padding_idx >= 0:
        inside = inside & (indices != padding_idx)
    rows = weight.index_select(0, indices).float()
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.float().unsqueeze(-1)
    size = inside.sum(-1)
    if mode == 2:
        found = torch.where(inside.unsqueeze(-1), rows, -math.inf).amax(1)
        found = torch.where(size.unsqueeze(-1) == 0, 0.0, found)
    else:
        found = inside.to(rows.dtype) @ rows
        if mode == 1:
            found = found / size.clamp(min=1).unsqueeze(-1)
    empty = offsets.new_zeros(0)
    return found.to(weight.dtype), empty, size, empty
