"""Models of transformers from their configurations: tensors in, tensors out, random weights."""

# Type checks run without PyTorch, whose classes are `Any` to them.
# mypy: allow-subclassing-any

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Wrapped(nn.Module):
    """A model of transformers that takes positional tensors and returns its first result."""

    def __init__(self, model: nn.Module, *names: str) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        """The model's first result for the tensors, which go to the parameters `names`."""
        return self.model(**dict(zip(self.names, tensors, strict=True)), return_dict=False)[0]


def wrapped(model: Any, *names: str) -> nn.Module:
    """A model in evaluation mode whose scales and shifts are random."""
    return varied(Wrapped(model, *names))


def varied(module: nn.Module) -> nn.Module:
    """The module in evaluation mode, its scales and shifts random.

    A compiler could drop operators with ones and zeros.
    """
    for parameter in module.parameters():
        if parameter.ndim == 1:
            parameter.add_(0.1 * torch.randn_like(parameter))
    return module.eval()


def calibrated(module: nn.Module, *inputs: torch.Tensor) -> nn.Module:
    """The module with batch norms whose means and variances are those of the inputs.

    With the initial ones the values of a deep network grow or vanish.
    """
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    module(*inputs)
    return module.eval()
