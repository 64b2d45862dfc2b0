"""Negation, rounded quotients, common divisors and multiples."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_half
from mlirfuse.frontends.torch_decompositions.loops import (
    Carried,
    from_rows,
    in_rows,
    repeat_while,
)

if TYPE_CHECKING:
    import torch


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    return {
        aten.neg.default: _neg,
        aten.div.Tensor_mode: _divided,
        aten.div.Scalar_mode: _divided,
        aten.floor_divide.default: lambda x, y: _divided(x, y, rounding_mode="floor"),
        aten.fmod.Tensor: _fmod,
        aten.fmod.Scalar: _fmod,
        aten.remainder.Scalar_Tensor: _remainder_of_number,
        aten.gcd.default: _gcd,
        aten.lcm.default: _lcm,
    }


def _neg(x: torch.Tensor) -> Any:
    """The product with -1 for integers, which IREE 3.13 negates as f32."""
    return NotImplemented if x.dtype.is_floating_point or x.dtype.is_complex else x * -1


def _divided(x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    """Quotients of bytes in 32 bits, and floors of quotients from remainders, as in PyTorch."""
    import torch

    if not isinstance(x, torch.Tensor) and not isinstance(y, torch.Tensor):
        return NotImplemented
    dtype = torch.result_type(x, y)
    if not isinstance(x, torch.Tensor):
        x = torch.full((), x, dtype=dtype, device=y.device)
    if dtype == torch.uint8:
        wide = y.to(torch.int32) if isinstance(y, torch.Tensor) else y
        return torch.div(x.to(torch.int32), wide, rounding_mode=rounding_mode).to(dtype)
    if rounding_mode is None:
        return NotImplemented
    if not dtype.is_floating_point:
        return _floor_of_integers(x, y, dtype) if rounding_mode == "floor" else NotImplemented
    if rounding_mode == "trunc":
        if not is_half(dtype):
            return NotImplemented
        quotient = x.float() / (y.float() if isinstance(y, torch.Tensor) else y)
        return torch.trunc(_rounded(quotient, dtype)).to(dtype)
    wide_type = torch.float32 if is_half(dtype) else dtype
    a = x.to(wide_type)
    b = y.to(wide_type) if isinstance(y, torch.Tensor) else torch.full_like(a, y)
    rest = torch.fmod(a, b)
    exact = (a - rest) / b
    exact = torch.where((rest != 0) & ((b < 0) != (rest < 0)), exact - 1, exact)
    floor = torch.floor(exact)
    floor = torch.where(exact - floor > 0.5, floor + 1, floor)
    zero = torch.copysign(torch.zeros_like(exact), a / b)
    found = torch.where(exact == 0, zero, floor)
    return torch.where(b == 0, a / b, found).to(dtype)


def _floor_of_integers(x: torch.Tensor, y: Any, dtype: torch.dtype) -> torch.Tensor:
    """The quotient towards zero, one less where it is not exact and negative.

    IREE 3.13 divides floats, of 32 bits in a program without f64, and rounds the result.
    """
    import torch

    if not isinstance(y, torch.Tensor):
        y = torch.full((), y, dtype=dtype, device=x.device)
    a, b = x.to(dtype), y.to(dtype)
    quotient = torch.div(a, b, rounding_mode="trunc")
    rest = a - quotient * b
    below = (rest != 0) & ((rest < 0) != (b < 0))
    return quotient - below.to(dtype)


def _rounded(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Rounds float32 to the digits of a type: IREE drops a conversion to it and back.

    Veltkamp's splitting: the difference of two large numbers has the leading digits.
    """
    import torch

    digits = 2 - round(math.log2(torch.finfo(dtype).eps)) - 1
    large = x * float(2 ** (24 - digits) + 1)
    return torch.where(large.abs() < math.inf, large - (large - x), x)


_QUOTIENT_STEPS = 3
"""Steps that take digits of a quotient off: it is exact up to 2**48 in bfloat16, always in f16."""


def _fmod(x: torch.Tensor, y: Any) -> Any:
    """The exact remainder: IREE 3.13 rounds the quotient, and its product with the divisor.

    In half precision each step divides by the divisor times a power of two, so that the quotient
    has so few digits that its product with the divisor in float32 is exact. In other types of
    floats it is `aten.remainder` of magnitudes, which IREE computes exactly. IREE has no lowering
    for a divisor that is a number.
    """
    import torch

    dtype = torch.result_type(x, y)
    if not dtype.is_floating_point and isinstance(y, torch.Tensor):
        return NotImplemented
    if not isinstance(y, torch.Tensor):
        y = torch.full((), y, dtype=dtype, device=x.device)
    if not dtype.is_floating_point:
        return torch.fmod(x.to(dtype), y)
    if not is_half(dtype):
        a, divisor = x.to(dtype), y.to(dtype).abs()
        rest = torch.remainder(a.abs(), divisor)
        # IREE's remainder of a division by infinity is NaN.
        rest = torch.where((divisor == math.inf) & (a.abs() < math.inf), a.abs(), rest)
        return torch.copysign(rest, a)
    a, divisor = x.float(), y.float().abs()
    rest = a.abs()
    digits = 24 - (1 - round(math.log2(torch.finfo(dtype).eps)))
    for step in reversed(range(_QUOTIENT_STEPS)):
        unit = divisor * 2.0 ** (digits * step)
        quotient = torch.trunc(rest / unit)
        left = rest - quotient * unit
        left = torch.where(left < 0, left + unit, left)
        left = torch.where(left >= unit, left - unit, left)
        rest = torch.where(quotient == 0, rest, left)
    return torch.copysign(rest, a).to(dtype)


def _remainder_of_number(x: float, y: torch.Tensor) -> Any:
    """The remainder of a number, which becomes a tensor: IREE has no lowering for it."""
    import torch

    dtype = torch.result_type(x, y)
    return torch.remainder(torch.full((), x, dtype=dtype, device=y.device), y.to(dtype))


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
    found = repeat_while(lambda k, carried: (carried[1].abs(),), body, in_rows(a, b))[0]
    return from_rows(found, a).to(dtype)


def _lcm(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    import torch

    divisor = torch.gcd(x, y)
    quotient = torch.div(x, torch.where(divisor == 0, 1, divisor), rounding_mode="trunc")
    return (quotient * y).abs()
