"""Cumulative products of half precision, extrema and sums of exponentials.

IREE 3.13 has a lowering for cumulative sums and products alone, to `iree_linalg_ext.scan`; extrema
and sums of exponentials are the same op with other combiners (`frontends.torch_scans`), and scans
of several values are

y = x; for s in 1, 2, 4, ...: y[i] = combine(y[i - s], y[i])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_half
from mlirfuse.frontends.torch_scans import scan_op

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


def _extrema(x: torch.Tensor, dim: int, *, largest: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The running extremum, and the index of the last element that became it."""
    import torch

    if not x.dim():
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    size = x.shape[dim]
    shape = [size if axis == dim % x.dim() else 1 for axis in range(x.dim())]
    index = torch.arange(size, device=x.device).view(shape).expand(x.shape)
    narrow = x.dtype in (torch.bool, torch.uint8, torch.int8, torch.int16)
    key = x.to(torch.int32) if narrow else x.float() if is_half(x.dtype) else x
    value = scan_op()(key, dim, "maximum" if largest else "minimum")
    # PyTorch takes each NaN, and no number after one.
    taken = key == value
    if key.dtype.is_floating_point:
        taken = taken | (key != key)
    where = scan_op()(torch.where(taken, index, torch.zeros_like(index)), dim, "maximum")
    return value.to(x.dtype), where


def _logcumsumexp(x: torch.Tensor, dim: int) -> torch.Tensor:
    if not x.dim():
        return x.clone()
    if x.dtype.is_complex:
        return NotImplemented
    wide = x.float() if is_half(x.dtype) else x
    return scan_op()(wide, dim, "logaddexp").to(x.dtype)
