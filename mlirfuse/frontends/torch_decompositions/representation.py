"""Signs, exponents and angles of floating-point numbers, from their representation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_half

if TYPE_CHECKING:
    import torch


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    return {
        aten.signbit.default: signbit,
        aten.copysign.Tensor: _copysign,
        aten.copysign.Scalar: _copysign,
        aten.hypot.default: _hypot,
        aten.nextafter.default: _nextafter,
        aten.frexp.Tensor: _frexp,
        aten.ldexp.Tensor: _ldexp,
        aten.angle.default: _angle,
        aten.polar.default: _polar,
        aten.atan2.default: _atan2,
    }


_BITS = {16: "int16", 32: "int32", 64: "int64"}


def _bits(x: torch.Tensor) -> torch.Tensor:
    """The representation of floating-point numbers as signed integers."""
    import torch

    dtype = getattr(torch, _BITS[x.dtype.itemsize * 8])
    # IREE's importer crashes on the view of a scalar.
    return x.view(dtype) if x.dim() else x.view(1).view(dtype).view(())


def signbit(x: torch.Tensor) -> torch.Tensor:
    """Whether a number is negative, or a zero or NaN with that sign."""
    import torch

    if x.dtype.is_floating_point:
        return _bits(x) < 0
    return torch.zeros_like(x, dtype=torch.bool) if not x.dtype.is_signed else x < 0


def _copysign(x: torch.Tensor, sign: torch.Tensor | float) -> torch.Tensor:
    import torch

    if not isinstance(sign, torch.Tensor):
        dtype = x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
        size = x.to(dtype).abs()
        return -size if math.copysign(1.0, sign) < 0 else size
    dtype = torch.result_type(x, sign)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    size = x.to(dtype).abs()
    return torch.where(signbit(sign), -size, size)


def _hypot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The root of the squares, scaled by the larger part so that it does not overflow."""
    import torch

    dtype = torch.result_type(x, y)
    wide = torch.float32 if is_half(dtype) else dtype
    a, b = x.to(wide).abs(), y.to(wide).abs()
    large, small = torch.maximum(a, b), torch.minimum(a, b)
    ratio = torch.where(large == small, 1.0, small / large)
    found = torch.where(large == 0, 0.0, large * torch.sqrt(1 + ratio * ratio))
    return torch.where((a == math.inf) | (b == math.inf), math.inf, found).to(dtype)


def _nextafter(x: torch.Tensor, to: torch.Tensor) -> torch.Tensor:
    import torch

    x, to = torch.broadcast_tensors(x, to)
    if not x.dim():
        return _nextafter(x.view(1), to.view(1)).view(())
    bits = _bits(x)
    away = (to > x) == (x > 0)
    moved = torch.where(away, bits + 1, bits - 1).view(x.dtype)
    least = torch.full_like(bits, 1).view(x.dtype)
    moved = torch.where(x == 0, torch.where(to > 0, least, -least), moved)
    found = torch.where(x == to, to, moved)
    return torch.where((x != x) | (to != to), math.nan, found)


_FORMATS = {4: ("int32", 23, 128), 8: ("int64", 52, 1024)}
"""Bytes of a number -> the integer with its bits, stored bits of the mantissa, largest exponent."""


def _frexp(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The fraction in [0.5, 1), and the exponent of two, from the representation."""
    import torch

    if not x.dim():  # IREE's importer crashes on the view of a scalar
        fraction, exponent = _frexp(x.view(1))
        return fraction.view(()), exponent.view(())
    wide = x if x.dtype == torch.float64 else x.float()
    kind, stored, largest = _FORMATS[wide.dtype.itemsize]
    tiny = wide.abs() < 2.0 ** (2 - largest)
    whole = getattr(torch, kind)
    bits = torch.where(tiny, wide * 2.0 ** (stored + 2), wide).view(whole)
    exponent = torch.bitwise_and(bits >> stored, 2 * largest - 1) - (largest - 2)
    exponent = exponent - torch.where(tiny, stored + 2, 0)
    kept = ~((2 * largest - 1) << stored)
    half = (largest - 2) << stored
    fraction = torch.bitwise_or(torch.bitwise_and(bits, kept), half).view(wide.dtype)
    plain = (wide == 0) | (wide != wide) | (wide.abs() == math.inf)
    return (
        torch.where(plain, wide, fraction).to(x.dtype),
        torch.where(plain, 0, exponent).to(torch.int32),
    )


def _ldexp(x: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    import torch

    dtype = torch.result_type(x, exponent)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    wide = torch.float32 if is_half(dtype) else dtype
    return (x.to(wide) * torch.exp2(exponent.to(wide))).to(dtype)


def _angle(x: torch.Tensor) -> torch.Tensor:
    import torch

    if x.dtype.is_complex:
        return torch.atan2(torch.imag(x), torch.real(x))
    wide = x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())
    found = torch.where(wide < 0, math.pi, 0.0).to(wide.dtype)
    return torch.where(wide != wide, wide, found)


def _polar(size: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    """IREE's importer does not broadcast the parts of a complex number."""
    import torch

    size, angle = torch.broadcast_tensors(size, angle)
    return torch.complex(size * torch.cos(angle), size * torch.sin(angle))


def _atan2(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The angle of the octant, reflected; IREE's is NaN at zeros and infinities."""
    import torch

    dtype = torch.result_type(y, x)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    wide = torch.float32 if is_half(dtype) else dtype
    y, x = torch.broadcast_tensors(y.to(wide), x.to(wide))
    rise, run = y.abs(), x.abs()
    slope = torch.minimum(rise, run) / torch.maximum(rise, run)
    slope = torch.where(rise == run, torch.where(rise == 0, 0.0, 1.0), slope)
    angle = torch.atan(slope)
    angle = torch.where(rise > run, math.pi / 2 - angle, angle)
    angle = torch.where(signbit(x), math.pi - angle, angle)
    angle = torch.where(signbit(y), -angle, angle)
    return torch.where((x != x) | (y != y), math.nan, angle).to(dtype)
