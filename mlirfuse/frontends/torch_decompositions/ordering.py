"""Sorting and selection by ranks, with ties and NaN as in PyTorch.

The rank of an element is the number of elements that come before it; the element of rank p is found
by comparing all ranks with p. These are reductions that run in parallel on every target, where IREE
3.13 sorts serially, in an order that depends on the target, and orders NaN at random.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_empty

if TYPE_CHECKING:
    import torch


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    return {
        aten.sort.default: lambda x, dim=-1, descending=False: _sort(x, dim, descending),
        aten.sort.stable: lambda x, *, stable, dim=-1, descending=False: _sort(x, dim, descending),
        aten.argsort.default: lambda x, dim=-1, descending=False: _sort(x, dim, descending)[1],
        aten.argsort.stable: lambda x, *, stable, dim=-1, descending=False: _sort(
            x, dim, descending
        )[1],
        aten.topk.default: _topk,
        aten.kthvalue.default: _kthvalue,
        aten.median.default: lambda x: _median(x.flatten(), 0, False, skip=False)[0],
        aten.median.dim: lambda x, dim, keepdim=False: _median(x, dim, keepdim, skip=False),
        aten.nanmedian.default: lambda x: _median(x.flatten(), 0, False, skip=True)[0],
        aten.nanmedian.dim: lambda x, dim, keepdim=False: _median(x, dim, keepdim, skip=True),
        aten.mode.default: _mode,
        aten.max.dim: lambda x, dim, keepdim=False: _extremum(x, dim, keepdim, largest=True),
        aten.min.dim: lambda x, dim, keepdim=False: _extremum(x, dim, keepdim, largest=False),
        aten.aminmax.default: _aminmax,
        aten.argmax.default: lambda x, dim=None, keepdim=False: _index_of_extremum(
            x, dim, keepdim, largest=True
        ),
        aten.argmin.default: lambda x, dim=None, keepdim=False: _index_of_extremum(
            x, dim, keepdim, largest=False
        ),
        aten.searchsorted.Tensor: _searchsorted,
        aten.searchsorted.Scalar: _searchsorted,
        aten.bucketize.Tensor: _bucketize,
        aten.bucketize.Scalar: _bucketize,
    }


def _is_nan(x: torch.Tensor) -> torch.Tensor | None:
    return x != x if x.dtype.is_floating_point else None


def _comparable(x: torch.Tensor) -> torch.Tensor:
    """IREE compares booleans and bytes as signed."""
    import torch

    return x.to(torch.int32) if x.dtype in (torch.bool, torch.uint8) else x


def _before(a: torch.Tensor, b: torch.Tensor, *, descending: bool) -> torch.Tensor:
    """Whether an element of `a` comes before one of `b`; NaN is larger than every number."""
    ordered = a > b if descending else a < b
    if (nan_a := _is_nan(a)) is None or (nan_b := _is_nan(b)) is None:
        return ordered
    return ordered | (nan_a & ~nan_b if descending else nan_b & ~nan_a)


def _last(x: torch.Tensor, dim: int) -> torch.Tensor:
    """The tensor with the axis in the last place; a scalar has one element."""
    return x.movedim(dim, -1) if x.dim() else x.unsqueeze(0)


def _back(x: torch.Tensor, dim: int, rank: int) -> torch.Tensor:
    return x.movedim(-1, dim) if rank else x.squeeze(0)


def ranks(x: torch.Tensor, *, descending: bool) -> torch.Tensor:
    """The position of each element in the stable order of its row, the last axis."""
    import torch

    x = _comparable(x)
    size = x.shape[-1]
    index = torch.arange(size, dtype=torch.int32, device=x.device)
    this, other = x.unsqueeze(-1), x.unsqueeze(-2)
    earlier = index.unsqueeze(0) < index.unsqueeze(1)
    ahead = torch.where(
        earlier,
        ~_before(this, other, descending=descending),
        _before(other, this, descending=descending),
    )
    return ahead.to(torch.int32).sum(-1, dtype=torch.int32)


def _at(rank: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Indices of the elements of these ranks: (..., size), (..., count) -> (..., count)."""
    import torch

    index = torch.arange(rank.shape[-1], dtype=torch.int32, device=rank.device)
    hit = rank.unsqueeze(-2) == positions.unsqueeze(-1)
    return torch.where(hit, index, 0).sum(-1, dtype=torch.int32).to(torch.int64)


def ordered(x: torch.Tensor, *, descending: bool) -> torch.Tensor:
    """Indices that sort the last axis."""
    return _sort(x, -1, descending)[1]


def _sort(x: torch.Tensor, dim: int, descending: bool) -> tuple[torch.Tensor, torch.Tensor]:
    size = x.shape[dim] if x.dim() else 1
    return _first(x, size, dim, descending=descending)


def _indices(row: torch.Tensor, count: Any, *, descending: bool) -> torch.Tensor:
    """Indices of the first elements of the last axis in its stable order, one or more."""
    import torch

    if isinstance(count, int) and count == 1 and row.shape[-1] != 1:
        # The sum to one index has no axis of positions, by which kernels know a sort.
        return _place(_indices(row, 2, descending=descending), 0)
    positions = torch.arange(count, dtype=torch.int32, device=row.device)
    return _at(ranks(row, descending=descending), positions)


def _place(index: torch.Tensor, place: Any) -> torch.Tensor:
    """The index at one place of each row, (..., 1)."""
    import torch

    shape = (*index.shape[:-1], 1)
    return index.gather(-1, torch.full(shape, place, dtype=torch.int64, device=index.device))


def _first(
    x: torch.Tensor, count: Any, dim: int, *, descending: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    row = _last(x, dim)
    if is_empty(row):
        shape = (*row.shape[:-1], count)
        found = row.new_zeros(shape, dtype=torch.int64)
        return _back(row.new_zeros(shape), dim, x.dim()), _back(found, dim, x.dim())
    index = _indices(row, count, descending=descending)
    return _back(row.gather(-1, index), dim, x.dim()), _back(index, dim, x.dim())


def _topk(
    x: torch.Tensor, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    if largest and isinstance(k, int) and k == 1 and x.dim():
        value, index = x.max(dim, keepdim=True)
        return value, index
    return _first(x, k, dim, descending=largest)


def _selected(
    x: torch.Tensor, index: torch.Tensor, dim: int, keepdim: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """The elements at one index in each row, (..., 1), and the indices."""
    value = _last(x, dim).gather(-1, index)
    if not x.dim() or not keepdim:
        return value.squeeze(-1), index.squeeze(-1)
    return _back(value, dim, x.dim()), _back(index, dim, x.dim())


def _kthvalue(
    x: torch.Tensor, k: Any, dim: int = -1, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    index = _place(_indices(_last(x, dim), k, descending=False), k - 1)
    return _selected(x, index, dim, keepdim)


def _median(
    x: torch.Tensor, dim: int, keepdim: bool, *, skip: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """The lower median. NaN is the result where there is one, unless `skip`."""
    import torch

    if is_empty(x) and x.dim() == 1:
        nan = math.nan if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
        return x.new_full((), nan), x.new_zeros((), dtype=torch.int64)
    row = _last(x, dim)
    size = row.shape[-1]
    middle = (size - 1) // 2
    if (nan := _is_nan(row)) is None:
        index = _place(_indices(row, middle + 1, descending=False), middle)
        return _selected(x, index, dim, keepdim)
    count = nan.to(torch.int32).sum(-1, keepdim=True, dtype=torch.int32)
    if skip:
        position = ((size - 1 - count) // 2).clamp(min=0)
    else:
        position = torch.where(count > 0, size - count, middle)
    index = _indices(row, size, descending=False).gather(-1, position.to(torch.int64))
    return _selected(x, index, dim, keepdim)


def _mode(
    x: torch.Tensor, dim: int = -1, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """The smallest of the most frequent values, and its last index."""
    import torch

    row = _last(x, dim)
    key = _comparable(row)
    equal = key.unsqueeze(-1) == key.unsqueeze(-2)
    count = equal.to(torch.int32).sum(-1, dtype=torch.int32)
    frequent = count == count.amax(-1, keepdim=True)
    rank = ranks(row, descending=False)
    size = row.shape[-1]
    smallest = torch.where(frequent, rank, size).amin(-1, keepdim=True)
    value = row.gather(-1, _at(rank, smallest))
    index = torch.arange(size, device=x.device)
    last = torch.where(row == value, index, 0).amax(-1, keepdim=True)
    if not x.dim() or not keepdim:
        return value.squeeze(-1), last.squeeze(-1)
    return _back(value, dim, x.dim()), _back(last, dim, x.dim())


def _extremum(x: torch.Tensor, dim: int, keepdim: bool, *, largest: bool) -> Any:
    """The largest or smallest element and its index, of types and ranks that IREE gets wrong."""
    import torch

    row = x if x.dim() else x.unsqueeze(0)
    if isinstance(row.shape[dim], int) and row.shape[dim] == 1:
        # IREE 3.13 drops the axis, and one of the two results with it.
        value = x.clone() if keepdim or not x.dim() else x.squeeze(dim)
        return value, torch.zeros_like(value, dtype=torch.int64)
    key = _comparable(row)
    if key is x:
        return NotImplemented
    op = torch.max if largest else torch.min
    value, first = op(key, dim, keepdim and x.dim() > 0)
    return value.to(x.dtype), first


def _aminmax(
    x: torch.Tensor, *, dim: int | None = None, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """IREE's importer takes no axis of a scalar."""
    import torch

    if not x.dim():
        return x.clone(), x.clone()
    axes = [] if dim is None else [dim]
    return torch.amin(x, axes, keepdim), torch.amax(x, axes, keepdim)


def _index_of_extremum(
    x: torch.Tensor, dim: int | None, keepdim: bool, *, largest: bool
) -> torch.Tensor:
    row = x if x.dim() else x.unsqueeze(0)
    key = _comparable(row)
    if key is x:
        return NotImplemented
    import torch

    op = torch.argmax if largest else torch.argmin
    return op(key, dim if x.dim() else 0, keepdim and x.dim() > 0)


def _searchsorted(
    boundaries: torch.Tensor,
    values: torch.Tensor | complex,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> torch.Tensor:
    """Counts the boundaries before each value: those less, or not greater if `right`."""
    import torch

    if sorter is not None:
        boundaries = boundaries.gather(-1, sorter)
    right = right or side == "right"
    given = torch.as_tensor(values, device=boundaries.device)
    if not isinstance(values, torch.Tensor):
        given = torch.full((), values, dtype=boundaries.dtype, device=boundaries.device)
    key, edges = _comparable(given).unsqueeze(-1), _comparable(boundaries)
    if boundaries.dim() > 1:
        edges = edges.unsqueeze(-2)
    found = (
        ~_before(key, edges, descending=False) if right else _before(edges, key, descending=False)
    )
    return found.sum(-1, dtype=torch.int64).to(torch.int32 if out_int32 else torch.int64)


def _bucketize(
    values: torch.Tensor | complex,
    boundaries: torch.Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
) -> torch.Tensor:
    return _searchsorted(boundaries, values, out_int32=out_int32, right=right)
