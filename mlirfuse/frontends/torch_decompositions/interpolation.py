"""Sampling at given positions: `grid_sample`, resizing with antialiasing, and distances."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_half
from mlirfuse.frontends.torch_decompositions.resizing import cubic_weights

if TYPE_CHECKING:
    import torch


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    return {
        aten.grid_sampler_2d.default: _grid_sampler,
        aten.grid_sampler_3d.default: _grid_sampler,
        aten._upsample_bilinear2d_aa.default: _antialiased(antialiasing),
        aten._upsample_bicubic2d_aa.default: _antialiased(cubic_antialiasing),
        aten._cdist_forward.default: _cdist,
        aten._euclidean_dist.default: _euclidean_distances,
        aten._pdist_forward.default: _pdist,
    }


def _unnormalized(x: torch.Tensor, size: int, align: bool) -> torch.Tensor:
    """Positions in [-1, 1] as positions in pixels."""
    return (x + 1) / 2 * (size - 1) if align else ((x + 1) * size - 1) / 2


def _reflected(x: torch.Tensor, size: int, align: bool) -> torch.Tensor:
    import torch

    low, span = (0.0, size - 1) if align else (-0.5, size)
    if not span:
        return torch.zeros_like(x)
    distance = (x - low).abs()
    turns = torch.floor(distance / span)
    rest = distance - turns * span
    odd = turns - 2 * torch.floor(turns / 2) == 1
    return torch.where(odd, span - rest, rest) + low


def _positions(x: torch.Tensor, size: int, padding: int, align: bool) -> torch.Tensor:
    """0: outside is zero; 1: the border; 2: reflection."""
    if padding == 0:
        return x
    if padding == 2:
        x = _reflected(x, size, align)
    return x.clamp(0, size - 1)


def _picked(x: torch.Tensor, places: list[torch.Tensor]) -> torch.Tensor:
    """Elements (batch, channels, ...) at whole positions of (batch, ...); zero outside.

    Those of half precision are widened: no more elements are converted than are read.
    """
    import torch

    sizes = x.shape[2:]
    inside = torch.ones_like(places[0], dtype=torch.bool)
    flat = torch.zeros_like(places[0], dtype=torch.int64)
    for place, size in zip(places, sizes, strict=True):
        inside = inside & (place >= 0) & (place <= size - 1)
        flat = flat * size + place.clamp(0, size - 1).to(torch.int64)
    index = flat.flatten(1).unsqueeze(1).expand(-1, x.shape[1], -1)
    values = x.flatten(2).gather(2, index).view(*x.shape[:2], *places[0].shape[1:])
    values = values.float() if is_half(x.dtype) else values
    return torch.where(inside.unsqueeze(1), values, 0)


def _grid_sampler(
    x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, align: bool
) -> torch.Tensor:
    """Bilinear (0), nearest (1) or bicubic (2) values at the positions of the grid."""
    import torch

    dtype, sizes = x.dtype, x.shape[2:]
    # The grid's last axis is x, y, z; axes of the input are z, y, x.
    places = [grid[..., -1 - axis] for axis in range(len(sizes))]
    places = [place.float() for place in places] if is_half(dtype) else places
    parts = [_unnormalized(place, size, align) for place, size in zip(places, sizes, strict=True)]
    if mode == 2:
        starts = [torch.floor(part) for part in parts]
        weights = [cubic_weights(part - start) for part, start in zip(parts, starts, strict=True)]
        offsets: range = range(-1, 3)
    else:
        parts = [_positions(p, n, padding, align) for p, n in zip(parts, sizes, strict=True)]
        if mode == 1:
            return _picked(x, [torch.round(part) for part in parts]).to(dtype)
        starts = [torch.floor(part) for part in parts]
        weights = [
            [1 - (part - start), part - start] for part, start in zip(parts, starts, strict=True)
        ]
        offsets = range(2)
    total = None
    for corner in itertools.product(range(len(offsets)), repeat=len(sizes)):
        places = [start + offsets[at] for start, at in zip(starts, corner, strict=True)]
        if mode == 2:
            places = [_positions(p, n, padding, align) for p, n in zip(places, sizes, strict=True)]
        weight = functools.reduce(
            operator.mul, (weights[axis][at] for axis, at in enumerate(corner))
        )
        value = _picked(x, places) * weight.unsqueeze(1)
        total = value if total is None else total + value
    assert total is not None
    return total.to(dtype)


Filter = Callable[["torch.Tensor"], "torch.Tensor"]
"""Weights of distances that are not negative, in elements of the coarser image."""


def _triangle(distance: torch.Tensor) -> torch.Tensor:
    """The filter of linear interpolation."""
    return (1 - distance).clamp(min=0)


def _cubic(distance: torch.Tensor) -> torch.Tensor:
    """The filter of cubic interpolation with a = -0.5, which antialiasing takes."""
    import torch

    near = (1.5 * distance - 2.5) * distance * distance + 1
    far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
    return torch.where(distance < 1, near, torch.where(distance < 2, far, 0))


def antialiasing(
    size: int,
    count: int,
    align: bool,
    scale: float | None,
    like: torch.Tensor,
    weights: Filter = _triangle,
    support: int = 1,
) -> torch.Tensor:
    """Weights (count, size) of a filter that is as wide as the step.

    Args:
      size: elements of the image along the axis.
      count: those of the result.
      align: whether the first and the last elements keep their positions.
      scale: a given factor, for a step that is not that of the sizes.
      like: a tensor of the device.
      weights: the filter.
      support: distance from which its weights are zero.
    """
    import torch

    if align:
        step = (size - 1) / (count - 1) if count > 1 else 0.0
    else:
        step = 1 / scale if scale else size / count
    width = max(step, 1.0)
    center = step * (torch.arange(count, device=like.device).to(torch.float32) + 0.5)
    place = torch.arange(size, device=like.device).to(torch.float32)
    reach = support * width
    low = (center - reach + 0.5).to(torch.int64).clamp(min=0).unsqueeze(-1)
    high = (center + reach + 0.5).to(torch.int64).clamp(max=size).unsqueeze(-1)
    distance = (place - center.unsqueeze(-1) + 0.5).abs() / width
    weight = torch.where((place >= low) & (place < high), weights(distance), 0)
    return weight / weight.sum(-1, keepdim=True)


cubic_antialiasing = functools.partial(antialiasing, weights=_cubic, support=2)
"""The same with the filter of cubic interpolation."""


def _antialiased(weights: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """Resizing with antialiasing; dynamic sizes and bytes have no form here."""

    def decomposition(
        x: torch.Tensor,
        output_size: list[int],
        align_corners: bool,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> Any:
        sizes = x.shape[-2:]
        is_static = all(isinstance(n, int) for n in (*sizes, *output_size))
        if not is_static or not x.is_floating_point():
            return NotImplemented
        rows, columns = (
            weights(size, count, align_corners, scale, x)
            for size, count, scale in zip(sizes, output_size, (scales_h, scales_w), strict=True)
        )
        return (rows @ (x.float() @ columns.mT)).to(x.dtype)

    return decomposition


def _cdist(
    a: torch.Tensor, b: torch.Tensor, p: float, compute_mode: int | None = None
) -> torch.Tensor:
    """The norms of all differences between rows."""
    import torch

    difference = (a.unsqueeze(-2) - b.unsqueeze(-3)).abs()
    if p == 0:
        return (difference != 0).to(a.dtype).sum(-1)
    if p == math.inf:
        return difference.amax(-1) if a.shape[-1] else difference.sum(-1)
    if p == 1:
        return difference.sum(-1)
    if p == 2:
        return torch.sqrt((difference * difference).sum(-1))
    return difference.pow(p).sum(-1).pow(1 / p)


def _euclidean_distances(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The Euclidean norms of all differences between rows, by one matmul with an epilogue."""
    of_a = (a * a).sum(-1, keepdim=True)
    of_b = (b * b).sum(-1).unsqueeze(-2)
    return (of_a + of_b - 2 * (a @ b.mT)).clamp_min(0).sqrt()


def _pdist(x: torch.Tensor, p: float = 2.0) -> torch.Tensor:
    """The norms of the differences of rows i < j, in this order."""
    import torch

    rows = x.shape[0]
    if rows < 2:
        return x.new_zeros(0)
    distances = _cdist(x, x, p)
    parts = [distances[i, i + 1 :] for i in range(rows - 1)]
    return torch.cat(parts)
