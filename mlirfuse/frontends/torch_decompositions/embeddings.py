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

    Bags of one size, as `torch.nn.EmbeddingBag` makes them of a matrix of indices, are rows of a
    tensor; others are scattered to the number of their bag.
    """
    bags, count = offsets.shape[0] - int(include_last_offset), indices.shape[0]
    kept = indices != padding_idx if padding_idx >= 0 else indices == indices
    rows = weight.index_select(0, indices).float()
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.float().unsqueeze(-1)
    rows = rows.masked_fill(~kept.unsqueeze(-1), -math.inf if mode == 2 else 0.0)
    each = _step(offsets)
    if each and isinstance(bags, int) and isinstance(count, int) and each * bags == count:
        size = kept.view(bags, each).sum(1)
        rows = rows.view(bags, each, rows.shape[1])
        found = rows.amax(1) if mode == 2 else rows.sum(1)
    else:
        size, found = _scattered(rows, kept, offsets[:bags], mode)
    if mode == 2:
        found = found.masked_fill((size == 0).unsqueeze(-1), 0.0)
    elif mode == 1:
        found = found / size.clamp(min=1).unsqueeze(-1)
    empty = offsets.new_zeros(0)
    return found.to(weight.dtype), empty, size, empty


def _scattered(
    rows: torch.Tensor, kept: torch.Tensor, start: torch.Tensor, mode: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The number of rows that each bag keeps, and their sum or maximum.

    Args:
      rows: the rows.
      kept: whether a row counts.
      start: where each bag begins; those with the same start but the last one are empty.
      mode: 2 for the maximum.
    """
    # Each bag that begins before a row, or at it, adds one to the number of the row's bag.
    begins = start.new_zeros(rows.shape[0] + 1).index_add(0, start, start * 0 + 1)
    bag = begins[:-1].cumsum(0) - 1
    size = start.new_zeros(start.shape[0]).index_add(0, bag, kept.to(start.dtype))
    if mode == 2:
        lowest = rows.new_full((start.shape[0], rows.shape[1]), -math.inf)
        return size, lowest.index_reduce(0, bag, rows, "amax")
    return size, rows.new_zeros(start.shape[0], rows.shape[1]).index_add(0, bag, rows)


def _step(offsets: torch.Tensor) -> int:
    """The size of bags whose offsets the traced program counts from zero; 0 where it does not."""
    import torch
    from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot

    mode = get_proxy_mode()
    held = None if mode is None else get_proxy_slot(offsets, mode.tracer, None)
    node = getattr(getattr(held, "proxy", None), "node", None)
    if node is None or node.target is not torch.ops.aten.arange.start_step:
        return 0
    first, _, step = [*node.args, 1][:3]
    return step if first == 0 and isinstance(step, int) else 0
