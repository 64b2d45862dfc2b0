"""Factorizations and solvers for batches of small matrices, as loops over columns.

Each iteration works on whole matrices under masks, so that all shapes are static:
O(n^2) for each of n columns. The packed forms are LAPACK's, as PyTorch returns them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlirfuse.frontends.torch_decompositions.accumulation import Table
from mlirfuse.frontends.torch_decompositions.loops import Carried, repeat

if TYPE_CHECKING:
    import torch

Pair = tuple["torch.Tensor", "torch.Tensor"]


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    return {
        aten.cholesky.default: lambda a, upper=False: _upper(cholesky(a), upper),
        aten.linalg_cholesky_ex.default: _cholesky_ex,
        aten.cholesky_solve.default: _cholesky_solve,
        aten.cholesky_inverse.default: lambda a, upper=False: _cholesky_solve(
            _identity(a), a, upper
        ),
        aten.linalg_lu_factor_ex.default: _lu_factor_ex,
        aten.linalg_lu.default: _lu,
        aten.lu_unpack.default: _lu_unpack,
        aten.linalg_lu_solve.default: _lu_solve,
        aten._linalg_solve_ex.default: _solve_ex,
        aten.linalg_inv_ex.default: _inv_ex,
        aten._linalg_det.default: _det,
        aten._linalg_slogdet.default: _slogdet,
        aten.linalg_solve_triangular.default: _solve_triangular,
        aten.triangular_solve.default: _triangular_solve,
        aten.linalg_matrix_exp.default: _matrix_exp,
    }


def _identity(a: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.eye(a.shape[-1], dtype=a.dtype, device=a.device).expand(a.shape)


def _upper(lower: torch.Tensor, upper: bool) -> torch.Tensor:
    return conjugate_transpose(lower) if upper else lower


def conjugated(a: torch.Tensor) -> torch.Tensor:
    """The conjugate; a real tensor itself."""
    import torch

    return torch.conj_physical(a) if a.dtype.is_complex else a


def conjugate_transpose(a: torch.Tensor) -> torch.Tensor:
    """The conjugate transpose of matrices."""
    return conjugated(a.mT)


def _magnitude(a: torch.Tensor) -> torch.Tensor:
    """LAPACK's measure of pivots: the sum of the magnitudes of the parts."""
    import torch

    return torch.real(a).abs() + torch.imag(a).abs() if a.dtype.is_complex else a.abs()


def index_of(a: torch.Tensor, dim: int) -> torch.Tensor:
    """The indices along an axis."""
    import torch

    return torch.arange(a.shape[dim], device=a.device)


def column_of(m: torch.Tensor, selected: torch.Tensor) -> torch.Tensor:
    """The column that a one-hot vector selects; other columns may hold infinities."""
    import torch

    return torch.where(selected, m, 0).sum(-1)


def _row(m: torch.Tensor, selected: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.where(selected.unsqueeze(-1), m, 0).sum(-2)


def cholesky(a: torch.Tensor) -> torch.Tensor:
    """The lower factor; NaN from the first column on whose pivot is not positive."""
    import torch

    def body(k: torch.Tensor, carried: Carried) -> Carried:
        rest, factor = carried
        index = index_of(rest, -1)
        column = column_of(rest, index == k)
        pivot = torch.where(index == k, column, 0).sum(-1, keepdim=True)
        pivot = torch.real(pivot) if pivot.dtype.is_complex else pivot
        scaled = torch.where(index >= k, column * torch.rsqrt(pivot), 0)
        return (
            rest - scaled.unsqueeze(-1) * conjugated(scaled).unsqueeze(-2),
            torch.where(index == k, scaled.unsqueeze(-1), factor),
        )

    if not a.numel():
        return a.clone()
    return repeat(a.shape[-1], body, (a, torch.zeros_like(a)))[1]


def _cholesky_ex(a: torch.Tensor, *, upper: bool = False, check_errors: bool = False) -> Pair:
    import torch

    factor = cholesky(conjugate_transpose(a) if upper else a)
    bad = torch.diagonal(factor, dim1=-2, dim2=-1).isnan()
    n = a.shape[-1]
    first = (
        torch.where(bad, index_of(a, -1) + 1, n + 1).amin(-1) if n else a.new_zeros(a.shape[:-2])
    )
    info = torch.where(first > n, 0, first).to(torch.int32)
    return _upper(factor, upper), info


def _cholesky_solve(b: torch.Tensor, factor: torch.Tensor, upper: bool = False) -> torch.Tensor:
    lower = conjugate_transpose(factor) if upper else factor
    half = solve_triangular(lower, b, upper=False)
    return solve_triangular(conjugate_transpose(lower), half, upper=True)


def solve_triangular(
    a: torch.Tensor, b: torch.Tensor, *, upper: bool, left: bool = True, unit: bool = False
) -> torch.Tensor:
    """Solves `a x = b`, or `x a = b` if not `left`, one row of `x` in each iteration."""
    import torch

    if not left:
        return solve_triangular(a.mT, b.mT, upper=not upper, unit=unit).mT
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = a.expand(*batch, *a.shape[-2:])
    b = b.expand(*batch, *b.shape[-2:])
    if not b.numel():
        return b.clone()
    n = a.shape[-1]
    a = torch.triu(a) if upper else torch.tril(a)

    def body(k: torch.Tensor, carried: Carried) -> Carried:
        a, b, x = carried
        index = index_of(a, -1)
        selected = index == ((n - 1) - k if upper else k)
        row = _row(a, selected)
        known = _row(b, selected) - (row.unsqueeze(-1) * x).sum(-2)
        if not unit:
            known = known / torch.where(selected, row, 0).sum(-1, keepdim=True)
        return a, b, torch.where(selected.unsqueeze(-1), known.unsqueeze(-2), x)

    return repeat(n, body, (a, b, torch.zeros_like(b)))[2]


def _solve_triangular(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> torch.Tensor:
    return solve_triangular(a, b, upper=upper, left=left, unit=unitriangular)


def _triangular_solve(
    b: torch.Tensor,
    a: torch.Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Pair:
    factor = a.mT if transpose else a
    x = solve_triangular(factor, b, upper=upper != transpose, unit=unitriangular)
    return x, a.expand(*x.shape[:-2], *a.shape[-2:]).clone()


def factor_lu(a: torch.Tensor, pivot: bool = True) -> Carried:
    """LU with partial pivoting: packed factors, LAPACK's pivots from 1, permutation, sign.

    Row i of the factored matrix is row `permutation[i]` of `a`.
    """
    import torch

    rows, columns = a.shape[-2:]
    steps = min(rows, columns)
    batch = a.shape[:-2]
    index = index_of(a, -2)
    state = (
        a,
        torch.zeros((*batch, steps), dtype=torch.int32, device=a.device),
        index.expand(*batch, rows),
        torch.ones(batch, dtype=a.dtype, device=a.device),
    )
    if not a.numel():
        return tuple(x.clone() for x in state)

    def body(k: torch.Tensor, carried: Carried) -> Carried:
        m, pivots, permutation, sign = carried
        index, across = index_of(m, -2), index_of(m, -1)
        step = index_of(pivots, -1)
        here = index == k
        column = column_of(m, across == k)
        best = k.expand(m.shape[:-2])
        if pivot:
            # NaN is a pivot too; the first of equal ones.
            size = torch.where(index >= k, _magnitude(column), -1.0)
            best = torch.where(size == size.amax(-1, keepdim=True), index, rows).amin(-1)
            best = torch.where(best == rows, k, best)
        there = index == best.unsqueeze(-1)
        row_k, row_p = _row(m, here), _row(m, there)
        swapped = torch.where(here.unsqueeze(-1), row_p.unsqueeze(-2), m)
        other = there & ~here
        swapped = torch.where(other.unsqueeze(-1), row_k.unsqueeze(-2), swapped)
        moved_k = torch.where(here, permutation, 0).sum(-1, keepdim=True)
        moved_p = torch.where(there, permutation, 0).sum(-1, keepdim=True)
        permutation = torch.where(here, moved_p, torch.where(other, moved_k, permutation))
        column = column_of(swapped, across == k)
        value = torch.where(here, column, 0).sum(-1, keepdim=True)
        below = index > k
        factor = torch.where(below & (value != 0), column / value, 0)
        upper = torch.where(across > k, row_p, 0)
        reduced = swapped - factor.unsqueeze(-1) * upper.unsqueeze(-2)
        write = below.unsqueeze(-1) & (across == k) & (value != 0).unsqueeze(-1)
        return (
            torch.where(write, factor.unsqueeze(-1), reduced),
            torch.where(step == k, best.unsqueeze(-1).to(torch.int32) + 1, pivots),
            permutation,
            torch.where(best == k, sign, -sign),
        )

    return repeat(steps, body, state)


def _lu_info(packed: torch.Tensor) -> torch.Tensor:
    import torch

    steps = min(packed.shape[-2:])
    if not steps:
        return torch.zeros(packed.shape[:-2], dtype=torch.int32, device=packed.device)
    zero = torch.diagonal(packed, dim1=-2, dim2=-1) == 0
    index = torch.arange(steps, device=packed.device)
    first = torch.where(zero, index + 1, steps + 1).amin(-1)
    return torch.where(first > steps, 0, first).to(torch.int32)


def _lu_factor_ex(a: torch.Tensor, *, pivot: bool = True, check_errors: bool = False) -> Carried:
    packed, pivots, _, _ = factor_lu(a, pivot)
    return packed, pivots, _lu_info(packed)


def _parts(packed: torch.Tensor) -> Pair:
    import torch

    rows, columns = packed.shape[-2:]
    steps = min(rows, columns)
    unit = torch.eye(rows, steps, dtype=packed.dtype, device=packed.device)
    return torch.tril(packed[..., :, :steps], -1) + unit, torch.triu(packed[..., :steps, :])


def _matrix_of(permutation: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """P of `A = P L U`."""
    index = index_of(permutation, -1)
    return (index.unsqueeze(-1) == permutation.unsqueeze(-2)).to(dtype)


def _lu(a: torch.Tensor, *, pivot: bool = True) -> Carried:
    packed, _, permutation, _ = factor_lu(a, pivot)
    lower, upper = _parts(packed)
    p = _matrix_of(permutation, a.dtype) if pivot else a.new_empty(0)
    return p, lower, upper


def _permutation_of(pivots: torch.Tensor, rows: int) -> torch.Tensor:
    """Applies LAPACK's row exchanges to 0, 1, ..., rows - 1."""
    import torch

    if not pivots.numel():
        return torch.arange(rows, device=pivots.device).expand(*pivots.shape[:-1], rows).clone()

    def body(k: torch.Tensor, carried: Carried) -> Carried:
        pivots, permutation = carried
        index = index_of(permutation, -1)
        other = torch.where(index_of(pivots, -1) == k, pivots, 0).sum(-1, keepdim=True) - 1
        here, there = index == k, index == other
        mine = torch.where(here, permutation, 0).sum(-1, keepdim=True)
        theirs = torch.where(there, permutation, 0).sum(-1, keepdim=True)
        return pivots, torch.where(here, theirs, torch.where(there, mine, permutation))

    start = torch.arange(rows, device=pivots.device).expand(*pivots.shape[:-1], rows)
    return repeat(pivots.shape[-1], body, (pivots.to(torch.int64), start))[1]


def _lu_unpack(
    packed: torch.Tensor,
    pivots: torch.Tensor,
    unpack_data: bool = True,
    unpack_pivots: bool = True,
) -> Carried:
    empty = packed.new_zeros(0)
    lower, upper = _parts(packed) if unpack_data else (empty, empty)
    if not unpack_pivots:
        return empty, lower, upper
    permutation = _permutation_of(pivots, packed.shape[-2])
    return _matrix_of(permutation, packed.dtype), lower, upper


def _lu_solve(
    packed: torch.Tensor,
    pivots: torch.Tensor,
    b: torch.Tensor,
    *,
    left: bool = True,
    adjoint: bool = False,
) -> torch.Tensor:
    if not left:
        return conjugate_transpose(
            _lu_solve(packed, pivots, conjugate_transpose(b), adjoint=not adjoint)
        )
    p = _matrix_of(_permutation_of(pivots, packed.shape[-2]), packed.dtype)
    return _solve_factored(packed, p, b, adjoint=adjoint)


def _solve_factored(
    packed: torch.Tensor, p: torch.Tensor, b: torch.Tensor, *, adjoint: bool = False
) -> torch.Tensor:
    if adjoint:
        transposed = conjugate_transpose(packed)
        half = solve_triangular(transposed, b, upper=False)
        return p @ solve_triangular(transposed, half, upper=True, unit=True)
    half = solve_triangular(packed, p.mT @ b, upper=False, unit=True)
    return solve_triangular(packed, half, upper=True)


def _solve_ex(
    a: torch.Tensor, b: torch.Tensor, *, left: bool = True, check_errors: bool = False
) -> Carried:
    packed, pivots, permutation, _ = factor_lu(a)
    p = _matrix_of(permutation, a.dtype)
    vector = b.dim() == 1 or (b.dim() == a.dim() - 1 and b.shape == a.shape[:-1])
    right = b.unsqueeze(-1) if vector else b
    if left:
        x = _solve_factored(packed, p, right)
    else:
        x = conjugate_transpose(
            _solve_factored(packed, p, conjugate_transpose(right), adjoint=True)
        )
    return x.squeeze(-1) if vector else x, packed, pivots, _lu_info(packed)


def _inv_ex(a: torch.Tensor, *, check_errors: bool = False) -> Pair:
    packed, _, permutation, _ = factor_lu(a)
    p = _matrix_of(permutation, a.dtype)
    return _solve_factored(packed, p, _identity(a)), _lu_info(packed)


def _factors_of_determinant(a: torch.Tensor) -> Carried:
    """Those of the transpose where PyTorch has these: derivatives solve systems by them."""
    return factor_lu(a.mT if a.is_contiguous() and not a.is_complex() else a)


def _det(a: torch.Tensor) -> Carried:
    import torch

    packed, pivots, _, sign = _factors_of_determinant(a)
    return sign * torch.diagonal(packed, dim1=-2, dim2=-1).prod(-1), packed, pivots


def _slogdet(a: torch.Tensor) -> Carried:
    import torch

    packed, pivots, _, sign = _factors_of_determinant(a)
    diagonal = torch.diagonal(packed, dim1=-2, dim2=-1)
    sign = sign * torch.sgn(diagonal).prod(-1)
    return sign, diagonal.abs().log().sum(-1), packed, pivots


_TERMS = 10
"""Terms of the exponential's series, for matrices of a norm below 1/2: the rest is below 1e-10."""

_DOUBLINGS = 24
"""Largest number of squarings, for norms up to 2^23."""


def _matrix_exp(a: torch.Tensor) -> torch.Tensor:
    """Scaling, Taylor's series, squaring."""
    import torch

    if not a.numel():
        return a.clone()
    norm = a.abs().sum(-1).amax(-1)
    doublings = torch.ceil(torch.log2(norm.clamp(min=2.0**-10))) + 1
    doublings = doublings.clamp(min=0, max=_DOUBLINGS).view(*a.shape[:-2], 1, 1)
    small = a * torch.exp2(-doublings)
    unit = _identity(a)
    total = unit
    for term in range(_TERMS, 0, -1):
        total = unit + (small / term) @ total

    def body(k: torch.Tensor, carried: Carried) -> Carried:
        total, doublings = carried
        return torch.where(k < doublings, total @ total, total), doublings

    return repeat(_DOUBLINGS, body, (total, doublings))[0]
