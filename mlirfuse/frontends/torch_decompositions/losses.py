"""Losses whose decomposition in PyTorch is wrong or missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_half

if TYPE_CHECKING:
    import torch

MEAN, SUM = 1, 2
"""Values of the argument `reduction` of losses."""


def table() -> Table:
    """The decompositions."""
    import torch

    return {torch.ops.aten.multilabel_margin_loss_forward.default: _multilabel_margin_loss}


def chunked_table() -> Table:
    """The decompositions of ops that PyTorch registers where a linear cross entropy is used."""
    import torch

    forms: dict[str, Callable[..., Any]] = {
        "_linear_cross_entropy_batch_chunked": _linear_cross_entropy,
        "_linear_cross_entropy_batch_chunked_no_reduction": _unreduced_linear_cross_entropy,
    }
    own = torch.ops.torch_nn
    return {getattr(own, name).default: form for name, form in forms.items() if hasattr(own, name)}


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


def _linear_cross_entropy(
    x: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: torch.Tensor | None,
    weight: torch.Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    chunk: int,
    policy: str,
    accumulator: torch.dtype,
    retain_graph: bool,
    *gradients: bool,
) -> Any:
    """The cross entropy of a linear layer's results, which PyTorch computes in chunks of rows.

    `gradients` says which ones it computes at once: those of input, weight and bias.
    """
    from torch.nn import functional

    if any(gradients):
        return NotImplemented
    wide = (None if t is None else t.to(accumulator) for t in (x, linear_weight, linear_bias))
    loss = functional.cross_entropy(
        functional.linear(*wide),
        target,
        None if weight is None else weight.to(accumulator),
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        reduction=reduction,
    )
    return loss.to(x.dtype), x.new_empty((0, 0)), x.new_empty((0, 0)), x.new_empty((0,))


def _unreduced_linear_cross_entropy(
    x: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: torch.Tensor | None,
    weight: torch.Tensor | None,
    ignore_index: int,
    *settings: Any,
) -> torch.Tensor:
    tensors = (x, linear_weight, target, linear_bias, weight)
    loss: torch.Tensor = _linear_cross_entropy(
        *tensors, "none", ignore_index, 0.0, *settings, False
    )[0]
    return loss
