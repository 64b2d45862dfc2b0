"""Connectionist temporal classification as a loop over time.

PyTorch's exporter does not trace `_ctc_loss`: the size of its second result, for the gradient
alone, depends on the lengths of the targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlirfuse.frontends.torch_decompositions.loops import Carried, repeat

if TYPE_CHECKING:
    import torch


def ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: torch.Tensor | Sequence[int],
    target_lengths: torch.Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> torch.Tensor:
    """The loss `torch.nn.functional.ctc_loss`.

    Args:
      log_probs: (steps, batch, classes) or (steps, classes).
      targets: classes, (batch, length) or those of all sequences in one dimension.
      input_lengths: number of steps of each sequence.
      target_lengths: number of targets of each sequence.
      blank: the class between targets.
      reduction: `none`, `mean` (of each loss by the length of its target) or `sum`.
      zero_infinity: whether infinite losses count as zero.
    """
    import torch

    batched = log_probs.dim() == 3
    log_probs = log_probs if batched else log_probs.unsqueeze(1)
    batch = log_probs.shape[1]
    steps, counts = (
        torch.as_tensor(lengths, dtype=torch.int64, device=log_probs.device).reshape(batch)
        for lengths in (input_lengths, target_lengths)
    )
    states = _states(targets, counts, batch, blank)
    alpha = _forward(log_probs, states, steps)
    last = alpha.gather(1, 2 * counts.unsqueeze(1))
    before = alpha.gather(1, (2 * counts.unsqueeze(1) - 1).clamp_min(0))
    before = torch.where(counts.unsqueeze(1) > 0, before, float("-inf"))
    loss = -_log_sum(last, before).squeeze(1)
    if zero_infinity:
        loss = torch.where(loss == float("inf"), 0, loss)
    if reduction == "mean":
        return (loss / counts.clamp_min(1)).mean()
    if reduction == "sum":
        return loss.sum()
    return loss if batched else loss.squeeze(0)


def _states(targets: torch.Tensor, counts: torch.Tensor, batch: int, blank: int) -> torch.Tensor:
    """The classes of the states, (batch, 2 * length + 1): the targets with blanks between them."""
    import torch

    targets = targets.to(torch.int64)
    if targets.dim() == 1:
        length = targets.shape[0]
        first = counts.cumsum(0) - counts
        places = first.unsqueeze(1) + torch.arange(length, device=targets.device)
        targets = targets[places.clamp_max(length - 1)]
    blanks = torch.full_like(targets, blank)
    pairs = torch.stack([blanks, targets], 2).reshape(batch, -1)
    return torch.cat([pairs, pairs.new_full((batch, 1), blank)], 1)


def _forward(log_probs: torch.Tensor, states: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
    """The logarithms of the probabilities of the states after the last step, (batch, states)."""
    import torch
    from torch.nn import functional

    lowest = float("-inf")
    count = log_probs.shape[0]
    index = states.clamp(0, log_probs.shape[2] - 1).expand(count, *states.shape)
    emitted = log_probs.gather(2, index)
    # A blank between two different targets may be left out.
    skips = functional.pad(states[:, 2:] != states[:, :-2], (2, 0))
    alpha = functional.pad(emitted[0, :, :2], (0, states.shape[1] - 2), value=lowest)
    alpha = torch.where(steps.unsqueeze(1) > 0, alpha, lowest)

    def body(k: torch.Tensor, carried: Carried) -> Carried:
        alpha, emitted, skips, steps = carried
        at = (k + 1).view(1)
        one = functional.pad(alpha, (1, 0), value=lowest)[:, :-1]
        two = functional.pad(alpha, (2, 0), value=lowest)[:, :-2]
        two = torch.where(skips, two, lowest)
        new = _log_sum(alpha, one, two) + emitted.index_select(0, at).squeeze(0)
        return torch.where(at < steps.unsqueeze(1), new, alpha), emitted, skips, steps

    return repeat(count - 1, body, (alpha, emitted, skips, steps))[0]


def _log_sum(*terms: torch.Tensor) -> torch.Tensor:
    """The logarithm of the sum of exponentials, elementwise."""
    import torch

    largest = terms[0]
    for term in terms[1:]:
        largest = torch.maximum(largest, term)
    offset = torch.where(largest == float("-inf"), 0, largest)
    total = torch.exp(terms[0] - offset)
    for term in terms[1:]:
        total = total + torch.exp(term - offset)
    return torch.log(total) + offset
