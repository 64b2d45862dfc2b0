"""Rounding to the numbers of a quantized type, with scales and zero points that are tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlirfuse.frontends.torch_decompositions.accumulation import Table

if TYPE_CHECKING:
    import torch


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    return {
        aten.fake_quantize_per_channel_affine_cachemask.default: _of_channels,
        aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: _of_tensor,
    }


def _rounded(
    x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor, low: int, high: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The rounded numbers, and which were not clamped."""
    import torch

    wide = x.float()
    if zero.is_floating_point():
        found = torch.round(wide * (1 / scale) + zero)
    else:
        found = torch.round(wide * (1 / scale)) + zero
    inside = (found >= low) & (found <= high)
    return ((found.clamp(low, high) - zero) * scale).to(x.dtype), inside


def _of_channels(
    x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int, low: int, high: int
) -> tuple[torch.Tensor, torch.Tensor]:
    shape = [1] * x.dim()
    shape[axis] = x.shape[axis]
    return _rounded(x, scale.view(shape), zero_point.view(shape), low, high)


def _of_tensor(
    x: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    enabled: torch.Tensor,
    low: int,
    high: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    found, inside = _rounded(x, scale.reshape(()), zero_point.reshape(()), low, high)
    is_on = enabled.reshape(()) != 0
    return torch.where(is_on, found, x), inside | ~is_on
