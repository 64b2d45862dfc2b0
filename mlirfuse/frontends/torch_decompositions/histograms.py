"""Histograms, by comparing each element with all bins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlirfuse.frontends.torch_decompositions.accumulation import Table

if TYPE_CHECKING:
    import torch

Pair = tuple["torch.Tensor", "torch.Tensor"]


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    return {
        aten.histc.default: _histc,
        aten.histogram.bin_ct: _histogram_of_count,
        aten.histogram.bins_tensor: _histogram_of_edges,
    }


def _histc(x: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> torch.Tensor:
    """Counts in bins of equal width from `min` to `max`, or over the data if both are equal."""
    import torch

    wide = x.flatten().to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    if not x.numel():
        return torch.zeros(bins, dtype=x.dtype, device=x.device)
    low = torch.full((), float(min), dtype=wide.dtype, device=x.device)
    high = torch.full((), float(max), dtype=wide.dtype, device=x.device)
    if min == max:
        low, high = wide.amin(), wide.amax()
        low, high = torch.where(low == high, low - 1, low), torch.where(low == high, high + 1, high)
    inside = (wide >= low) & (wide <= high)
    place = torch.floor((wide - low) * bins / (high - low)).clamp(max=bins - 1)
    index = torch.arange(bins, device=x.device)
    hit = inside & (place == index.to(wide.dtype).unsqueeze(-1))
    return hit.sum(-1).to(x.dtype)


def _histogram_of_edges(
    x: torch.Tensor,
    bins: torch.Tensor,
    *,
    weight: torch.Tensor | None = None,
    density: bool = False,
) -> Pair:
    import torch

    value = x.reshape(-1)
    weights = torch.ones_like(value) if weight is None else weight.reshape(-1)
    low, high = bins[:-1].unsqueeze(-1), bins[1:].unsqueeze(-1)
    last = torch.arange(bins.shape[0] - 1, device=x.device).unsqueeze(-1) == bins.shape[0] - 2
    hit = (value >= low) & ((value < high) | (last & (value == high)))
    count = torch.where(hit, weights, 0).sum(-1)
    if density:
        count = count / (count.sum() * (bins[1:] - bins[:-1]))
    return count, bins.clone()


def _histogram_of_count(
    x: torch.Tensor,
    bins: int = 100,
    *,
    range: list[float] | None = None,
    weight: torch.Tensor | None = None,
    density: bool = False,
) -> Pair:
    import torch

    if range is None:
        low, high = x.amin(), x.amax()
        low, high = (
            torch.where(low == high, low - 0.5, low),
            torch.where(low == high, high + 0.5, high),
        )
    else:
        low, high = (torch.full((), v, dtype=x.dtype, device=x.device) for v in range)
    step = torch.arange(bins + 1, device=x.device).to(x.dtype) / bins
    edges = torch.where(step == 1, high, low + (high - low) * step)
    return _histogram_of_edges(x, edges, weight=weight, density=density)
