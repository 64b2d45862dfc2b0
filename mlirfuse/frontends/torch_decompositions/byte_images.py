"""Resizing of images of bytes, with the integer weights of PyTorch's CPU kernels.

y = (x @ columns + scale / 2) >> digits;  z = (rows @ y + scale / 2) >> digits
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table
from mlirfuse.frontends.torch_decompositions.interpolation import antialiasing, cubic_antialiasing
from mlirfuse.frontends.torch_decompositions.resizing import cubic_weights

if TYPE_CHECKING:
    import torch

_WEIGHT_LIMIT = 2**15
"""PyTorch's weights are integers of 16 bits with a sign."""

_MOST_DIGITS = 22


def table(default: Table) -> Table:
    """The decompositions, around those of `default`."""
    import torch

    aten = torch.ops.aten
    found: Table = {}
    for packet, weights in (
        (aten.upsample_bilinear2d, _linear),
        (aten.upsample_bicubic2d, _cubic),
        (aten._upsample_bilinear2d_aa, antialiasing),
        (aten._upsample_bicubic2d_aa, cubic_antialiasing),
    ):
        for op in (packet.default, packet.vec):
            found[op] = _resized(op, weights, default.get(op))
    return found


def _resized(
    op: Any, weights: Callable[..., torch.Tensor], otherwise: Callable[..., Any] | None
) -> Callable[..., Any]:
    import torch

    def decomposition(
        x: torch.Tensor, output_size: Sequence[int] | None, align: bool, *scales: Any
    ) -> Any:
        sizes = x.shape[-2:]
        if x.dtype != torch.uint8 or not all(isinstance(n, int) for n in sizes):
            return otherwise(x, output_size, align, *scales) if otherwise else NotImplemented
        factors = list((scales[0] if op._overloadname == "vec" else scales) or (None, None))
        factors += [None] * (2 - len(factors))
        counts = output_size or [int(n * f) for n, f in zip(sizes, factors, strict=True)]
        for axis in (1, 0):
            matrix = weights(sizes[axis], counts[axis], align, factors[axis], x)
            x = _product(x, axis - 2, matrix)
        return x

    return decomposition


def _places(size: int, count: int, align: bool, scale: float | None, like: Any) -> torch.Tensor:
    """Positions of the new elements among the old ones."""
    import torch

    index = torch.arange(count, device=like.device).to(torch.float32)
    if align:
        return index * ((size - 1) / (count - 1) if count > 1 else 0.0)
    return (index + 0.5) * (1 / scale if scale else size / count) - 0.5


def _linear(size: int, count: int, align: bool, scale: float | None, like: Any) -> torch.Tensor:
    """Weights (count, size) of the two neighbours."""
    import torch

    place = _places(size, count, align, scale, like).clamp(min=0)
    first = torch.floor(place)
    return _spread(first, [1 - (place - first), place - first], size)


def _cubic(size: int, count: int, align: bool, scale: float | None, like: Any) -> torch.Tensor:
    """Weights (count, size) of four neighbours."""
    import torch

    place = _places(size, count, align, scale, like)
    first = torch.floor(place)
    return _spread(first - 1, cubic_weights(place - first), size)


def _spread(first: torch.Tensor, shares: list[torch.Tensor], size: int) -> torch.Tensor:
    """A matrix of weights; those of places outside count for the border."""
    import torch

    index = torch.arange(size, device=first.device)
    total = torch.zeros_like(first).unsqueeze(-1)
    for offset, share in enumerate(shares):
        place = (first + offset).clamp(0, size - 1).unsqueeze(-1)
        total = total + torch.where(place == index, share.unsqueeze(-1), 0.0)
    return total


def _product(x: torch.Tensor, axis: int, weights: torch.Tensor) -> torch.Tensor:
    """The weighted sums along an axis, rounded to bytes.

    The weights have as many binary digits as the largest leaves space for.
    """
    import torch

    digits = torch.arange(1, _MOST_DIGITS + 1, device=x.device)
    powers = (torch.ones_like(digits) << digits).to(torch.float32)
    fits = torch.floor(weights.amax() * powers + 0.5) < _WEIGHT_LIMIT
    scale = torch.where(fits, 2, 1).prod()
    whole = weights * scale.to(torch.float32)
    matrix = torch.trunc(whole + torch.where(whole < 0, -0.5, 0.5)).to(torch.int32)
    total = torch.matmul(x.movedim(axis, -1).to(torch.int32), matrix.mT)
    half = torch.div(scale, 2, rounding_mode="floor")
    rounded = torch.div(total + half, scale, rounding_mode="floor")
    return rounded.clamp(0, 255).to(torch.uint8).movedim(-1, axis)
