"""Arithmetic of complex numbers in pairs of real ones.

IREE 3.13 lowers few ops of complex tensors, and fails in the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table

if TYPE_CHECKING:
    import torch

Pair = tuple[Any, Any]


def table(default: Table) -> Table:
    """The decompositions, around those of `default` for real tensors."""
    import torch

    aten = torch.ops.aten
    complex_forms: dict[Any, Callable[..., Any]] = {
        aten.add.Tensor: _add,
        aten.add.Scalar: _add,
        aten.sub.Tensor: lambda a, b, *, alpha=1: _add(a, b, alpha=-alpha),
        aten.sub.Scalar: lambda a, b, alpha=1: _add(a, b, alpha=-alpha),
        aten.rsub.Scalar: lambda a, b, alpha=1: (
            _add(torch.neg(a), b) if alpha == 1 else NotImplemented
        ),
        aten.mul.Tensor: _mul,
        aten.mul.Scalar: _mul,
        aten.div.Tensor: _div,
        aten.div.Scalar: _div,
        aten.reciprocal.default: lambda a: _div(torch.ones_like(torch.real(a)), a),
        aten.neg.default: lambda a: _made(-torch.real(a), -torch.imag(a)),
        aten.abs.default: lambda a: torch.hypot(torch.real(a), torch.imag(a)),
        aten._conj.default: _conj,
        aten._conj_physical.default: _conj,
        aten.conj_physical.default: _conj,
        aten.exp.default: _exp,
        aten.log.default: lambda a: _made(torch.log(torch.abs(a)), torch.angle(a)),
        aten.sgn.default: _sgn,
        aten.eq.Tensor: _equal,
        aten.eq.Scalar: _equal,
        aten.ne.Tensor: lambda a, b: ~_equal(a, b),
        aten.ne.Scalar: lambda a, b: ~_equal(a, b),
        aten.logical_not.default: lambda a: _equal(a, 0),
        aten.where.self: _where,
        aten._to_copy.default: _to_copy,
        aten.full.default: _full,
        aten.mm.default: _product(aten.mm.default),
        aten.bmm.default: _product(aten.bmm.default),
        **{
            op: _each_part(op)
            for op in (
                aten.sum.default,
                aten.sum.dim_IntList,
                aten.mean.default,
                aten.mean.dim,
                aten.cumsum.default,
                aten.index.Tensor,
                aten.gather.default,
                aten.flip.default,
            )
        },
    }
    return {op: _guarded(form, default.get(op)) for op, form in complex_forms.items()}


def _is_complex(value: Any) -> bool:
    import torch

    if isinstance(value, torch.Tensor):
        return value.dtype.is_complex
    return isinstance(value, complex) or (isinstance(value, torch.dtype) and value.is_complex)


def _guarded(form: Callable[..., Any], otherwise: Callable[..., Any] | None) -> Callable[..., Any]:
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        if any(map(_is_complex, (*args, *kwargs.values()))):
            return form(*args, **kwargs)
        return otherwise(*args, **kwargs) if otherwise else NotImplemented

    return decomposition


def _parts(value: Any) -> Pair:
    import torch

    if isinstance(value, torch.Tensor):
        if value.dtype.is_complex:
            return torch.real(value), torch.imag(value)
        return value, torch.zeros_like(value)
    return (value.real, value.imag) if isinstance(value, complex) else (value, 0.0)


def _made(real: torch.Tensor, imaginary: torch.Tensor) -> torch.Tensor:
    import torch

    dtype = torch.promote_types(real.dtype, imaginary.dtype)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    return torch.complex(*torch.broadcast_tensors(real.to(dtype), imaginary.to(dtype)))


def _add(a: Any, b: Any, alpha: Any = 1) -> torch.Tensor:
    if alpha != 1:
        b = _mul(b, alpha) if _is_complex(alpha) or _is_complex(b) else b * alpha
    (a_re, a_im), (b_re, b_im) = _parts(a), _parts(b)
    return _made(a_re + b_re, a_im + b_im)


def _mul(a: Any, b: Any) -> torch.Tensor:
    (a_re, a_im), (b_re, b_im) = _parts(a), _parts(b)
    return _made(a_re * b_re - a_im * b_im, a_re * b_im + a_im * b_re)


def _div(a: Any, b: Any) -> torch.Tensor:
    """Smith's method: scaled by the larger part, so that squares do not overflow."""
    import torch

    (a_re, a_im) = _parts(a)
    if not _is_complex(b):
        return _made(a_re / b, a_im / b)
    if not isinstance(b, torch.Tensor):
        square = b.real * b.real + b.imag * b.imag
        return _mul(a, complex(b.real / square, -b.imag / square))
    b_re, b_im = _parts(b)
    wide = b_re.abs() >= b_im.abs()
    large, small = torch.where(wide, b_re, b_im), torch.where(wide, b_im, b_re)
    ratio = small / large
    scale = 1 / (large + small * ratio)
    re = torch.where(wide, a_re + a_im * ratio, a_re * ratio + a_im)
    im = torch.where(wide, a_im - a_re * ratio, a_im * ratio - a_re)
    return _made(re * scale, im * scale)


def _conj(a: torch.Tensor) -> torch.Tensor:
    import torch

    return _made(torch.real(a), -torch.imag(a))


def _exp(a: torch.Tensor) -> torch.Tensor:
    import torch

    size, angle = torch.exp(torch.real(a)), torch.imag(a)
    return _made(size * torch.cos(angle), size * torch.sin(angle))


def _sgn(a: torch.Tensor) -> torch.Tensor:
    import torch

    size = torch.abs(a)
    size = torch.where(size == 0, 1.0, size)
    return _made(torch.real(a) / size, torch.imag(a) / size)


def _equal(a: Any, b: Any) -> torch.Tensor:
    (a_re, a_im), (b_re, b_im) = _parts(a), _parts(b)
    found: torch.Tensor = (a_re == b_re) & (a_im == b_im)
    return found


def _where(condition: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    import torch

    (a_re, a_im), (b_re, b_im) = _parts(a), _parts(b)
    return _made(torch.where(condition, a_re, b_re), torch.where(condition, a_im, b_im))


def _to_copy(a: torch.Tensor, *, dtype: torch.dtype | None = None, **unused: Any) -> torch.Tensor:
    import torch

    if dtype is None or dtype == a.dtype:
        return a.clone()
    if not dtype.is_complex:
        return torch.real(a).to(dtype) if dtype != torch.bool else ~_equal(a, 0)
    part = {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(dtype)
    if part is None:
        return NotImplemented
    real, imaginary = _parts(a)
    return torch.complex(real.to(part), imaginary.to(part))


def _full(size: list[int], value: Any, **kwargs: Any) -> torch.Tensor:
    import torch

    dtype = kwargs.get("dtype") or torch.complex64
    part = torch.float64 if dtype == torch.complex128 else torch.float32
    real, imaginary = _parts(value)
    options = {"dtype": part, "device": kwargs.get("device")}
    return torch.complex(torch.full(size, real, **options), torch.full(size, imaginary, **options))


def _product(op: Any) -> Callable[[Any, Any], torch.Tensor]:
    def decomposition(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        (a_re, a_im), (b_re, b_im) = _parts(a), _parts(b)
        return _made(op(a_re, b_re) - op(a_im, b_im), op(a_re, b_im) + op(a_im, b_re))

    return decomposition


def _each_part(op: Any) -> Callable[..., torch.Tensor]:
    """An op that is linear in its first argument."""

    def decomposition(a: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if kwargs.get("dtype") is not None:
            return NotImplemented
        real, imaginary = _parts(a)
        return _made(op(real, *args, **kwargs), op(imaginary, *args, **kwargs))

    return decomposition
