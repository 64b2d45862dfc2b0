"""Histograms, by comparing each element with all bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
        aten._histogramdd_bin_edges.default: _histogramdd_edges,
        aten._histogramdd_from_bin_cts.default: _histogramdd_of_count,
        aten._histogramdd_from_bin_tensors.default: _histogramdd_of_edges,
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
    hit = _inside(value.unsqueeze(-1), bins)
    count = torch.where(hit, weights.unsqueeze(-1), 0).sum(0)
    if density:
        count = count / (count.sum() * (bins[1:] - bins[:-1]))
    return count, bins.clone()


def _edges_of_count(x: torch.Tensor, bins: int, limits: Sequence[float] | None) -> torch.Tensor:
    """Ends of bins of equal width between two limits, which are exact, or over the data."""
    import torch

    if limits is not None:
        low, high = (x.new_full((), limit) for limit in limits)
    elif not x.numel():
        low, high = x.new_zeros(()), x.new_ones(())
    else:
        low, high = x.amin(), x.amax()
        same = low == high
        low, high = torch.where(same, low - 0.5, low), torch.where(same, high + 0.5, high)
    step = torch.arange(bins + 1, device=x.device).to(x.dtype) / bins
    return torch.where(step == 1, high, low + (high - low) * step)


def _histogramdd_edges(
    x: torch.Tensor,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: torch.Tensor | None = None,
    density: bool = False,
) -> list[torch.Tensor]:
    """The ends of the bins of each column."""
    rows = x.reshape(-1, x.shape[-1])
    found = []
    for axis, count in enumerate(bins):
        limits = None if range is None else range[2 * axis : 2 * axis + 2]
        found.append(_edges_of_count(rows[:, axis], count, limits))
    return found


def _histogramdd_of_count(
    x: torch.Tensor, bins: Sequence[int], *, range: Sequence[float] | None = None, **others: Any
) -> torch.Tensor:
    return _histogramdd_of_edges(x, _histogramdd_edges(x, bins, range=range), **others)


def _histogramdd_of_edges(
    x: torch.Tensor,
    bins: Sequence[torch.Tensor],
    *,
    weight: torch.Tensor | None = None,
    density: bool = False,
) -> torch.Tensor:
    """Products of the bins of each column, summed over the rows."""
    import torch

    rows = x.reshape(-1, x.shape[-1])
    total = torch.ones_like(rows[:, 0]) if weight is None else weight.reshape(-1)
    total = total.unsqueeze(-1)
    volume = x.new_ones(1)
    for axis, edges in enumerate(bins):
        inside = _inside(rows[:, axis].unsqueeze(-1), edges).to(x.dtype)
        total = (total.unsqueeze(-1) * inside.unsqueeze(1)).flatten(1)
        volume = (volume.unsqueeze(-1) * (edges[1:] - edges[:-1])).flatten()
    count = total.sum(0)
    if density:
        count = count / (count.sum() * volume)
    return count.view([edges.shape[0] - 1 for edges in bins])


def _inside(value: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    """Whether values are in the bins of the last axis, the last of which is closed."""
    import torch

    low, high = edges[:-1], edges[1:]
    last = torch.arange(high.shape[0], device=value.device) == high.shape[0] - 1
    return (value >= low) & ((value < high) | (last & (value == high)))


def _histogram_of_count(
    x: torch.Tensor,
    bins: int = 100,
    *,
    range: list[float] | None = None,
    weight: torch.Tensor | None = None,
    density: bool = False,
) -> Pair:
    edges = _edges_of_count(x, bins, range)
    return _histogram_of_edges(x, edges, weight=weight, density=density)
