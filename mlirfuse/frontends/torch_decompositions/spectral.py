"""Singular values and symmetric eigenvalues by Jacobi's method.

One-sided: pairs of columns are rotated until all are orthogonal; their norms are the singular
values. All n / 2 pairs of a round rotate at once, in the order of a round-robin tournament.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlirfuse.frontends.torch_decompositions.accumulation import Table
from mlirfuse.frontends.torch_decompositions.loops import Carried, repeat
from mlirfuse.frontends.torch_decompositions.ordering import ordered

if TYPE_CHECKING:
    import torch

SWEEPS = 12
"""Rounds over all pairs; convergence is quadratic, 6 to 8 suffice in single precision."""


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    return {
        aten._linalg_svd.default: _svd,
        aten._linalg_eigh.default: _eigh,
        aten.linalg_pinv.atol_rtol_tensor: _pinv,
    }


def _rotated(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`a @ v` with orthogonal columns, and the orthogonal `v`, for (..., rows, columns)."""
    import torch

    columns = a.shape[-1]
    v = torch.eye(columns, dtype=a.dtype, device=a.device)
    v = v.expand(*a.shape[:-2], columns, columns)
    if columns < 2 or not a.numel():
        return a.clone(), v.clone()
    if columns % 2:
        a, v = (torch.nn.functional.pad(x, (0, 1)) for x in (a, v))
    half = (columns + 1) // 2

    def turned(x: torch.Tensor) -> torch.Tensor:
        """The next pairs: column 0 stays, the others move on by one place around the circle."""
        top, bottom = x[..., :half], x[..., half:]
        return (
            torch.cat(
                [top[..., :1], bottom[..., :1], top[..., 1:-1], bottom[..., 1:], top[..., -1:]], -1
            )
            if half > 1
            else x
        )

    def body(k: torch.Tensor, carried: Carried) -> Carried:
        a, v = carried
        p, q = a[..., :half], a[..., half:]
        alpha, beta = (p * p).sum(-2, keepdim=True), (q * q).sum(-2, keepdim=True)
        gamma = (p * q).sum(-2, keepdim=True)
        still = gamma.abs() <= 1e-9 * torch.sqrt(alpha * beta)
        ratio = (beta - alpha) / (2 * torch.where(still, 1, gamma))
        side = torch.where(ratio < 0, -1.0, 1.0)
        t = side / (ratio.abs() + torch.sqrt(1 + ratio * ratio))
        t = torch.where(still, 0, t)
        c = torch.rsqrt(1 + t * t)
        s = c * t

        def rotated(x: torch.Tensor) -> torch.Tensor:
            x_p, x_q = x[..., :half], x[..., half:]
            return turned(torch.cat([c * x_p - s * x_q, s * x_p + c * x_q], -1))

        return rotated(a), rotated(v)

    a, v = repeat(SWEEPS * max(1, 2 * half - 1), body, (a, v))
    if columns % 2:
        # The added column is zero in both.
        order = ordered((v * v).sum(-2), descending=True)[..., :columns]
        a, v = (x.gather(-1, order.unsqueeze(-2).expand(*x.shape[:-1], columns)) for x in (a, v))
    return a, v


def _factors(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """`u`, descending singular values and `v` of a matrix with rows >= columns."""
    import torch

    mixed, v = _rotated(a)
    s = torch.sqrt((mixed * mixed).sum(-2))
    order = ordered(s, descending=True)
    s = s.gather(-1, order)
    mixed, v = (x.gather(-1, order.unsqueeze(-2).expand(x.shape)) for x in (mixed, v))
    u = mixed / torch.where(s == 0, 1, s).unsqueeze(-2)
    return u, s, v


def _svd(
    a: torch.Tensor,
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    driver: str | None = None,
) -> Carried:
    if a.dtype.is_complex or (compute_uv and full_matrices and a.shape[-2] != a.shape[-1]):
        return NotImplemented
    if a.shape[-2] >= a.shape[-1]:
        u, s, v = _factors(a)
    else:
        v, s, u = _factors(a.mT)
    if not compute_uv:
        return a.new_zeros(0), s, a.new_zeros(0)
    return u, s, v.mT


def _eigh(
    a: torch.Tensor,
    UPLO: str = "L",
    compute_v: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The singular values of `a + shift`, which has no negative eigenvalue, minus the shift."""
    import torch

    if a.dtype.is_complex:
        return NotImplemented
    part = torch.tril(a, -1) if UPLO == "L" else torch.triu(a, 1).mT
    diagonal = torch.diag_embed(torch.diagonal(a, dim1=-2, dim2=-1))
    full = part + part.mT + diagonal
    if not a.numel():
        return a.new_zeros(a.shape[:-1]), a.clone()
    shift = full.abs().sum(-1).amax(-1)[..., None, None]
    unit = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    _, s, v = _factors(full + shift * unit)
    return (s - shift.squeeze(-1)).flip(-1), v.flip(-1)


def _pinv(
    a: torch.Tensor,
    *,
    atol: torch.Tensor | None = None,
    rtol: torch.Tensor | None = None,
    hermitian: bool = False,
) -> torch.Tensor:
    import torch

    if a.dtype.is_complex:
        return NotImplemented
    if not a.numel():
        return a.new_zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]))
    if hermitian:
        a = torch.tril(a) + torch.tril(a, -1).mT
    if a.shape[-2] < a.shape[-1]:
        return _pinv(a.mT, atol=atol, rtol=rtol).mT
    u, s, v = _factors(a)
    least = s.amax(-1, keepdim=True)
    default = torch.finfo(a.dtype).eps * max(a.shape[-2:]) if atol is None else 0.0
    cutoff = least * (default if rtol is None else rtol.unsqueeze(-1))
    if atol is not None:
        cutoff = torch.maximum(cutoff, atol.unsqueeze(-1).to(a.dtype))
    inverse = torch.where(s > cutoff, 1 / s, 0)
    return (v * inverse.unsqueeze(-2)) @ u.mT
