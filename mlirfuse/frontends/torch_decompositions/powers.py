"""Powers, which IREE 3.13 has no lowering for where they are integers, and gets wrong as floats.

The sign of a power and its value at zeros, ones and infinities are computed apart from the power of
the size: IREE's are NaN for bases below zero.
"""

from __future__ import annotations

import contextvars
import math
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_empty, is_half
from mlirfuse.frontends.torch_decompositions.loops import Carried, from_rows, in_rows, repeat
from mlirfuse.frontends.torch_decompositions.representation import signbit

if TYPE_CHECKING:
    import torch


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    return {
        aten.pow.Tensor_Tensor: _pow,
        aten.pow.Tensor_Scalar: _pow_of_scalar,
        aten.pow.Scalar: _scalar_pow,
    }


_plain: contextvars.ContextVar[bool] = contextvars.ContextVar("plain", default=False)
"""Whether a power is one that IREE computes right, so that it remains one op."""


def _lowered(op: Any, *args: Any) -> Any:
    token = _plain.set(True)
    try:
        return op(*args)
    finally:
        _plain.reset(token)


def _pow(x: torch.Tensor, y: torch.Tensor) -> Any:
    import torch

    dtype = torch.result_type(x, y)
    if _plain.get() or dtype.is_complex:
        return NotImplemented
    x, y = torch.broadcast_tensors(x, y)
    if not dtype.is_floating_point:
        return _integer_power(x.to(dtype), y.to(dtype))
    wide = torch.float32 if is_half(dtype) else dtype
    return _power(x.to(wide), y.to(wide)).to(dtype)


def _power(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    import torch

    size = x.abs()
    found = _lowered(torch.ops.aten.pow.Tensor_Tensor, size, y)
    found = torch.where((size == 1) & (y.abs() == math.inf), 1.0, found)
    half = y * 0.5
    odd = (torch.floor(y) == y) & (torch.floor(half) != half)
    found = torch.where(signbit(x) & odd, -found, found)
    no_root = (x < 0) & (size != math.inf) & (torch.floor(y) != y)
    found = torch.where(no_root, math.nan, found)
    return torch.where((x == 1) | (y == 0), 1.0, found)


def _pow_of_scalar(x: torch.Tensor, exponent: Any) -> Any:
    import torch

    if _plain.get() or x.dtype.is_complex or isinstance(exponent, complex):
        return NotImplemented
    if not isinstance(exponent, int | float):
        return NotImplemented
    dtype = torch.result_type(x, exponent)
    if not dtype.is_floating_point:
        wide = x.to(torch.int32) if dtype == torch.bool else x.to(dtype)
        return _by_squaring(wide, int(exponent)).to(dtype)
    if x.dtype != dtype:
        return torch.pow(x.to(dtype), exponent)
    if exponent != exponent or abs(exponent) == math.inf:
        return torch.pow(x, torch.full_like(x, exponent))
    if exponent in (0.5, -0.5) or (exponent >= 0 and exponent == int(exponent)):
        return NotImplemented
    if exponent in (-1, -2):
        return torch.reciprocal(x if exponent == -1 else x * x)
    if exponent == int(exponent):
        wide = x.float() if is_half(dtype) else x
        return _power(wide, torch.full_like(wide, exponent)).to(dtype)
    limit = math.inf if exponent > 0 else 0.0
    found = _lowered(torch.ops.aten.pow.Tensor_Scalar, x, exponent)
    return torch.where(x == -math.inf, limit, found)


def _scalar_pow(base: Any, y: torch.Tensor) -> Any:
    import torch

    if isinstance(base, complex) or y.dtype.is_complex:
        return NotImplemented
    dtype = torch.result_type(base, y)
    return torch.pow(torch.full_like(y, base, dtype=dtype), y.to(dtype))


def _by_squaring(x: torch.Tensor, exponent: int) -> torch.Tensor:
    import torch

    if exponent < 0:
        return _integer_power(x, torch.full_like(x, exponent))
    found, square = torch.ones_like(x), x
    for bit in range(exponent.bit_length()):
        found = found * square if exponent >> bit & 1 else found
        square = square * square
    return found


def _integer_power(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Squaring, modulo the size of the type; negative powers of numbers but 1 and -1 are 0."""
    import torch

    dtype = x.dtype
    if is_empty(x):
        return x.clone()
    bits = 8 * dtype.itemsize - (1 if dtype.is_signed else 0)
    wide = torch.int64 if dtype.itemsize == 8 else torch.int32

    def body(k: torch.Tensor, carried: Carried) -> Carried:
        found, square, left = carried
        rest = torch.div(left, 2, rounding_mode="trunc")
        return torch.where(left - 2 * rest == 1, found * square, found), square * square, rest

    base, power = in_rows(x.to(wide), y.to(wide))
    found = repeat(bits, body, (torch.ones_like(base), base, power.abs()))[0]
    if dtype.is_signed:
        found = torch.where((power < 0) & (base.abs() != 1), 0, found)
    return from_rows(found, x).to(dtype)
