"""Losses whose decomposition in PyTorch is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_half

if TYPE_CHECKING:
    import torch

MEAN, SUM = 1, 2
"""Values of the argument `reduction` of losses."""


def table() -> Table:
    """The decompositions."""
    import torch

    return {torch.ops.aten.multilabel_margin_loss_forward.default: _multilabel_margin_loss}


def _multilabel_margin_loss(
    x: torch.Tensor, target: torch.Tensor, reduction: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss, and 1 for each class that is a target.

    Of a row of targets those before its first -1 count. PyTorch 2.13's decomposition counts the
    others as class 0.

    Args:
      x: scores of classes, (batch, classes) or (classes).
      target: classes, in the shape of `x`.
      reduction: 0 for a loss of each row, `MEAN`, or `SUM`.
    """
    import torch

    scores, targets = torch.atleast_2d(x), torch.atleast_2d(target)
    scores = scores.float() if is_half(x.dtype) else scores
    count = scores.shape[1]
    counted = (targets != -1).to(torch.int64).cumprod(1) != 0
    classes = torch.where(counted, targets, 0)
    columns = torch.arange(count, device=x.device)
    is_target = ((columns == classes.unsqueeze(2)) & counted.unsqueeze(2)).any(1)
    margin = 1 - scores.gather(1, classes).unsqueeze(2) + scores.unsqueeze(1)
    counts = counted.unsqueeze(2) & ~is_target.unsqueeze(1)
    loss = torch.where(counts, margin.clamp_min(0), 0).sum((1, 2)) / count
    if reduction == MEAN:
        loss = loss.mean()
    elif reduction == SUM:
        loss = loss.sum()
    elif x.dim() < 2:
        loss = loss.squeeze(0)
    return loss.to(x.dtype), is_target.to(x.dtype).reshape(target.shape)
