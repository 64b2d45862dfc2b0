"""Derivatives of ops that IREE 3.13 has no lowering for, in traces of `torch.func`.

PyTorch's own decompositions where it has them; below are poolings, whose gradients are sums over
the windows of an element, and ops that PyTorch decomposes forward alone.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table

if TYPE_CHECKING:
    import torch


def table() -> Table:
    """The decompositions of all ops whose names end with `_backward`."""
    import torch
    from torch._decomp import decomposition_table

    aten = torch.ops.aten
    known: Table = {
        op: function
        for op, function in decomposition_table.items()
        if isinstance(op, torch._ops.OpOverload)
        and op._schema.name.endswith("_backward")
        and not op._schema.is_mutable
    }
    linear = (
        aten.upsample_linear1d_backward.default,
        aten.upsample_bilinear2d_backward.default,
        aten.upsample_trilinear3d_backward.default,
    )
    nearest, exact = (
        [getattr(aten, f"{name}{rank}d_backward").default for rank in (1, 2, 3)]
        for name in ("upsample_nearest", "_upsample_nearest_exact")
    )
    return {
        **known,
        aten.avg_pool2d_backward.default: _avg_pool,
        aten.avg_pool3d_backward.default: _avg_pool,
        aten._adaptive_avg_pool2d_backward.default: functools.partial(_adaptive_avg_pool, 2),
        aten._adaptive_avg_pool3d_backward.default: functools.partial(_adaptive_avg_pool, 3),
        aten.softshrink_backward.default: _softshrink,
        aten._weight_norm_interface_backward.default: _weight_norm,
        aten.upsample_bicubic2d_backward.default: _resized(_cubic),
        **dict.fromkeys(linear, _resized(aten.upsample_linear1d)),
        **dict.fromkeys(nearest, _nearest(0.0)),
        **dict.fromkeys(exact, _nearest(0.5)),
    }


def _avg_pool(
    gradient: torch.Tensor,
    x: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> torch.Tensor:
    """Each element gets the shares of its windows: a transposed convolution with ones."""
    import torch

    rank = len(kernel_size)
    strides = list(stride) or list(kernel_size)
    sizes, pads = x.shape[-rank:], list(padding) * (rank // len(padding))
    counts: Any = divisor_override
    if counts is None:
        outside = pads if count_include_pad else [0] * rank
        counts = 1
        geometry = zip(sizes, kernel_size, strides, pads, outside, strict=True)
        for dim, (size, kernel, step, pad, around) in enumerate(geometry):
            first = torch.arange(gradient.shape[dim - rank], device=x.device) * step - pad
            last = (first + kernel).clamp(max=size + around)
            count = last - first.clamp(min=-around)
            counts = counts * count.view(-1, *[1] * (rank - 1 - dim))
    shares = (gradient / counts).flatten(0, -rank - 1).unsqueeze(1)
    ones = x.new_ones(1, 1, *kernel_size)
    zero, one = [0] * rank, [1] * rank
    whole = torch.convolution(shares, ones, None, strides, zero, one, True, zero, 1)
    ends = [
        (-pad, size + pad - spread)
        for size, pad, spread in zip(sizes, pads, whole.shape[2:], strict=True)
    ]
    cropped = torch.constant_pad_nd(whole, list(itertools.chain.from_iterable(reversed(ends))))
    return cropped.reshape(x.shape)


def _adaptive_avg_pool(rank: int, gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Each of the last dimensions is multiplied by the matrix of the shares of its windows."""
    import torch

    for dim in range(-rank, 0):
        size, count = x.shape[dim], gradient.shape[dim]
        window = torch.arange(count, device=x.device).unsqueeze(1)
        first = window * size // count
        last = ((window + 1) * size + count - 1) // count
        place = torch.arange(size, device=x.device)
        inside = ((place >= first) & (place < last)).to(x.dtype)
        shares = inside / (last - first).to(x.dtype)
        gradient = (gradient.movedim(dim, -1) @ shares).movedim(-1, dim)
    return gradient


def _softshrink(gradient: torch.Tensor, x: torch.Tensor, lambd: float) -> torch.Tensor:
    return (x.abs() > lambd) * gradient


def _weight_norm(
    gradient: torch.Tensor, v: torch.Tensor, g: torch.Tensor, norms: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Derivatives of `v * g / |v|`, whose norms are over all dimensions but one."""
    others = [n for n in range(v.dim()) if n != dim]
    norms = norms.to(v.dtype)
    dot = (gradient * v).sum(others, keepdim=True)
    return (g / norms) * (gradient - v * dot / norms.square()), dot / norms


def _resized(matrix_of: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Each dimension is multiplied by the matrix of its resizing, which is that of an identity.

    Args:
      matrix_of: resizes the last dimension of a tensor of three.
    """

    def decomposition(
        gradient: torch.Tensor, output_size: Sequence[int], input_size: Sequence[int], *rest: Any
    ) -> torch.Tensor:
        import torch

        rank = len(output_size)
        corners = [value for value in rest if isinstance(value, bool)]
        scales = (*rest[len(corners) :], *[None] * rank)[:rank]
        sides = zip(range(-rank, 0), output_size, input_size[-rank:], scales, strict=True)
        for dim, count, size, scale in sides:
            identity = torch.eye(size, dtype=gradient.dtype, device=gradient.device).unsqueeze(0)
            matrix = matrix_of(identity, [count], *corners, scale)[0]
            gradient = (gradient.movedim(dim, -1) @ matrix.mT).movedim(-1, dim)
        return gradient

    return decomposition


def _cubic(x: torch.Tensor, sizes: Sequence[int], aligned: bool, scale: Any) -> torch.Tensor:
    import torch

    image = x.unsqueeze(-1)
    resized: torch.Tensor = torch.ops.aten.upsample_bicubic2d(image, [*sizes, 1], aligned, scale)
    return resized.squeeze(-1)


def _nearest(middle: float) -> Callable[..., torch.Tensor]:
    """A sum over the elements that are copies of one, where all have as many.

    Args:
      middle: what is added to a position before it is scaled and rounded down.
    """

    def copies(x: torch.Tensor, sizes: Sequence[int], scale: float | None) -> torch.Tensor:
        import torch

        place = torch.arange(sizes[0], dtype=torch.float32, device=x.device) + middle
        ratio = x.shape[-1] / sizes[0] if scale is None else 1 / scale
        source = (place * ratio).to(torch.int64).clamp(max=x.shape[-1] - 1)
        return x.index_select(-1, source)

    otherwise = _resized(copies)

    def decomposition(
        gradient: torch.Tensor, output_size: Sequence[int], input_size: Sequence[int], *scales: Any
    ) -> torch.Tensor:
        rank = len(output_size)
        sizes = list(input_size[-rank:])
        counts = [count // size for count, size in zip(output_size, sizes, strict=True)]
        whole = [size * count for size, count in zip(sizes, counts, strict=True)]
        if whole != list(output_size) or any(scale not in (None, *counts) for scale in scales):
            return otherwise(gradient, output_size, input_size, *scales)
        pairs = itertools.chain.from_iterable(zip(sizes, counts, strict=True))
        apart = gradient.reshape(*gradient.shape[:-rank], *pairs)
        return apart.sum([n - 2 * rank for n in range(1, 2 * rank, 2)])

    return decomposition
