"""Derivatives of ops that IREE 3.13 has no lowering for, in traces of `torch.func`.

PyTorch's own decompositions where it has them; below are poolings, whose gradients are sums over
the windows of an element, and ops that PyTorch decomposes forward alone.
"""

from __future__ import annotations

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
    return {
        **known,
        aten.avg_pool2d_backward.default: _avg_pool,
        aten.avg_pool3d_backward.default: _avg_pool,
        aten._adaptive_avg_pool2d_backward.default: _adaptive_avg_pool,
        aten._adaptive_avg_pool3d_backward.default: _adaptive_avg_pool,
        aten.softshrink_backward.default: _softshrink,
        aten._weight_norm_interface_backward.default: _weight_norm,
        aten.upsample_linear1d_backward.default: _resized(cubic=False),
        aten.upsample_bilinear2d_backward.default: _resized(cubic=False),
        aten.upsample_trilinear3d_backward.default: _resized(cubic=False),
        aten.upsample_bicubic2d_backward.default: _resized(cubic=True),
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


def _adaptive_avg_pool(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Each dimension is multiplied by the matrix of the shares of its windows."""
    import torch

    rank = x.dim() - 2 if x.dim() > 3 else x.dim() - 1
    rank = 3 if x.dim() == 5 else min(rank, 2)
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


def _resized(*, cubic: bool) -> Callable[..., torch.Tensor]:
    """Each dimension is multiplied by the matrix of its resizing, which is that of an identity."""

    def decomposition(
        gradient: torch.Tensor,
        output_size: Sequence[int],
        input_size: Sequence[int],
        align_corners: bool,
        *scales: float | None,
    ) -> torch.Tensor:
        import torch

        aten = torch.ops.aten
        rank = len(output_size)
        factors = (*scales, *[None] * rank)[:rank]
        sides = zip(range(-rank, 0), output_size, input_size[-rank:], factors, strict=True)
        for dim, count, size, scale in sides:
            identity = torch.eye(size, dtype=gradient.dtype, device=gradient.device).unsqueeze(0)
            if cubic:
                image, sizes = identity.unsqueeze(-1), [count, 1]
                matrix = aten.upsample_bicubic2d(image, sizes, align_corners, scale, None)[
                    0, ..., 0
                ]
            else:
                matrix = aten.upsample_linear1d(identity, [count], align_corners, scale)[0]
            gradient = (gradient.movedim(dim, -1) @ matrix.mT).movedim(-1, dim)
        return gradient

    return decomposition
