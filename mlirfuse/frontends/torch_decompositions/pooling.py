"""Max pooling, and adaptive pooling with uneven windows.

IREE's import of `max_pool` fails in shape inference with `ceil_mode`, and knows no 1-D pooling of
maxima: inputs are padded for the last windows first, and have a dimension of one more.
"""

from __future__ import annotations

import contextvars
import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_half

if TYPE_CHECKING:
    import torch

Pair = tuple["torch.Tensor", "torch.Tensor"]


def table(default: Table) -> Table:
    """The decompositions, around those of `default`."""
    import torch

    aten = torch.ops.aten
    return {
        aten.avg_pool1d.default: _average_pool(1, aten.avg_pool1d.default, default),
        aten.avg_pool2d.default: _average_pool(2, aten.avg_pool2d.default, default),
        aten.avg_pool3d.default: _average_pool(3, aten.avg_pool3d.default, default),
        aten.max_pool1d.default: _max_pool(1),
        aten.max_pool2d.default: _max_pool(2),
        aten.max_pool3d.default: _max_pool(3),
        aten.max_pool2d_with_indices.default: _max_pool_with_indices(2),
        aten.max_pool3d_with_indices.default: _max_pool_with_indices(3),
        aten.max_pool2d_with_indices_backward.default: _max_pool_backward,
        aten.max_pool3d_with_indices_backward.default: _max_pool_backward,
        aten.max_unpool2d.default: _max_unpool(2),
        aten.max_unpool3d.default: _max_unpool(3),
        aten._adaptive_avg_pool2d.default: _adaptive_average(
            default.get(aten._adaptive_avg_pool2d.default)
        ),
        aten._adaptive_avg_pool3d.default: _adaptive_average(
            default.get(aten._adaptive_avg_pool3d.default)
        ),
        aten.adaptive_avg_pool1d.default: _adaptive_average(
            default.get(aten.adaptive_avg_pool1d.default)
        ),
        aten.adaptive_max_pool2d.default: _adaptive_max,
        aten.adaptive_max_pool3d.default: _adaptive_max,
    }


def _each(value: int | Sequence[int], count: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * count if len(values) == 1 else values


class _Windows:
    """Windows of a pooling over the last axes.

    Attributes:
      kernel, stride, padding, dilation: for each axis.
      sizes: numbers of windows.
    """

    def __init__(
        self,
        x: torch.Tensor,
        rank: int,
        kernel: int | Sequence[int],
        stride: int | Sequence[int] = (),
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel = _each(kernel, rank)
        self.stride = _each(stride, rank) or self.kernel
        self.padding = _each(padding, rank)
        self.dilation = _each(dilation, rank)
        self.rank = rank
        self.input = x.shape[-rank:]
        self.sizes = []
        for n, k, s, p, d in self._axes():
            span = n + 2 * p - d * (k - 1) - 1
            count = (-(-span // s) if ceil_mode else span // s) + 1
            if ceil_mode and (count - 1) * s >= n + p:
                count -= 1  # a window that would start in the padding at the end
            self.sizes.append(count)

    def _axes(self) -> Any:
        return zip(self.input, self.kernel, self.stride, self.padding, self.dilation, strict=True)

    @property
    def static(self) -> bool:
        """Whether all sizes are known."""
        return all(isinstance(n, int) for n in self.input)

    def fitted(self, x: torch.Tensor, fill: float) -> torch.Tensor:
        """The input, padded for the last window; it may be longer."""
        from torch.nn import functional

        pads: list[int] = []
        for (n, k, s, p, d), count in zip(self._axes(), self.sizes, strict=True):
            end = (count - 1) * s + d * (k - 1) + 1 - p
            pads = [p, max(0, end - n), *pads]
        return functional.pad(x, pads, value=fill) if any(pads) else x

    def counts(self, include_padding: bool, like: torch.Tensor) -> torch.Tensor:
        """The number of elements of each window."""
        import torch

        total = torch.ones((), dtype=like.dtype, device=like.device)
        for axis, ((n, k, s, p, _), count) in enumerate(zip(self._axes(), self.sizes, strict=True)):
            start = torch.arange(count, device=like.device) * s - p
            end = (start + k).clamp(max=n + (p if include_padding else 0))
            start = start if include_padding else start.clamp(min=0)
            shape = [-1 if a == axis else 1 for a in range(self.rank)]
            total = total * (end - start).to(like.dtype).view(shape)
        return total

    def taps(self, x: torch.Tensor) -> list[torch.Tensor]:
        """For each place in the kernel, the elements that all windows have there."""
        found = []
        for place in itertools.product(*map(range, self.kernel)):
            part = x
            for axis, at in enumerate(place):
                start = at * self.dilation[axis]
                stop = start + (self.sizes[axis] - 1) * self.stride[axis] + 1
                dim = x.dim() - self.rank + axis
                part = part[(slice(None),) * dim + (slice(start, stop, self.stride[axis]),)]
            found.append(part)
        return found


def _lowest(x: torch.Tensor) -> Any:
    import torch

    return -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min


def _average_pool(rank: int, op: Any, default: Table) -> Callable[..., torch.Tensor]:
    """The mean of padded windows, scaled to the number of elements of each."""
    import torch

    otherwise = default.get(op)

    def decomposition(
        x: torch.Tensor,
        kernel: Sequence[int],
        stride: Sequence[int] = (),
        padding: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> torch.Tensor:
        if x.dim() == rank + 1:  # IREE's importer takes batches only
            rest = (kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
            given = rest if rank > 1 else rest[:5]
            return op(x.unsqueeze(0), *given).squeeze(0)
        windows = _Windows(x, rank, kernel, stride, padding, 1, ceil_mode)
        if not x.dtype.is_floating_point:
            taps = windows.taps(windows.fitted(x, 0))
            count: Any = divisor_override or windows.counts(count_include_pad, x)
            return torch.div(functools.reduce(operator.add, taps), count, rounding_mode="trunc")
        plain = not ceil_mode and divisor_override is None
        if plain and (rank == 2 or not any(windows.padding)):
            args = (x, windows.kernel, windows.stride, windows.padding, False, count_include_pad)
            return otherwise(*args) if otherwise else NotImplemented
        wide = x.float() if is_half(x.dtype) else x
        mean = op(windows.fitted(wide, 0.0), windows.kernel, windows.stride)
        count = divisor_override or windows.counts(count_include_pad, mean)
        return (mean * (math.prod(windows.kernel) / count)).to(x.dtype)

    return decomposition


_exact: contextvars.ContextVar[bool] = contextvars.ContextVar("exact", default=False)
"""Whether a pooling is one that IREE imports, so that it remains one op."""


def _max_pool(rank: int) -> Callable[..., torch.Tensor]:
    def decomposition(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return _pooled(x, _Windows(x, rank, *args, **kwargs))

    return decomposition


def _max_pool_with_indices(rank: int) -> Callable[..., Any]:
    """The values by IREE's pooling; the indices, where they are used, by slices."""

    def decomposition(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        windows = _Windows(x, rank, *args, **kwargs)
        if _exact.get() or not windows.static:
            return NotImplemented
        return _pooled(x, windows), _indices(x, windows)

    return decomposition


def _pooled(x: torch.Tensor, windows: _Windows) -> torch.Tensor:
    import torch

    rank = windows.rank
    if x.dtype.is_floating_point and all(x.shape):
        fitted = windows.fitted(x, -math.inf) if windows.static else x
        batch = fitted if x.dim() == rank + 2 else fitted.unsqueeze(0)
        padding = [0] * rank if windows.static else windows.padding
        given: tuple[list[int], ...]
        given = (windows.kernel, windows.stride, padding, windows.dilation)
        pool = torch.ops.aten.max_pool3d_with_indices.default
        if rank < 3:
            pool = torch.ops.aten.max_pool2d_with_indices.default
        if rank == 1:  # IREE imports those of two and three dimensions
            batch = batch.unsqueeze(-2)
            given = tuple([n, *each] for n, each in zip((1, 1, 0, 1), given, strict=True))
        token = _exact.set(True)
        try:
            y = pool(batch, *given)[0]
        finally:
            _exact.reset(token)
        y = y.squeeze(-2) if rank == 1 else y
        return y if x.dim() == rank + 2 else y.squeeze(0)
    parts = windows.taps(windows.fitted(x, _lowest(x)))
    found = parts[0]
    for part in parts[1:]:
        found = torch.maximum(found, part)
    return found


def _indices(x: torch.Tensor, windows: _Windows) -> torch.Tensor:
    """The place of each maximum in the input, flat over the pooled axes; the first one."""
    import torch

    places = torch.arange(math.prod(windows.input), device=x.device).view(windows.input)
    values = windows.taps(windows.fitted(x, _lowest(x)))
    indices = windows.taps(windows.fitted(places, 0))
    value, index = values[0], indices[0].expand(values[0].shape)
    inside = windows.taps(windows.fitted(torch.ones_like(places), 0))
    started = inside[0] != 0
    for other, place, exists in zip(values[1:], indices[1:], inside[1:], strict=True):
        takes = (other > value) | (other != other) | ~started
        takes = takes & (exists != 0)
        value = torch.where(takes, other, value)
        index = torch.where(takes, place, index)
        started = started | (exists != 0)
    return index


def _flat(x: torch.Tensor, rank: int) -> torch.Tensor:
    return x.reshape(*x.shape[: x.dim() - rank], -1)


def _max_pool_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: torch.Tensor,
) -> torch.Tensor:
    rank = len(kernel)
    zeros = x.new_zeros(_flat(x, rank).shape)
    return zeros.scatter_add(-1, _flat(indices, rank), _flat(grad, rank)).view(x.shape)


def _max_unpool(rank: int) -> Callable[..., torch.Tensor]:
    def decomposition(
        x: torch.Tensor, indices: torch.Tensor, output_size: Sequence[int], *unused: Any
    ) -> torch.Tensor:
        lead = x.shape[: x.dim() - rank]
        zeros = x.new_zeros((*lead, math.prod(output_size)))
        filled = zeros.scatter(-1, _flat(indices, rank), _flat(x, rank))
        return filled.view(*lead, *output_size)

    return decomposition


def _adaptive_average(otherwise: Callable[..., Any] | None) -> Callable[..., Any]:
    """Uneven windows by a matmul for each axis; even ones are a pooling, a whole image a mean."""

    def decomposition(x: torch.Tensor, output_size: Sequence[int]) -> Any:
        import torch

        rank = len(output_size)
        sizes = x.shape[-rank:]
        if not all(isinstance(n, int) and n for n in (*sizes, *output_size)):
            return otherwise(x, output_size) if otherwise else NotImplemented
        if all(n == 1 for n in output_size):
            return x.mean([*range(-rank, 0)], keepdim=True)
        if (kernel := _even_windows(sizes, output_size)) is not None:
            # IREE's import makes masked windows of one more element along each axis.
            return getattr(torch.ops.aten, f"avg_pool{rank}d")(x, kernel, kernel)
        y = x.float() if is_half(x.dtype) else x
        for axis, (size, count) in enumerate(zip(sizes, output_size, strict=True)):
            place = torch.arange(size, device=x.device)
            window = torch.arange(count, device=x.device).unsqueeze(-1)
            start = torch.div(window * size, count, rounding_mode="floor")
            end = torch.div((window + 1) * size + count - 1, count, rounding_mode="floor")
            inside = ((place >= start) & (place < end)).to(y.dtype)
            weight = inside / (end - start).to(y.dtype)
            y = (y.movedim(axis - rank, -1) @ weight.mT).movedim(-1, axis - rank)
        return y.to(x.dtype)

    return decomposition


def _even_windows(sizes: Sequence[int], counts: Sequence[int]) -> list[int] | None:
    """Sizes of windows that lie side by side; None where they overlap or differ, or are dynamic."""
    if not all(isinstance(n, int) and n for n in (*sizes, *counts)):
        return None
    if any(size % count for size, count in zip(sizes, counts, strict=True)):
        return None
    return [size // count for size, count in zip(sizes, counts, strict=True)]


def _windows(x: torch.Tensor, axis: int, place: torch.Tensor, size: int) -> torch.Tensor:
    """The elements at these places of an axis, each window in the last axis."""
    return x.movedim(axis, -1).index_select(-1, place).unflatten(-1, (-1, size))


def _adaptive_max(x: torch.Tensor, output_size: Sequence[int]) -> Pair:
    """The axes one after the other, from the last one: maxima of gathered windows."""
    import torch

    rank = len(output_size)
    if (kernel := _even_windows(x.shape[-rank:], output_size)) is not None:
        pool = getattr(torch.ops.aten, f"max_pool{rank}d_with_indices")
        pair: Pair = pool(x, kernel, kernel)
        return pair
    places = torch.arange(math.prod(x.shape[-rank:]), device=x.device)
    index = places.view(x.shape[-rank:]).expand(x.shape)
    value = x
    for axis in reversed(range(-rank, 0)):
        size, count = x.shape[axis], output_size[axis]
        window = torch.arange(count, device=x.device).unsqueeze(-1)
        start = torch.div(window * size, count, rounding_mode="floor")
        end = torch.div((window + 1) * size + count - 1, count, rounding_mode="floor")
        widest = max(-(-(i + 1) * size // count) - i * size // count for i in range(count))
        # A narrower window holds its last element again, which changes no first maximum.
        place = torch.minimum(start + torch.arange(widest, device=x.device), end - 1).flatten()
        best, where = _windows(value, axis, place, widest).max(-1, keepdim=True)
        found = _windows(index, axis, place, widest).gather(-1, where)
        value, index = (part.squeeze(-1).movedim(-1, axis) for part in (best, found))
    return value, index
