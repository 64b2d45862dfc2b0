"""Elementwise ops and shapes that IREE's importer lowers wrong or not at all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_half
from mlirfuse.frontends.torch_decompositions.loops import Carried, repeat_while

if TYPE_CHECKING:
    import torch


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    comparisons = (aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge)
    bitwise = (aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor)
    shifts = (aten.bitwise_left_shift, aten.bitwise_right_shift)
    return {
        aten.squeeze.dims: _squeeze_dims,
        aten.gelu.default: _gelu,
        **{op.Scalar: _compared_in_one_type(op.Scalar) for op in comparisons},
        **{op.Tensor: _compared_unsigned(op.Tensor) for op in comparisons},
        **{op: _scaled_by_float(op) for op in (aten.mul.Scalar, aten.mul.Tensor)},
        **{op.Scalar: _bitwise_with_scalar(op.Tensor) for op in bitwise},
        **{op.Scalar_Tensor: _bitwise_with_scalar(op.Tensor) for op in bitwise},
        **{op.Tensor_Scalar: _bitwise_with_scalar(op.Tensor) for op in shifts},
        **{op.Scalar_Tensor: _bitwise_with_scalar(op.Tensor) for op in shifts},
        aten.logsumexp.default: _logsumexp,
        **{
            op: _of_bytes(op)
            for op in (aten.div.Tensor_mode, aten.div.Scalar_mode, aten.floor_divide.default)
        },
        aten.isfinite.default: _isfinite,
        aten.angle.default: _angle,
        aten.polar.default: _polar,
        aten.log10.default: _log10,
        aten.asinh.default: _asinh,
        aten.copysign.Tensor: _copysign,
        aten.copysign.Scalar: _copysign,
        aten.signbit.default: _signbit,
        aten.hypot.default: _hypot,
        aten.nextafter.default: _nextafter,
        aten.frexp.Tensor: _frexp,
        aten.ldexp.Tensor: _ldexp,
        aten.heaviside.default: _heaviside,
        aten.gcd.default: _gcd,
        aten.lcm.default: _lcm,
        aten.fmax.default: lambda a, b: _ignoring_nan(a, b, largest=True),
        aten.fmin.default: lambda a, b: _ignoring_nan(a, b, largest=False),
    }


def _squeeze_dims(x: torch.Tensor, dims: list[int]) -> torch.Tensor:
    named = {d % x.dim() for d in dims} if x.dim() else set()
    # A dynamic size counts as more than one, as it does for PyTorch.
    return x.view(
        [
            size
            for dim, size in enumerate(x.shape)
            if not (dim in named and isinstance(size, int) and size == 1)
        ]
    )


def _gelu(x: torch.Tensor, *, approximate: str = "none") -> Any:
    """GELU by tanh with sqrt(2/pi), where IREE's importer uses 0.797724.

    The error is 5e-5 of the result, below half precision, but no fusion pass recognizes that GELU.
    """
    import torch

    if approximate != "tanh" or is_half(x.dtype):
        return NotImplemented
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))
    return 0.5 * x * (1.0 + torch.tanh(inner))


def _compared_in_one_type(op: Any) -> Callable[..., Any]:
    """Compares a tensor with a scalar of its own kind of type, as PyTorch's promotion does.

    IREE's importer folds a comparison of a floating-point constant with an integer as one of their
    bits, and crashes on a comparison of an integer constant with a float.
    """

    def decomposition(x: torch.Tensor, other: Any) -> Any:
        import torch

        if not isinstance(other, int | float):
            return NotImplemented
        if x.dtype.is_floating_point and not isinstance(other, float):
            return op(x, float(other))
        if not x.dtype.is_floating_point and isinstance(other, float):
            return op(x.to(torch.get_default_dtype()), other)
        if not x.dtype.is_signed and x.dtype != torch.uint64:  # IREE compares with the sign
            return op(x.to(torch.int64), int(other))
        return NotImplemented

    return decomposition


def _scaled_by_float(op: Any) -> Callable[..., Any]:
    """IREE 3.13 folds the product of a constant and a negative integer as one of 64 bits."""

    def decomposition(x: Any, factor: Any) -> Any:
        import torch

        floating = isinstance(x, torch.Tensor) and x.dtype.is_floating_point
        if not floating or not isinstance(factor, int) or factor >= 0:
            return NotImplemented
        return op(x, float(factor))

    return decomposition


def _compared_unsigned(op: Any) -> Callable[..., Any]:
    def decomposition(x: torch.Tensor, y: torch.Tensor) -> Any:
        import torch

        small = (torch.bool, torch.uint8, torch.uint16)
        if x.dtype not in small or y.dtype not in small:
            return NotImplemented
        return op(x.to(torch.int32), y.to(torch.int32))

    return decomposition


def _bitwise_with_scalar(op: Any) -> Callable[..., Any]:
    def decomposition(x: Any, y: Any) -> Any:
        import torch

        dtype = torch.result_type(x, y)
        like = x if isinstance(x, torch.Tensor) else y
        parts = [
            v.to(dtype)
            if isinstance(v, torch.Tensor)
            else torch.full((), v, dtype=dtype, device=like.device)
            for v in (x, y)
        ]
        return op(*parts)

    return decomposition


_BITS = {16: "int16", 32: "int32", 64: "int64"}


def _bits(x: torch.Tensor) -> torch.Tensor:
    """The representation of floating-point numbers as signed integers."""
    import torch

    dtype = getattr(torch, _BITS[x.dtype.itemsize * 8])
    # IREE's importer crashes on the view of a scalar.
    return x.view(dtype) if x.dim() else x.view(1).view(dtype).view(())


def _signbit(x: torch.Tensor) -> torch.Tensor:
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
    return torch.where(_signbit(sign), -size, size)


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


def _frexp(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The fraction in [0.5, 1), and the exponent of two, from the representation."""
    import torch

    wide = x.float()
    tiny = wide.abs() < 2.0**-126
    bits = torch.where(tiny, wide * 2.0**25, wide).view(torch.int32)
    exponent = torch.bitwise_and(bits >> 23, 255) - 126 - torch.where(tiny, 25, 0)
    fraction = torch.bitwise_or(torch.bitwise_and(bits, -2139095041), 0x3F000000).view(
        torch.float32
    )
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


def _heaviside(x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    import torch

    step = (x > 0).to(x.dtype)
    return torch.where(x == 0, values, step)


def _gcd(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Euclid's algorithm, as long as a remainder is left."""
    import torch

    dtype = torch.result_type(x, y)
    a, b = torch.broadcast_tensors(x.to(torch.int64).abs(), y.to(torch.int64).abs())

    def body(k: torch.Tensor, carried: Carried) -> Carried:
        a, b = carried
        done = b == 0
        divisor = torch.where(done, 1, b)
        rest = a - torch.div(a, divisor, rounding_mode="trunc") * divisor
        left = torch.where(done, b, rest)
        return torch.where(done, a, b), left

    if not a.numel():
        return a.to(dtype)
    # IREE 3.13 does not compile a loop that carries scalars only.
    rows = (a.reshape(-1), b.reshape(-1))
    found = repeat_while(lambda k, carried: (carried[1].abs(),), body, rows)[0]
    return found.view(a.shape).to(dtype)


def _lcm(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    import torch

    divisor = torch.gcd(x, y)
    quotient = torch.div(x, torch.where(divisor == 0, 1, divisor), rounding_mode="trunc")
    return (quotient * y).abs()


def _ignoring_nan(a: torch.Tensor, b: torch.Tensor, *, largest: bool) -> torch.Tensor:
    """The larger or smaller of two numbers, and the number where the other one is NaN."""
    import torch

    dtype = torch.result_type(a, b)
    a, b = torch.broadcast_tensors(a.to(dtype), b.to(dtype))
    best = torch.maximum(a, b) if largest else torch.minimum(a, b)
    if not dtype.is_floating_point:
        return best
    return torch.where(a != a, b, torch.where(b != b, a, best))


def _log10(x: torch.Tensor) -> torch.Tensor:
    """IREE's CPU code for log10 calls a function that is not there."""
    import torch

    wide = x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())
    return torch.log2(wide) * math.log10(2)


def _asinh(x: torch.Tensor) -> torch.Tensor:
    """Odd, without the cancellation of `log(x + sqrt(x^2 + 1))` for large negative numbers."""
    import torch

    if x.dtype.is_complex:
        return NotImplemented
    wide = x.to(torch.float32 if is_half(x.dtype) else torch.result_type(x, 1.0))
    size = wide.abs()
    # x^2 may overflow, and for large x the one is lost.
    root = torch.sqrt(size * size + 1)
    small = torch.log1p(size + size * (size / (1 + root)))
    found = torch.where(size > 1e8, torch.log(size) + math.log(2), small)
    found = torch.where(wide < 0, -found, found)
    return found.to(x.dtype if x.dtype.is_floating_point else wide.dtype)


def _logsumexp(x: torch.Tensor, dim: list[int], keepdim: bool = False) -> torch.Tensor:
    """IREE's importer takes no axis of a scalar."""
    if x.dim() or not x.dtype.is_floating_point:
        return NotImplemented
    return x.clone()


def _of_bytes(op: Any) -> Callable[..., Any]:
    """Integer division of bytes in 32 bits: IREE's importer cannot convert to bytes there."""

    def decomposition(x: torch.Tensor, y: Any, **kwargs: Any) -> Any:
        import torch

        if torch.result_type(x, y) != torch.uint8:
            return NotImplemented
        wide = y.to(torch.int32) if isinstance(y, torch.Tensor) else y
        return op(x.to(torch.int32), wide, **kwargs).to(torch.uint8)

    return decomposition


def _isfinite(x: torch.Tensor) -> torch.Tensor:
    """IREE's importer takes NaN for finite."""
    import torch

    if x.dtype.is_complex:
        return torch.isfinite(torch.real(x)) & torch.isfinite(torch.imag(x))
    if not x.dtype.is_floating_point:
        return torch.ones_like(x, dtype=torch.bool)
    return x.abs() < math.inf


def _angle(x: torch.Tensor) -> torch.Tensor:
    import torch

    wide = x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())
    found = torch.where(wide < 0, math.pi, 0.0).to(wide.dtype)
    return torch.where(wide != wide, wide, found)


def _polar(size: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    """IREE's importer does not broadcast the parts of a complex number."""
    import torch

    size, angle = torch.broadcast_tensors(size, angle)
    return torch.complex(size * torch.cos(angle), size * torch.sin(angle))
