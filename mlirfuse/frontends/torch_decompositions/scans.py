"""Cumulative products of half precision, extrema and sums of exponentials.

IREE 3.13 has a lowering for cumulative sums and products alone, to `iree_linalg_ext.scan`; others
are

y = x; for s in 1, 2, 4, ...: y[i] = combine(y[i - s], y[i])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_half

if TYPE_CHECKING:
    import torch

Parts = tuple["torch.Tensor", ...]


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    return {
        aten.cumprod.default: _cumprod,
        aten.cummax.default: lambda x, dim: _extrema(x, dim, largest=True),
        aten.cummin.default: lambda x, dim: _extrema(x, dim, largest=False),
        aten.logcumsumexp.default: _logcumsumexp,
        aten._logcumsumexp.default: _logcumsumexp,
    }


def scan(
    combine: Callable[[Parts, Parts], Parts], parts: Parts, identity: tuple[Any, ...], dim: int
) -> Parts:
    """Inclusive scan along an axis by an associative function of earlier and later parts.

    Args:
      combine: takes and returns as many tensors as `parts`.
      parts: tensors of one shape.
      identity: for each part, the element that leaves the other one unchanged.
      dim: the axis, of static size.
    """
    import torch

    size = parts[0].shape[dim]
    shift = 1
    while shift < size:
        earlier = tuple(
            torch.cat(
                [
                    torch.full_like(part.narrow(dim, 0, shift), fill),
                    part.narrow(dim, 0, size - shift),
                ],
                dim,
            )
            for part, fill in zip(parts, identity, strict=True)
        )
        parts = combine(earlier, parts)
        shift *= 2
    return parts


def _cumprod(x: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    import torch

    if dtype is None:
        integral = not (x.dtype.is_floating_point or x.dtype.is_complex)
        dtype = torch.int64 if integral else x.dtype
    if not x.dim():
        return x.to(dtype)
    wide = x.to(torch.float32 if is_half(dtype) else dtype)
    if dtype.is_complex:
        return scan(lambda a, b: (a[0] * b[0],), (wide,), (1,), dim)[0]
    if wide is x:
        return NotImplemented
    return torch.cumprod(wide, dim).to(dtype)


def _extrema(x: torch.Tensor, dim: int, *, largest: bool) -> Parts:
    import torch

    if not x.dim():
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    size = x.shape[dim]
    shape = [size if axis == dim % x.dim() else 1 for axis in range(x.dim())]
    index = torch.arange(size, device=x.device).view(shape).expand(x.shape)
    key = x.to(torch.int32) if x.dtype in (torch.bool, torch.uint8) else x
    floating = key.dtype.is_floating_point
    if floating:
        fill: Any = -math.inf if largest else math.inf
    else:
        fill = torch.iinfo(key.dtype).min if largest else torch.iinfo(key.dtype).max

    def combine(earlier: Parts, later: Parts) -> Parts:
        (a, i), (b, j) = earlier, later
        takes = b >= a if largest else b <= a
        if floating:
            takes = (takes & (a == a)) | (b != b)
        return torch.where(takes, b, a), torch.where(takes, j, i)

    value, where = scan(combine, (key, index), (fill, 0), dim)
    return value.to(x.dtype), where


def _logcumsumexp(x: torch.Tensor, dim: int) -> torch.Tensor:
    import torch

    if not x.dim():
        return x.clone()
    if x.dtype.is_complex:
        return NotImplemented

    def combine(earlier: Parts, later: Parts) -> Parts:
        a, b = earlier[0], later[0]
        top = torch.maximum(a, b)
        total = top + torch.log1p(torch.exp(-torch.abs(a - b)))
        return (torch.where(top.abs() == math.inf, top, total),)

    wide = x.float() if is_half(x.dtype) else x
    return scan(combine, (wide,), (-math.inf,), dim)[0].to(x.dtype)
