"""QR by Householder's reflections, in LAPACK's packed form, one column in each iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlirfuse.frontends.torch_decompositions.accumulation import Table
from mlirfuse.frontends.torch_decompositions.linear_algebra import (
    Pair,
    column_of,
    conjugate_transpose,
    conjugated,
    index_of,
)
from mlirfuse.frontends.torch_decompositions.loops import Carried, repeat

if TYPE_CHECKING:
    import torch


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    return {
        aten.linalg_qr.default: _qr,
        aten.geqrf.default: _geqrf,
        aten.linalg_householder_product.default: _householder_product,
        aten.ormqr.default: _ormqr,
    }


def _geqrf(a: torch.Tensor) -> Pair:
    """Householder's reflections below the diagonal and R above it; their factors."""
    import torch

    rows, columns = a.shape[-2:]
    steps = min(rows, columns)
    factors = torch.zeros((*a.shape[:-2], steps), dtype=a.dtype, device=a.device)
    if not a.numel():
        return a.clone(), factors

    def body(k: torch.Tensor, carried: Carried) -> Carried:
        m, factors = carried
        index, across = index_of(m, -2), index_of(m, -1)
        column = column_of(m, across == k)
        pivot = torch.where(index == k, column, 0).sum(-1, keepdim=True)
        tail = torch.where(index > k, column, 0)
        square = _square(tail).sum(-1, keepdim=True)
        # R has a real diagonal; a number with an imaginary part is reflected too.
        side = torch.real(pivot) if pivot.dtype.is_complex else pivot
        trivial = (square == 0) & (pivot == side)
        norm = torch.sqrt(_square(pivot) + square)
        beta = torch.where(trivial, side, torch.where(side < 0, norm, -norm))
        factor = torch.where(trivial, 0, (beta - pivot) / torch.where(trivial, 1, beta))
        vector = tail / torch.where(trivial, 1, pivot - beta)
        vector = torch.where(index == k, 1, vector)
        mixed = (conjugated(vector).unsqueeze(-1) * m).sum(-2)
        update = (conjugated(factor) * vector).unsqueeze(-1) * mixed.unsqueeze(-2)
        reduced = m - torch.where(across >= k, update, 0)
        at = across == k
        below = at & (index > k).unsqueeze(-1)
        reduced = torch.where(below, vector.unsqueeze(-1), reduced)
        corner = at & (index == k).unsqueeze(-1)
        reduced = torch.where(corner, beta.unsqueeze(-1), reduced)
        return reduced, torch.where(index_of(factors, -1) == k, factor, factors)

    packed, found = repeat(steps, body, (a, factors))
    return packed, found


def _square(a: torch.Tensor) -> torch.Tensor:
    import torch

    if a.dtype.is_complex:
        return torch.real(a) * torch.real(a) + torch.imag(a) * torch.imag(a)
    return a * a


def _reflected(
    packed: torch.Tensor, factors: torch.Tensor, target: torch.Tensor, *, forward: bool
) -> torch.Tensor:
    """Q `target`; if `forward`, the adjoint of Q, whose first reflection comes first."""
    import torch

    steps = factors.shape[-1]
    batch = torch.broadcast_shapes(packed.shape[:-2], target.shape[:-2])
    packed = packed.expand(*batch, *packed.shape[-2:])
    target = target.expand(*batch, *target.shape[-2:])
    if not steps or not target.numel():
        return target.clone()

    def body(k: torch.Tensor, carried: Carried) -> Carried:
        packed, factors, target = carried
        at = k if forward else (steps - 1) - k
        index = index_of(packed, -2)
        vector = torch.where(index > at, column_of(packed, index_of(packed, -1) == at), 0)
        vector = torch.where(index == at, 1, vector)
        factor = torch.where(index_of(factors, -1) == at, factors, 0).sum(-1, keepdim=True)
        factor = conjugated(factor) if forward else factor
        mixed = (conjugated(vector).unsqueeze(-1) * target).sum(-2)
        update = (factor * vector).unsqueeze(-1) * mixed.unsqueeze(-2)
        return packed, factors, target - update

    return repeat(steps, body, (packed, factors.expand(*batch, steps), target))[2]


def _householder_product(packed: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    import torch

    rows, columns = packed.shape[-2:]
    unit = torch.eye(rows, columns, dtype=packed.dtype, device=packed.device)
    return _reflected(packed, factors, unit.expand(packed.shape), forward=False)


def _qr(a: torch.Tensor, mode: str = "reduced") -> Pair:
    import torch

    rows, columns = a.shape[-2:]
    size = rows if mode == "complete" else min(rows, columns)
    packed, factors = _geqrf(a)
    r = torch.triu(packed[..., :size, :])
    if mode == "r":
        return a.new_zeros(0), r
    unit = torch.eye(rows, size, dtype=a.dtype, device=a.device)
    q = _reflected(packed, factors, unit.expand(*a.shape[:-2], rows, size), forward=False)
    return q, r


def _ormqr(
    packed: torch.Tensor,
    factors: torch.Tensor,
    other: torch.Tensor,
    left: bool = True,
    transpose: bool = False,
) -> torch.Tensor:
    if not left:
        return conjugate_transpose(
            _ormqr(packed, factors, conjugate_transpose(other), transpose=not transpose)
        )
    return _reflected(packed, factors, other, forward=transpose)
