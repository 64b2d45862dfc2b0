"""Elementwise ops and shapes that IREE's importer lowers wrong or not at all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_half

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
        aten.isfinite.default: _isfinite,
        aten.log10.default: _log10,
        aten.asinh.default: _asinh,
        aten.elu.default: _elu,
        aten.rrelu_with_noise_functional.default: _rrelu,
        aten.heaviside.default: _heaviside,
        aten.clamp.Tensor: _clamp,
        aten.clamp.default: _clamp_by_numbers,
        aten.__rshift__.Tensor: torch.bitwise_right_shift,
        aten.__rshift__.Scalar: torch.bitwise_right_shift,
        aten.__lshift__.Tensor: torch.bitwise_left_shift,
        aten.__lshift__.Scalar: torch.bitwise_left_shift,
        aten.lerp.Scalar: lerp,
        aten.lerp.Tensor: lerp,
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


def _clamp_by_numbers(
    x: torch.Tensor, low: float | None = None, high: float | None = None
) -> torch.Tensor | Any:
    """A clamp of integers by floats has floats as results, as PyTorch's type promotion has it."""
    import torch

    dtype = x.dtype
    for bound in (low, high):
        if bound is not None:
            dtype = torch.promote_types(dtype, torch.result_type(x, bound))
    return NotImplemented if dtype == x.dtype else torch.clamp(x.to(dtype), low, high)


def _clamp(
    x: torch.Tensor, low: torch.Tensor | None = None, high: torch.Tensor | None = None
) -> Any:
    """IREE's importer takes limits of the type of the number only."""
    import torch
    from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

    given = [t for t in (x, low, high) if t is not None]
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
    dtype = elementwise_dtypes(*given, type_promotion_kind=kind)[1]
    if all(t.dtype == dtype for t in given):
        return NotImplemented
    return torch.clamp(x.to(dtype), *(t if t is None else t.to(dtype) for t in (low, high)))


def _rrelu(
    x: torch.Tensor,
    noise: torch.Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: torch.Generator | None = None,
) -> Any:
    """In evaluation mode, which draws no slopes."""
    from torch.nn import functional

    if training:
        return NotImplemented
    return functional.leaky_relu(x, (lower + upper) / 2), noise


def _heaviside(x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    import torch

    step = (x > 0).to(x.dtype)
    return torch.where(x == 0, values, step)


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


def _elu(x: torch.Tensor, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> torch.Tensor:
    """By `expm1`, without the cancellation of `exp(x) - 1`."""
    import torch

    wide = x.to(torch.float32) if is_half(x.dtype) else x
    below = torch.expm1(wide * input_scale if input_scale != 1 else wide) * (alpha * scale)
    above = wide * scale if scale != 1 else wide
    return torch.where(wide > 0, above, below).to(x.dtype)


def _logsumexp(x: torch.Tensor, dim: list[int], keepdim: bool = False) -> torch.Tensor:
    """The sum is scaled by its largest term."""
    import torch

    exact = x.dtype.is_floating_point or x.dtype.is_complex
    dtype = x.dtype if exact else torch.get_default_dtype()
    wide = x.to(torch.float32 if is_half(dtype) else dtype)
    if not x.dim():
        return wide.clone().to(dtype)
    axes = list(dim) or list(range(x.dim()))
    if any(isinstance(x.shape[axis], int) and not x.shape[axis] for axis in axes):
        return torch.log(torch.exp(wide).sum(axes, keepdim=keepdim)).to(dtype)
    size = torch.real(wide) if dtype.is_complex else wide
    top = size.amax(axes, keepdim=True)
    top = torch.where(top.abs() == math.inf, 0.0, top)
    total = torch.log(torch.exp(wide - top).sum(axes, keepdim=keepdim))
    return (total + (top if keepdim else top.squeeze(axes))).to(dtype)


def _isfinite(x: torch.Tensor) -> torch.Tensor:
    """IREE's importer takes NaN for finite."""
    import torch

    if x.dtype.is_complex:
        return torch.isfinite(torch.real(x)) & torch.isfinite(torch.imag(x))
    if not x.dtype.is_floating_point:
        return torch.ones_like(x, dtype=torch.bool)
    return x.abs() < math.inf


def lerp(start: torch.Tensor, end: torch.Tensor, weight: Any) -> torch.Tensor:
    """From the nearer end. PyTorch's copies its result to other strides by `prims.copy_strided`."""
    import torch

    difference = end - start
    if not isinstance(weight, torch.Tensor):
        if abs(weight) < 0.5:
            return start + weight * difference
        return end - difference * (1 - weight)
    near = torch.abs(weight) < 0.5
    return torch.where(near, start + weight * difference, end - difference * (1 - weight))
