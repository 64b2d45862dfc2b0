"""Functions of PyTorch that its exporter refuses, in forms that it exports.

Losses raise an error for invalid values, or have inner results whose sizes are values; encoders ask
whether a mask is causal, for a hint alone. The forms ask for no values.
"""

from __future__ import annotations

import contextlib
import math
import sys
from types import CodeType
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.ctc import ctc_loss

if TYPE_CHECKING:
    import torch

MAX_MODES = 4
"""Most frames of other modes between a question for a value and the function that asks."""


def exported_forms() -> contextlib.AbstractContextManager[Any]:
    """A context in which calls have the forms."""
    import torch
    from torch.nn import functional
    from torch.nn.modules import transformer
    from torch.overrides import TorchFunctionMode

    forms = {functional.ctc_loss: ctc_loss, functional.gaussian_nll_loss: _gaussian_nll_loss}
    hint = transformer._detect_is_causal_mask.__code__

    class Forms(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if function is torch.Tensor.__bool__ and _called_by(hint):
                return False  # without the hint the mask itself is applied
            return forms.get(function, function)(*args, **(kwargs or {}))

    return Forms()


def _called_by(code: CodeType) -> bool:
    """Whether a function asks for the value, through the modes of the exporter."""
    frame = sys._getframe(2)
    for _ in range(MAX_MODES):
        if frame.f_code is code:
            return True
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False


def _gaussian_nll_loss(
    x: torch.Tensor,
    target: torch.Tensor,
    var: torch.Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> torch.Tensor:
    """The loss; variances that are negative count as `eps` in place of an error."""
    import torch

    var = torch.as_tensor(var, dtype=x.dtype, device=x.device)
    if var.shape == x.shape[:-1] and var.dim():
        var = var.unsqueeze(-1)
    var = var.clamp_min(eps)
    loss = 0.5 * (torch.log(var) + (x - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()
