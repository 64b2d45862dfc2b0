"""Selections by values: indices of elements that are not zero, repeated or counted indices.

Where the size of the result depends on the values, the program reads it from the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_empty
from mlirfuse.frontends.torch_decompositions.ordering import ordered

if TYPE_CHECKING:
    import torch


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    return {
        aten.repeat_interleave.Tensor: _repeat_interleave,
        aten.nonzero.default: _nonzero,
        aten.nonzero_static.default: _nonzero_static,
        aten._unique2.default: _unique,
        aten.unique_dim.default: _unique_dim,
        aten.unique_consecutive.default: _unique_consecutive,
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
    return torch.where((flat >= 0).unsqueeze(-1), _unraveled(flat, x.shape), fill_value)


def _unraveled(flat: torch.Tensor, shape: Sequence[Any]) -> torch.Tensor:
    """Indices of each axis, as columns."""
    import torch

    columns: list[torch.Tensor] = []
    for extent in reversed(shape):
        columns.insert(0, torch.remainder(flat, extent))
        flat = torch.div(flat, extent, rounding_mode="floor")
    return torch.stack(columns, -1)


def _nonzero(x: torch.Tensor) -> torch.Tensor:
    """The indices of elements that are not zero; IREE 3.13 crashes on some shapes."""
    import torch

    if is_empty(x):
        return torch.zeros((0, x.dim()), dtype=torch.int64, device=x.device)
    there = (x != 0).reshape(-1)
    size = _size(there.sum())
    if not x.dim():
        return torch.zeros((size, 0), dtype=torch.int64, device=x.device)
    return _unraveled(_places(there, size), x.shape)


Unique = tuple["torch.Tensor", "torch.Tensor", "torch.Tensor"]
"""Values, the place of each element among them, and how often each occurs."""


def _unique(
    x: torch.Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    """Equal elements are neighbors after sorting."""
    return _of_elements(x, _unique_rows, return_inverse, return_counts)


def _unique_dim(
    x: torch.Tensor,
    dim: int,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    """The parts along an axis in lexicographic order; indices and counts are always computed."""
    return _along(x, dim, _unique_rows)


def _unique_consecutive(
    x: torch.Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    if dim is None:
        return _of_elements(x, _runs, return_inverse, return_counts)
    return _along(x, dim, _runs)


def _of_elements(
    x: torch.Tensor,
    select: Callable[[torch.Tensor], Unique],
    return_inverse: bool,
    return_counts: bool,
) -> Unique:
    """A selection among all elements; results that are not wanted have none."""
    import torch

    empty = torch.zeros(0, dtype=torch.int64, device=x.device)
    if is_empty(x):
        return x.new_zeros(0), empty.view(x.shape) if return_inverse else empty, empty
    values, among, counts = select(x.reshape(-1, 1))
    return (
        values.squeeze(-1),
        among.view(x.shape) if return_inverse else empty,
        counts if return_counts else empty,
    )


def _along(x: torch.Tensor, dim: int, select: Callable[[torch.Tensor], Unique]) -> Unique:
    """A selection among the parts along an axis, each as a row."""
    import torch

    if is_empty(x):
        if x.shape[dim]:
            raise ValueError("parts without elements are all equal: PyTorch refuses them")
        empty = torch.zeros(0, dtype=torch.int64, device=x.device)
        return x.clone(), empty, empty
    whole = x.movedim(dim, 0) if x.dim() else x.view(1)
    rows, among, counts = select(whole.reshape(whole.shape[0], -1))
    values = rows.view(-1, *whole.shape[1:])
    return values.movedim(0, dim), among, counts


def _unique_rows(rows: torch.Tensor) -> Unique:
    import torch

    if rows.shape[1] == 1:
        place = ordered(rows.squeeze(1), descending=False)
    else:
        place = _lexicographic(rows)
    values, among, counts = _runs(rows.index_select(0, place))
    return values, torch.zeros_like(place).scatter(0, place, among), counts


def _lexicographic(rows: torch.Tensor) -> torch.Tensor:
    """Indices that sort rows by their first columns that differ."""
    import torch

    count, width = rows.shape
    row = rows.to(torch.int32) if rows.dtype in (torch.bool, torch.uint8) else rows
    this, other = row.unsqueeze(1), row.unsqueeze(0)
    column = torch.arange(width, device=rows.device)
    first = torch.where(this != other, column, width).amin(-1, keepdim=True)
    ahead = ((column == first) & (other < this)).any(-1)
    index = torch.arange(count, device=rows.device)
    ahead = ahead | ((first.squeeze(-1) == width) & (index < index.unsqueeze(-1)))
    return torch.zeros_like(index).scatter(0, ahead.sum(-1), index)


def _runs(rows: torch.Tensor) -> Unique:
    """The first row of each run of equal ones, the run of each row, lengths of the runs."""
    import torch

    start = torch.ones(1, dtype=torch.bool, device=rows.device)
    if rows.shape[0] > 1:
        start = torch.cat([start, (rows[1:] != rows[:-1]).any(1)])
    size = _size(start.sum())
    among = start.to(torch.int64).cumsum(0) - 1
    counts = torch.zeros((size,), dtype=torch.int64, device=rows.device)
    counts = counts.scatter_add(0, among, torch.ones_like(among))
    return rows.index_select(0, _places(start, size)), among, counts


def _masked_select(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The elements where the mask is true."""
    import torch

    x, mask = torch.broadcast_tensors(x, mask)
    if is_empty(x):
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
    if is_empty(x):
        return torch.zeros(minlength, dtype=torch.int64, device=x.device)
    wide = x.to(torch.int64)
    size = _size((wide.amax() + 1).clamp(min=minlength))
    count = torch.zeros((size,), dtype=kind, device=x.device)
    added = torch.ones_like(wide) if weights is None else weights.to(kind)
    return count.scatter_add(0, wide, added)
