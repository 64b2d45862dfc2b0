"""Tensors made of numbers, and padding, which IREE 3.13 gets wrong for some types or sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_half
from mlirfuse.frontends.torch_decompositions.resizing import at_places

if TYPE_CHECKING:
    import torch


_LOGSPACES = ("default", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    return {
        aten.full.default: _full,
        aten.arange.start_step: _arange,
        aten.linspace.default: _linspace,
        **{getattr(aten.logspace, name): _logspace for name in _LOGSPACES},
        aten.tril_indices.default: _triangle(torch.tril_indices),
        aten.triu_indices.default: _triangle(torch.triu_indices),
        aten.constant_pad_nd.default: _pad,
        aten.pad.default: _pad_by_mode,
        aten._pad_circular.default: _pad_circular,
        **{
            getattr(aten, f"{kind}_pad{rank}d").default: _pad_from_inside(kind == "reflection")
            for kind in ("reflection", "replication")
            for rank in (1, 2, 3)
        },
    }


def _full(size: Sequence[Any], value: Any, *, dtype: torch.dtype | None = None, **kw: Any) -> Any:
    """IREE's importer takes the last bit of a number for its boolean."""
    import torch

    if dtype != torch.bool or isinstance(value, bool) or not isinstance(value, int | float):
        return NotImplemented
    return torch.full(size, bool(value), dtype=dtype, **kw)


def _arange(
    start: Any, end: Any, step: Any = 1, *, dtype: torch.dtype | None = None, **kwargs: Any
) -> Any:
    """Numbers from 0 on, scaled: IREE's importer counts in the type of the result."""
    import torch

    given = (start, end, step)
    if dtype is None or not all(isinstance(value, int | float) for value in given):
        return NotImplemented
    whole = all(isinstance(value, int) for value in given)
    if dtype == torch.float32 or (dtype == torch.int64 and whole):
        return NotImplemented
    if dtype == torch.int64:
        start, end, step = int(start), int(end), int(step)
    count = math.ceil((end - start) / step)
    index = torch.arange(count, device=kwargs.get("device"))
    if not dtype.is_floating_point:
        return (index * int(step) + int(start)).to(dtype)
    wide = torch.float32 if is_half(dtype) else dtype
    return (index.to(wide) * step + start).to(dtype)


def _linspace(
    start: Any, end: Any, steps: Any, *, dtype: torch.dtype | None = None, **kwargs: Any
) -> Any:
    """Integers and f64 from both ends, from a step in double precision, as on PyTorch's CPU.

    IREE's importer computes those of f64 in f32.
    """
    import torch

    wide = dtype == torch.float64
    if dtype is None or dtype.is_complex or (dtype.is_floating_point and not wide):
        return NotImplemented
    if not all(isinstance(value, int | float) for value in (start, end, steps)) or steps < 2:
        return NotImplemented
    start, end = (start, end) if wide else (int(start), int(end))
    step = (end - start) / (steps - 1)
    index = torch.arange(steps, device=kwargs.get("device")).to(torch.float64)
    found = torch.where(index < steps // 2, start + step * index, end - step * (steps - 1 - index))
    return found if wide else found.to(torch.int64).to(dtype)


def _logspace(
    start: Any,
    end: Any,
    steps: Any,
    base: float = 10.0,
    *,
    dtype: torch.dtype | None = None,
    **kwargs: Any,
) -> Any:
    """Integers, of which those with a whole exponent are exact although IREE computes in f32."""
    import torch

    if dtype is None or dtype.is_floating_point or dtype.is_complex or steps < 2:
        return torch._refs.logspace(start, end, steps, base, dtype=dtype, **kwargs)
    device = kwargs.get("device")
    ends = [v if isinstance(v, torch.Tensor) else torch.full((), int(v)) for v in (start, end)]
    first, last = (v.to(device=device, dtype=torch.float32) for v in ends)
    step = (last - first) / (steps - 1)
    index = torch.arange(steps, device=device)
    up, down = first + step * index, last - step * (steps - 1 - index)
    exponent = torch.where(index < steps // 2, up, down)
    found = torch.pow(base, exponent).to(torch.int64)
    if base == int(base):
        whole = torch.round(exponent)
        power = torch.pow(torch.full_like(index, int(base)), whole.to(torch.int64))
        found = torch.where((exponent == whole) & (exponent >= 0), power, found)
    return found.to(dtype)


def _triangle(indices: Any) -> Any:
    """The indices of a triangle of a matrix; IREE's importer makes integers of 64 bits."""
    import torch

    def decomposition(
        rows: Any, columns: Any, offset: Any = 0, *, dtype: torch.dtype | None = None, **kwargs: Any
    ) -> Any:
        if dtype in (None, torch.int64):
            return NotImplemented
        return indices(rows, columns, offset, device=kwargs.get("device")).to(dtype)

    return decomposition


def _pad(x: torch.Tensor, pad: Sequence[Any], value: Any = 0) -> Any:
    """Crops before it pads, where sizes are below zero."""
    import torch

    if all(not isinstance(size, int) or size >= 0 for size in pad):
        return NotImplemented
    for axis in range(len(pad) // 2):
        dim = x.dim() - 1 - axis
        low, high = (max(0, -pad[2 * axis + side]) for side in (0, 1))
        x = x.narrow(dim, low, x.shape[dim] - low - high)
    rest = [max(0, size) for size in pad]
    return torch.constant_pad_nd(x, rest, value) if any(rest) else x.clone()


def _pad_by_mode(
    x: torch.Tensor, pad: Sequence[Any], mode: str = "constant", value: Any = None
) -> Any:
    """Constant and circular modes as here; the others are ops of their own."""
    import torch

    if mode == "circular":
        return _pad_circular(x, pad)
    if mode == "constant":
        return _pad(x, pad, 0 if value is None else value)
    kind = {"reflect": "reflection", "replicate": "replication"}[mode]
    return getattr(torch.ops.aten, f"{kind}_pad{len(pad) // 2}d").default(x, pad)


def _pad_from_inside(reflects: bool) -> Callable[..., Any]:
    """Padding with elements of the image, as a gather at positions that a kernel computes.

    IREE's importer joins flipped slices, one axis after the other.
    """

    def decomposition(x: torch.Tensor, pad: Sequence[Any]) -> Any:
        import torch

        sizes = x.shape[x.dim() - len(pad) // 2 :]
        if not all(isinstance(n, int) for n in (*sizes, *pad)) or 0 in x.shape:
            return NotImplemented
        places: list[torch.Tensor] = []
        for size, low, high in zip(reversed(sizes), pad[::2], pad[1::2], strict=True):
            place = torch.arange(size + low + high, device=x.device) - low
            last = size - 1
            place = last - (last - place.abs()).abs() if reflects else place.clamp(0, last)
            places.insert(0, place)
        return at_places(x, places)

    return decomposition


def _pad_circular(x: torch.Tensor, pad: Sequence[Any]) -> Any:
    """Concatenates the ends; PyTorch copies slices of the result, which has no lowering on CUDA."""
    import torch

    if not all(isinstance(size, int) for size in pad):
        return NotImplemented
    for axis in range(len(pad) // 2):
        dim = x.dim() - 1 - axis
        low, high = pad[2 * axis : 2 * axis + 2]
        # Sizes below zero crop; the ends are those of what is left.
        start, kept = max(0, -low), x.shape[dim] - max(0, -low) - max(0, -high)
        middle = x.narrow(dim, start, kept)
        ends = [max(0, low), max(0, high)]
        if max(ends) > kept:
            return NotImplemented
        left, right = middle.narrow(dim, kept - ends[0], ends[0]), middle.narrow(dim, 0, ends[1])
        x = torch.cat([part for part in (left, middle, right) if part.shape[dim]], dim)
    return x
