"""Moves, fills and reductions of complex tensors, part by part."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table
from mlirfuse.frontends.torch_decompositions.complex_pairs import around, each_part

if TYPE_CHECKING:
    import torch


def table(default: Table) -> Table:
    """The decompositions, around those of `default` for real tensors."""
    import torch

    aten = torch.ops.aten
    moves = (
        aten._unsafe_index.Tensor,
        aten._unsafe_index_put.default,
        aten._unsafe_masked_index.default,
        aten._unsafe_masked_index_put_accumulate.default,
        aten.cat.default,
        aten.constant_pad_nd.default,
        aten.cumsum.default,
        aten.fill.Scalar,
        aten.flip.default,
        aten.gather.default,
        aten.im2col.default,
        aten.index.Tensor,
        aten.index_put.default,
        aten.index_select.default,
        aten.masked_fill.Scalar,
        aten.masked_fill.Tensor,
        aten.masked_scatter.default,
        aten.mean.default,
        aten.mean.dim,
        aten.scatter.src,
        aten.scatter.value,
        aten.scatter_add.default,
        aten.slice_scatter.default,
        aten.sum.default,
        aten.sum.dim_IntList,
    )
    return around(
        default,
        {
            **{op: each_part(op) for op in moves},
            **{op: _any(op) for op in (aten.any.default, aten.any.dim, aten.any.dims)},
            aten.index_add.default: _index_add,
            aten.index_fill.int_Scalar: _index_fill,
            aten.index_fill.int_Tensor: _index_fill,
            aten.linalg_vector_norm.default: _vector_norm,
            aten.scatter_reduce.two: _scatter_reduce,
            aten.std.correction: lambda a, *args, **kwargs: torch.sqrt(
                _variance(a, *args, **kwargs)
            ),
            aten.std_mean.correction: _std_mean,
            aten.var.correction: _variance,
            aten.var_mean.correction: _var_mean,
        },
    )


def _any(op: Any) -> Callable[..., torch.Tensor]:
    """Whether numbers are not zero."""

    def decomposition(a: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        found: torch.Tensor = op(a != 0, *args, **kwargs)
        return found

    return decomposition


def _index_add(
    a: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *, alpha: Any = 1
) -> Any:
    import torch

    source = source if alpha == 1 else source * alpha
    return each_part(torch.ops.aten.index_add.default)(a, dim, index, source)


def _index_fill(a: torch.Tensor, dim: int, index: torch.Tensor, value: Any) -> torch.Tensor:
    """PyTorch's decomposition of scalars copies into strides."""
    import torch

    if not a.dim():
        return _index_fill(a.view(1), 0, index.view(-1), value).view(())
    size = a.shape[dim]
    place = torch.where(index < 0, index + size, index).view(-1, 1)
    filled = (place == torch.arange(size, device=a.device)).any(0)
    shape = [size if axis == dim % a.dim() else 1 for axis in range(a.dim())]
    return torch.where(filled.view(shape), value, a)


def _scatter_reduce(
    a: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    source: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> torch.Tensor:
    import torch

    if not include_self or reduce != "sum":
        return NotImplemented
    return torch.scatter_add(a, dim, index, source)


def _vector_norm(a: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    import torch

    dtype = kwargs.pop("dtype", None)
    found = torch.ops.aten.linalg_vector_norm.default(torch.abs(a), *args, **kwargs)
    return found if dtype is None else found.to(torch.real(a.new_empty(0, dtype=dtype)).dtype)


def _variance(a: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """The mean square of the distance from the mean: the sum of both variances."""
    import torch

    op = torch.ops.aten.var.correction
    found: torch.Tensor = op(torch.real(a), *args, **kwargs) + op(torch.imag(a), *args, **kwargs)
    return found


def _var_mean(
    a: torch.Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    mean = torch.mean(a, dim=dim, keepdim=keepdim)
    return _variance(a, dim, correction=correction, keepdim=keepdim), mean


def _std_mean(a: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    variance, mean = _var_mean(a, *args, **kwargs)
    return torch.sqrt(variance), mean
