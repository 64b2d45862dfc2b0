"""Selections by values: indices of elements that are not zero, repeated or counted indices.

Where the size of the result depends on the values, the program reads it from the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table

if TYPE_CHECKING:
    import torch


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    return {
        aten.repeat_interleave.Tensor: _repeat_interleave,
        aten.nonzero_static.default: _nonzero_static,
        aten.masked_select.default: _masked_select,
        aten.bincount.default: _bincount,
    }


def _size(count: torch.Tensor) -> Any:
    """A number of the device as a size."""
    import torch

    size = count.item()
    torch._check(size >= 0)
    return size


def _repeat_interleave(repeats: torch.Tensor, *, output_size: int | None = None) -> Any:
    """Index i as often as element i says: the number of runs that end before each place."""
    import torch

    ends = repeats.cumsum(0)
    if output_size is None:
        output_size = _size(ends[-1])
    place = torch.arange(output_size, device=repeats.device)
    return torch.searchsorted(ends, place, right=True).to(repeats.dtype)


def _places(there: torch.Tensor, size: Any) -> torch.Tensor:
    """Flat indices of the first `size` true elements, in order; -1 where there are fewer."""
    import torch

    number = there.to(torch.int64).cumsum(0)
    row = torch.where(there, number - 1, size).clamp(max=size)
    rows = torch.full((size + 1,), -1, dtype=torch.int64, device=there.device)
    # Any of the others comes to be in the last row, which is dropped.
    return rows.scatter(0, row, torch.arange(there.shape[0], device=there.device))[:size]


def _nonzero_static(x: torch.Tensor, *, size: int, fill_value: int = -1) -> torch.Tensor:
    """The first indices of elements that are not zero, each in the row of its number."""
    import torch

    if not size or not x.dim() or not x.numel():
        return torch.full((size, x.dim()), fill_value, dtype=torch.int64, device=x.device)
    flat = _places((x != 0).reshape(-1), size)
    columns: list[torch.Tensor] = []
    rest = flat
    for extent in reversed(x.shape):
        columns.insert(0, torch.remainder(rest, extent))
        rest = torch.div(rest, extent, rounding_mode="floor")
    indices = torch.stack(columns, -1)
    return torch.where((flat >= 0).unsqueeze(-1), indices, fill_value)


def _masked_select(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The elements where the mask is true."""
    import torch

    x, mask = torch.broadcast_tensors(x, mask)
    if isinstance(x.numel(), int) and not x.numel():
        return x.new_zeros(0)
    there = mask.reshape(-1)
    size = _size(there.sum())
    return x.reshape(-1).index_select(0, _places(there, size))


def _bincount(
    x: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0
) -> torch.Tensor:
    """How often each number from 0 on occurs."""
    import torch

    kind = torch.int64 if weights is None else torch.float64
    if weights is not None and weights.dtype == torch.float32:
        kind = torch.float32
    if isinstance(x.numel(), int) and not x.numel():
        return torch.zeros(minlength, dtype=torch.int64, device=x.device)
    wide = x.to(torch.int64)
    size = _size((wide.amax() + 1).clamp(min=minlength))
    count = torch.zeros((size,), dtype=kind, device=x.device)
    added = torch.ones_like(wide) if weights is None else weights.to(kind)
    return count.scatter_add(0, wide, added)
