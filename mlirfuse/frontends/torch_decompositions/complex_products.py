"""Matrix products and convolutions of complex tensors as four real ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table
from mlirfuse.frontends.torch_decompositions.complex_pairs import around, made, parts

if TYPE_CHECKING:
    import torch


def table(default: Table) -> Table:
    """The decompositions, around those of `default` for real tensors."""
    import torch

    aten = torch.ops.aten
    return around(
        default,
        {
            aten.mm.default: _product(aten.mm.default),
            aten.bmm.default: _product(aten.bmm.default),
            aten.addmm.default: _added(torch.mm),
            aten.addmv.default: _added(torch.mv),
            aten.addbmm.default: _added(lambda a, b: torch.bmm(a, b).sum(0)),
            aten.baddbmm.default: _added(torch.bmm),
            aten.convolution.default: _convolution,
            aten.prod.default: _prod,
            aten.prod.dim_int: _prod_of_axis,
        },
    )


def _product(op: Callable[[Any, Any], Any]) -> Callable[[Any, Any], torch.Tensor]:
    """A bilinear op."""

    def decomposition(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        (a_re, a_im), (b_re, b_im) = parts(a), parts(b)
        return made(op(a_re, b_re) - op(a_im, b_im), op(a_re, b_im) + op(a_im, b_re))

    return decomposition


def _added(product: Callable[[Any, Any], Any]) -> Callable[..., torch.Tensor]:
    """`beta c + alpha a b`; c may hold NaN where `beta` is zero."""

    def decomposition(
        c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: Any = 1, alpha: Any = 1
    ) -> torch.Tensor:
        found: torch.Tensor = product(a, b)
        found = found if alpha == 1 else found * alpha
        if beta == 0:
            return found
        return found + (c if beta == 1 else c * beta)

    return decomposition


def _convolution(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *args: Any
) -> torch.Tensor:
    import torch

    def convolve(a: torch.Tensor, b: torch.Tensor) -> Any:
        return torch.ops.aten.convolution.default(a, b, None, *args)

    found = _product(convolve)(x, weight)
    if bias is None:
        return found
    axes: Sequence[int] = [-1] + [1] * (weight.dim() - 2)
    return found + bias.view(axes)


def _prod(a: torch.Tensor, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    return _prod_of_axis(a.flatten(), 0, dtype=dtype)


def _prod_of_axis(
    a: torch.Tensor, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Products of halves of the axis."""
    import torch

    a = a if dtype is None else a.to(dtype)
    if not a.dim():
        return a.clone()
    if not a.shape[dim]:
        shape = [size for axis, size in enumerate(a.shape) if axis != dim % a.dim()]
        found = torch.ones(shape, dtype=a.dtype, device=a.device)
        return found.unsqueeze(dim) if keepdim else found
    while (size := a.shape[dim]) > 1:
        half = size // 2
        product = a.narrow(dim, 0, half) * a.narrow(dim, half, half)
        a = torch.cat([product, a.narrow(dim, 2 * half, 1)], dim) if size % 2 else product
    return a if keepdim else a.squeeze(dim)
