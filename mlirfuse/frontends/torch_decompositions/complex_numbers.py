"""Arithmetic of complex numbers in pairs of real ones.

IREE 3.13 lowers few ops of complex tensors, and fails in the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table
from mlirfuse.frontends.torch_decompositions.complex_pairs import (
    around,
    is_complex,
    made,
    part_type,
    parts,
)
from mlirfuse.frontends.torch_decompositions.elementwise import lerp

if TYPE_CHECKING:
    import torch


def table(default: Table) -> Table:
    """The decompositions, around those of `default` for real tensors."""
    import torch

    aten = torch.ops.aten
    forms: Table = {
        aten.add.Tensor: _add,
        aten.add.Scalar: _add,
        aten.sub.Tensor: lambda a, b, *, alpha=1: _add(a, b, alpha=-alpha),
        aten.sub.Scalar: lambda a, b, alpha=1: _add(a, b, alpha=-alpha),
        aten.rsub.Scalar: lambda a, b, alpha=1: _add(b, a, alpha=-alpha),
        aten.mul.Tensor: _mul,
        aten.mul.Scalar: _mul,
        aten.div.Tensor: _div,
        aten.div.Scalar: _div,
        aten.reciprocal.default: _reciprocal,
        aten.neg.default: lambda a: made(-torch.real(a), -torch.imag(a)),
        aten.abs.default: lambda a: torch.hypot(torch.real(a), torch.imag(a)),
        aten._conj.default: _conj,
        aten._conj_physical.default: _conj,
        aten.conj_physical.default: _conj,
        aten.sgn.default: _sgn,
        aten.eq.Tensor: _equal,
        aten.eq.Scalar: _equal,
        aten.ne.Tensor: lambda a, b: ~_equal(a, b),
        aten.ne.Scalar: lambda a, b: ~_equal(a, b),
        aten.logical_not.default: lambda a: _equal(a, 0),
        aten.where.self: _where,
        aten._to_copy.default: _to_copy,
        aten.full.default: _full,
        # IREE 3.13 makes complex<f64> of each complex type.
        aten.empty.memory_format: lambda size, **kwargs: _full(size, 0, **kwargs),
        aten.full_like.default: lambda a, value, **kwargs: _full(
            a.shape, value, **{"dtype": a.dtype, **kwargs}
        ),
        aten.scalar_tensor.default: lambda value, **kwargs: _full([], value, **kwargs),
        aten.isnan.default: lambda a: _either(torch.isnan, a),
        aten.isinf.default: lambda a: _either(torch.isinf, a),
        aten.isclose.default: _isclose,
        aten.lerp.Scalar: lerp,
        aten.lerp.Tensor: lerp,
        aten.ldexp.Tensor: lambda a, exponent: a * torch.exp2(exponent),
        **{
            op.default: _of_truths(op.default)
            for op in (aten.logical_and, aten.logical_or, aten.logical_xor)
        },
    }
    return around(default, forms)


def _add(a: Any, b: Any, alpha: Any = 1) -> torch.Tensor:
    if alpha != 1:
        b = _mul(b, alpha) if is_complex(alpha) or is_complex(b) else b * alpha
    (a_re, a_im), (b_re, b_im) = parts(a), parts(b)
    return made(a_re + b_re, a_im + b_im)


def _mul(a: Any, b: Any) -> torch.Tensor:
    (a_re, a_im), (b_re, b_im) = parts(a), parts(b)
    return made(a_re * b_re - a_im * b_im, a_re * b_im + a_im * b_re)


def _div(a: Any, b: Any) -> torch.Tensor:
    """Smith's method: scaled by the larger part, so that squares do not overflow."""
    import torch

    (a_re, a_im) = parts(a)
    if not is_complex(b):
        return made(a_re / b, a_im / b)
    if not isinstance(b, torch.Tensor):
        square = b.real * b.real + b.imag * b.imag
        return _mul(a, complex(b.real / square, -b.imag / square))
    b_re, b_im = parts(b)
    wide = b_re.abs() >= b_im.abs()
    large, small = torch.where(wide, b_re, b_im), torch.where(wide, b_im, b_re)
    ratio = small / large
    scale = 1 / (large + small * ratio)
    re = torch.where(wide, a_re + a_im * ratio, a_re * ratio + a_im)
    im = torch.where(wide, a_im - a_re * ratio, a_im * ratio - a_re)
    return made(re * scale, im * scale)


def _reciprocal(a: torch.Tensor) -> torch.Tensor:
    """Of zero: infinity, and no imaginary part."""
    import torch

    found, zero = _div(torch.ones_like(torch.real(a)), a), a == 0
    real = torch.where(zero, math.inf, torch.real(found))
    return made(real, torch.where(zero, math.nan, torch.imag(found)))


def _conj(a: torch.Tensor) -> torch.Tensor:
    import torch

    return made(torch.real(a), -torch.imag(a))


def _sgn(a: torch.Tensor) -> torch.Tensor:
    import torch

    size = torch.abs(a)
    size = torch.where(size == 0, 1.0, size)
    return made(torch.real(a) / size, torch.imag(a) / size)


def _equal(a: Any, b: Any) -> torch.Tensor:
    (a_re, a_im), (b_re, b_im) = parts(a), parts(b)
    found: torch.Tensor = (a_re == b_re) & (a_im == b_im)
    return found


def _where(condition: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    import torch

    (a_re, a_im), (b_re, b_im) = parts(a), parts(b)
    return made(torch.where(condition, a_re, b_re), torch.where(condition, a_im, b_im))


def _to_copy(a: torch.Tensor, *, dtype: torch.dtype | None = None, **unused: Any) -> torch.Tensor:
    import torch

    if dtype is None or dtype == a.dtype:
        return a.clone()
    if not dtype.is_complex:
        return torch.real(a).to(dtype) if dtype != torch.bool else ~_equal(a, 0)
    part = part_type(dtype)
    real, imaginary = parts(a)
    return torch.complex(real.to(part), imaginary.to(part))


def _full(size: Sequence[int], value: Any, **kwargs: Any) -> torch.Tensor:
    import torch

    dtype = kwargs.get("dtype") or torch.complex64
    if not dtype.is_complex:
        return NotImplemented
    real, imaginary = parts(value)
    options = {"dtype": part_type(dtype), "device": kwargs.get("device")}
    return torch.complex(torch.full(size, real, **options), torch.full(size, imaginary, **options))


def _either(test: Callable[[torch.Tensor], torch.Tensor], a: torch.Tensor) -> torch.Tensor:
    import torch

    return test(torch.real(a)) | test(torch.imag(a))


def _of_truths(op: Any) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """A logical op; a number is true unless it is zero."""

    def decomposition(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = op(a != 0, b != 0)
        return found

    return decomposition


def _isclose(
    a: torch.Tensor,
    b: torch.Tensor,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> torch.Tensor:
    import torch

    close = a == b
    if equal_nan:
        close = close | (torch.isnan(a) & torch.isnan(b))
    error = torch.abs(a - b)
    return close | (torch.isfinite(error) & (error <= atol + rtol * torch.abs(b)))
