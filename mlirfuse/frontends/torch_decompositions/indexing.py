"""Gathers, scatters and copies that IREE's importer lacks, or refuses for scalars."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_empty

if TYPE_CHECKING:
    import torch

_REDUCTIONS = {"add": "sum", "multiply": "prod"}
"""Reductions of `scatter` by their names for `scatter_reduce`."""


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    return {
        aten.roll.default: _roll,
        aten.put.default: _put,
        aten.take.default: _take,
        aten.masked_scatter.default: _masked_scatter,
        aten.index_put.default: _masked_put,
        aten._unsafe_index_put.default: _masked_put,
        aten.index_reduce.default: _index_reduce,
        aten.scatter_reduce.two: _scatter_reduce,
        aten.scatter.reduce: _scatter_reducing,
        aten.scatter.value_reduce: _scatter_reducing,
        **{
            op: _of_rank_one(op)
            for op in (
                aten.gather.default,
                aten.scatter.src,
                aten.scatter.value,
                aten.scatter_add.default,
                aten.index_select.default,
            )
        },
        aten.index.Tensor: _index,
        aten.empty_permuted.default: _zeros,
        aten.segment_reduce.default: _segment_reduce,
        aten.eye.default: lambda n, **kwargs: _eye(n, n, **kwargs),
        aten.eye.m: _eye,
        aten.diagonal_scatter.default: _diagonal_scatter,
        aten.as_strided_scatter.default: _as_strided_scatter,
    }


def _roll(x: torch.Tensor, shifts: Sequence[Any], dims: Sequence[int] = ()) -> torch.Tensor:
    """Two slices in exchanged order, for each axis."""
    import torch

    if not dims:
        return _roll(x.flatten(), shifts, [0]).view(x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        if isinstance(size, int) and not size:
            continue
        split = (size - shift) % size
        if not isinstance(split, int) or split:
            x = torch.cat([x.narrow(dim, split, size - split), x.narrow(dim, 0, split)], dim)
    return x.clone()


def _put(
    x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool = False
) -> torch.Tensor:
    import torch

    if not index.numel():
        return x.clone()
    place = torch.where(index < 0, index + x.numel(), index).flatten()
    flat = torch.index_put(x.reshape(-1), [place], source.flatten(), accumulate)
    return flat.view(x.shape)


def _take(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """PyTorch's decomposition reads the number of a scalar index."""
    import torch

    place = torch.where(index < 0, index + x.numel(), index).reshape(-1)
    return x.reshape(-1).index_select(0, place).view(index.shape)


def _masked_scatter(x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Element `i` of the source goes where the mask is true for the i-th time."""
    import torch

    x, mask = torch.broadcast_tensors(x, mask)
    if not source.numel() or not x.numel():
        return x.clone()
    place = mask.reshape(-1).to(torch.int64).cumsum(0) - 1
    taken = source.reshape(-1).index_select(0, place.clamp(0, source.numel() - 1))
    return torch.where(mask, taken.view(x.shape), x)


def _index(x: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> Any:
    """Masks as the indices of their true elements: IREE's importer loops on them, or crashes."""
    import torch

    op = torch.ops.aten.index.Tensor
    given = [index for index in indices if index is not None]
    masks = [index for index in given if index.dtype in (torch.bool, torch.uint8)]
    if not masks:
        return _of_long_indices(op)(x, indices)
    if len(given) == 1:
        axis = next(axis for axis, index in enumerate(indices) if index is not None)
        return _rows_of_mask(x, axis, masks[0].to(torch.bool))
    wide: list[torch.Tensor | None] = []
    for index in indices:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            wide.append(index)
        else:
            wide += index.nonzero().unbind(1)
    return op(x, wide)


def _rows_of_mask(x: torch.Tensor, axis: int, mask: torch.Tensor) -> torch.Tensor:
    """The parts of `x` where a mask of the axes from `axis` on is true."""
    outer, inner = x.shape[:axis], x.shape[axis + mask.dim() :]
    rows = x.reshape(*outer, mask.numel(), *inner)
    place = mask.reshape(-1).nonzero().squeeze(-1)
    return rows.index_select(axis, place)


def _masked_put(
    x: torch.Tensor,
    indices: Sequence[torch.Tensor | None],
    values: torch.Tensor,
    accumulate: bool = False,
) -> Any:
    """`x[:, mask] = v` as a selection: IREE's importer repeats a value along the wrong axis."""
    import torch
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    given = [axis for axis, index in enumerate(indices) if index is not None]
    mask = indices[given[0]]
    if len(given) > 1 or mask is None or mask.dtype != torch.bool:
        long = _of_long_indices(torch.ops.aten.index_put.default)
        return long(x, indices, values, accumulate)
    if is_empty(values):
        return x.clone()
    axis = given[0]
    outer, inner = x.shape[:axis], x.shape[axis + mask.dim() :]
    count = values.shape[-len(inner) - 1] if values.dim() > len(inner) else 1
    rows = values.expand(*outer, count, *inner)
    if statically_known_true(count == 1):
        rows = rows.view(*outer, *[1] * mask.dim(), *inner)
    else:
        place = mask.reshape(-1).to(torch.int64).cumsum(0) - 1
        rows = rows.index_select(axis, place.clamp(0, count - 1)).view(x.shape)
    there = mask.view(*mask.shape, *[1] * len(inner))
    return torch.where(there, x + rows if accumulate else rows, x)


def _index_reduce(
    x: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    source: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> torch.Tensor:
    """`scatter_reduce` with the index repeated along the other axes."""
    import torch

    if not x.dim():
        row = _index_reduce(
            x.view(1), 0, index.view(-1), source.view(-1), reduce, include_self=include_self
        )
        return row.view(())
    shape = [-1 if axis == dim % x.dim() else 1 for axis in range(x.dim())]
    places = index.view(shape).expand(source.shape)
    return torch.scatter_reduce(x, dim, places, source, reduce, include_self=include_self)


def _scatter_reduce(
    x: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    source: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Any:
    """The mean of integers is rounded down, where IREE rounds towards zero."""
    import torch

    op = torch.ops.aten.scatter_reduce.two
    if reduce != "mean" or x.dtype.is_floating_point or x.dtype.is_complex:
        return _of_rank_one(op)(x, dim, index, source, reduce, include_self=include_self)
    source = source[tuple(slice(0, size) for size in index.shape)] if index.dim() else source
    total = torch.scatter_reduce(x, dim, index, source, "sum", include_self=include_self)
    own = torch.full_like(x, int(include_self))
    count = own.scatter_add(dim, index, torch.ones_like(source)).clamp(min=1)
    return torch.div(total, count, rounding_mode="floor")


def _scatter_reducing(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: Any, *, reduce: str
) -> torch.Tensor:
    import torch

    if not isinstance(source, torch.Tensor):
        source = torch.full_like(index, source, dtype=x.dtype)
    source = source[tuple(slice(0, size) for size in index.shape)] if index.dim() else source
    return torch.scatter_reduce(x, dim, index, source, _REDUCTIONS[reduce])


def _of_rank_one(op: Any) -> Callable[..., torch.Tensor]:
    """An op on scalars as one on vectors of one element."""

    def decomposition(x: torch.Tensor, dim: int, *args: Any, **kwargs: Any) -> torch.Tensor:
        import torch

        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        if x.dtype == torch.bool and op is torch.ops.aten.scatter_add.default:
            return op(x.to(torch.int32), dim, args[0], args[1].to(torch.int32)) != 0
        if x.dim() and all(tensor.dim() for tensor in tensors):
            # A negative axis crashes IREE's importer.
            return NotImplemented if dim >= 0 else op(x, dim + x.dim(), *args, **kwargs)
        wide = [a.view(-1) if isinstance(a, torch.Tensor) else a for a in args]
        shape = tensors[0].shape if op is torch.ops.aten.gather.default else x.shape
        return op(x.view(-1), 0, *wide, **kwargs).view(shape)

    return decomposition


def _of_long_indices(op: Any) -> Callable[..., Any]:
    """IREE's importer takes 32-bit indices of the first axes only."""

    def decomposition(x: torch.Tensor, indices: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        import torch

        if not any(index is not None and index.dtype == torch.int32 for index in indices):
            return NotImplemented
        wide = [
            index.long() if index is not None and index.dtype == torch.int32 else index
            for index in indices
        ]
        return op(x, wide, *args, **kwargs)

    return decomposition


def _diagonal_scatter(
    x: torch.Tensor, source: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> torch.Tensor:
    """The diagonal is where the indices differ by the offset."""
    import torch

    wide = x.movedim((dim1, dim2), (-2, -1))
    rows, columns = wide.shape[-2:]
    row = torch.arange(rows, device=x.device).unsqueeze(-1)
    column = torch.arange(columns, device=x.device)
    start = max(0, -offset)
    # Element k of the diagonal is in row `start + k`.
    place = (row - start).clamp(0, source.shape[-1] - 1).squeeze(-1)
    spread = source.index_select(-1, place).unsqueeze(-1)
    found = torch.where(column - row == offset, spread, wide)
    return found.movedim((-2, -1), (dim1, dim2))


def _as_strided_scatter(
    x: torch.Tensor,
    source: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> torch.Tensor:
    import torch

    place = torch.full(list(size), storage_offset or 0, dtype=torch.int64, device=x.device)
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        shape = [count if a == axis else 1 for a in range(len(size))]
        place = place + (torch.arange(count, device=x.device) * step).view(shape)
    if not source.numel():
        return x.clone()
    flat = torch.index_put(x.reshape(-1), [place.view(-1)], source.reshape(-1))
    return flat.view(x.shape)


def _zeros(size: Sequence[int], physical_layout: Sequence[int], **kwargs: Any) -> torch.Tensor:
    import torch

    return torch.zeros(size, dtype=kwargs.get("dtype"), device=kwargs.get("device"))


def _eye(rows: int, columns: int, *, dtype: torch.dtype | None = None, **kwargs: Any) -> Any:
    import torch

    device = kwargs.get("device")
    row = torch.arange(rows, device=device).unsqueeze(-1)
    return torch.where(row == torch.arange(columns, device=device), 1.0, 0.0).to(
        dtype or torch.get_default_dtype()
    )


def _segment_reduce(
    x: torch.Tensor,
    reduce: str,
    *,
    lengths: torch.Tensor | None = None,
    indices: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> torch.Tensor:
    """Reduces runs of rows, by comparing each row's index with the ends of all segments."""
    import torch

    if indices is not None or (lengths is None and offsets is None):
        return NotImplemented
    if lengths is not None:
        end = lengths.cumsum(-1)
        start = end - lengths
    else:
        assert offsets is not None
        start, end = offsets[..., :-1], offsets[..., 1:]
    size = x.shape[axis]
    index = torch.arange(size, device=x.device).unsqueeze(-1)
    inside = (index >= start.unsqueeze(axis)) & (index < end.unsqueeze(axis))
    rest = x.dim() - axis - 1
    inside = inside.view(*inside.shape, *[1] * rest)
    rows = x.unsqueeze(axis + 1)
    empty = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}[reduce]
    masked = torch.where(inside, rows, empty)
    if reduce in ("sum", "mean"):
        found = masked.sum(axis) + (initial or 0.0)
    elif reduce == "prod":
        found = masked.prod(axis) * (1.0 if initial is None else initial)
    else:
        found = masked.amax(axis) if reduce == "max" else masked.amin(axis)
        if initial is not None:
            limit = torch.full_like(found, initial)
            found = torch.maximum(found, limit) if reduce == "max" else torch.minimum(found, limit)
    if reduce == "mean":
        count = inside.sum(axis)
        none = 0.0 if initial is not None else math.nan
        found = torch.where(count == 0, initial or none, found / count)
    return found
