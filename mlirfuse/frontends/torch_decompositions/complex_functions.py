"""Functions of complex numbers, with C99's values at infinities, NaN and the sides of branch cuts.

The parts are computed by real functions, so that neither squares overflow nor differences cancel:
W. Kahan, Branch cuts for complex elementary functions (1987).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table
from mlirfuse.frontends.torch_decompositions.angles import circular, phase
from mlirfuse.frontends.torch_decompositions.complex_pairs import Pair, around, parts

if TYPE_CHECKING:
    import torch


def table(default: Table) -> Table:
    """The decompositions, around those of `default` for real tensors."""
    import torch

    aten = torch.ops.aten
    functions = {
        aten.exp: _exp,
        aten.expm1: _expm1,
        aten.exp2: lambda x, y: _exp(x * math.log(2), y * math.log(2)),
        aten.log: _log,
        aten.log1p: _log1p,
        aten.log2: lambda x, y: _scaled(_log(x, y), 1 / math.log(2)),
        aten.log10: lambda x, y: _scaled(_log(x, y), 1 / math.log(10)),
        aten.sqrt: _sqrt,
        aten.sinh: _sinh,
        aten.cosh: _cosh,
        aten.tanh: _tanh,
        aten.asinh: _turned(_asin),
        aten.acosh: _acosh,
        aten.atanh: _atanh,
        aten.sin: _turned(_sinh),
        aten.cos: lambda x, y: _cosh(-y, x),
        aten.tan: _turned(_tanh),
        aten.asin: _asin,
        aten.acos: _acos,
        aten.atan: _turned(_atanh),
    }
    forms: Table = {op.default: _of_parts(function) for op, function in functions.items()}
    forms |= {
        aten.angle.default: lambda a: phase(torch.imag(a), torch.real(a)),
        aten.rsqrt.default: lambda a: torch.reciprocal(torch.sqrt(a)),
        aten.sigmoid.default: lambda a: torch.reciprocal(1 + torch.exp(-a)),
        aten.silu.default: lambda a: a / (1 + torch.exp(-a)),
        aten.sinc.default: _sinc,
        aten.square.default: lambda a: a * a,
        aten.pow.Scalar: _power,
        aten.pow.Tensor_Scalar: _power_of_scalar,
        aten.pow.Tensor_Tensor: _power,
    }
    return around(default, forms)


def _of_parts(function: Any) -> Any:
    import torch

    return lambda a: torch.complex(*function(torch.real(a), torch.imag(a)))


def _turned(function: Any) -> Any:
    """`-i f(i z)`."""

    def turned(x: torch.Tensor, y: torch.Tensor) -> Pair:
        re, im = function(-y, x)
        return im, -re

    return turned


def _scaled(value: Pair, factor: float) -> Pair:
    return value[0] * factor, value[1] * factor


def _infinite(x: torch.Tensor) -> torch.Tensor:
    return x.abs() == math.inf


def _finite(x: torch.Tensor) -> torch.Tensor:
    return x.abs() < math.inf


_STEP = 64.0
"""A part of large exponents, whose exponential is multiplied in two steps."""


def _times_exp(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """`factor * exp(x)`, where `exp(x)` alone may overflow."""
    import torch

    large = x > _STEP
    found = factor * torch.exp(torch.where(large, x - _STEP, x))
    return torch.where(large, found * math.exp(_STEP), found)


def _exp(x: torch.Tensor, y: torch.Tensor) -> Pair:
    import torch

    re, im = (_times_exp(x, part) for part in circular(y))
    no_angle = ~_finite(y)
    re = torch.where(no_angle & _infinite(x), torch.where(x < 0, 0.0, x), re)
    im = torch.where((y == 0) | (no_angle & (x == -math.inf)), torch.where(y == 0, y, 0.0), im)
    return re, im


def _expm1(x: torch.Tensor, y: torch.Tensor) -> Pair:
    import torch

    re, im = _exp(x, y)
    half = circular(y * 0.5)[1]
    near = torch.expm1(x) * circular(y)[0] - 2 * half * half
    return torch.where(x.abs() < 1, near, re - 1), im


def _hyperbolic(x: torch.Tensor) -> Pair:
    """Sinh and cosh of |x|, divided by exp(64) where |x| > 64."""
    import torch

    size = x.abs()
    large = size > _STEP
    less = torch.expm1(torch.where(large, 0.0, size))
    half = torch.exp(size - _STEP) * 0.5
    rest = less / (1 + less)
    sine = torch.where(large, half, 0.5 * (less + rest))
    return sine, torch.where(large, half, 1 + 0.5 * (less * rest))


def _sinh(x: torch.Tensor, y: torch.Tensor) -> Pair:
    import torch

    sine, cosine = _hyperbolic(x)
    c, s = circular(y)
    factor = torch.where(x.abs() > _STEP, math.exp(_STEP), 1.0)
    re = torch.copysign(sine, x) * c * factor
    im = cosine * s * factor
    re = torch.where(~_finite(y) & ((x == 0) | _infinite(x)), x, re)
    return re, torch.where(y == 0, y, im)


def _cosh(x: torch.Tensor, y: torch.Tensor) -> Pair:
    import torch

    sine, cosine = _hyperbolic(x)
    c, s = circular(y)
    factor = torch.where(x.abs() > _STEP, math.exp(_STEP), 1.0)
    re = cosine * c * factor
    im = torch.copysign(sine, x) * s * factor
    re = torch.where(~_finite(y) & _infinite(x), x.abs(), re)
    im = torch.where(y == 0, torch.where(torch.signbit(x), -y, y), im)
    return re, torch.where(~_finite(y) & (x == 0), 0.0, im)


def _tanh(x: torch.Tensor, y: torch.Tensor) -> Pair:
    """From the tangent of y; the imaginary part of large numbers is below single precision."""
    import torch

    size = x.abs()
    large = size > 10
    sine, cosine = _hyperbolic(torch.where(large, 0.0, size))
    tangent = torch.tan(y)
    secant = 1 + tangent * tangent
    scale = 1 + secant * (sine * sine)
    known = large & (_finite(y) | _infinite(x))
    re = torch.where(known, 1.0, secant * cosine * sine / scale)
    small = 2 * torch.sin(2 * y) * torch.exp(-2 * size)
    im = torch.where(large, small, tangent / scale)
    im = torch.where(_infinite(x) & ~_finite(y), 0.0, im)
    return torch.where(x == 0, x, torch.copysign(re, x)), torch.where(y == 0, y, im)


def _log_size(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """`log |x + iy|`; near one by the difference of |z|^2 from one."""
    import torch

    large, small = torch.maximum(x.abs(), y.abs()), torch.minimum(x.abs(), y.abs())
    ratio = torch.where(small == large, 1.0, small / large)
    ratio = torch.where(large == 0, 0.0, ratio)
    far = torch.log(large) + 0.5 * torch.log1p(ratio * ratio)
    near = 0.5 * torch.log1p((large - 1) * (large + 1) + small * small)
    found = torch.where((large > 0.7) & (large < 1.5), near, far)
    return torch.where(_infinite(x) | _infinite(y), math.inf, found)


def _log(x: torch.Tensor, y: torch.Tensor) -> Pair:
    return _log_size(x, y), phase(y, x)


def _log1p(x: torch.Tensor, y: torch.Tensor) -> Pair:
    import torch

    near = (x.abs() < 0.5) & (y.abs() < 0.5)
    small = 0.5 * torch.log1p(x * (2 + x) + y * y)
    return torch.where(near, small, _log_size(1 + x, y)), phase(y, 1 + x)


def _sqrt(x: torch.Tensor, y: torch.Tensor) -> Pair:
    import torch

    size = torch.maximum(x.abs(), y.abs())
    big, tiny = size > 2.0**100, size < 2.0**-70
    scale = torch.where(big, 2.0**-4, torch.where(tiny, 2.0**48, 1.0))
    back = torch.where(big, 2.0**2, torch.where(tiny, 2.0**-24, 1.0))
    a, b = x.abs() * scale, y.abs() * scale
    root = torch.sqrt(0.5 * (a + torch.hypot(a, b)))
    other = torch.where(root == 0, 0.0, 0.5 * b / torch.where(root == 0, 1.0, root)) * back
    root = root * back
    negative = torch.signbit(x)
    re, im = torch.where(negative, other, root), torch.where(negative, root, other)
    nothing = y * 0  # NaN for NaN
    re = torch.where(_infinite(x), torch.where(negative, nothing, math.inf), re)
    im = torch.where(_infinite(x), torch.where(negative, math.inf, nothing), im)
    re, im = (torch.where(_infinite(y), math.inf, part) for part in (re, im))
    return re, torch.copysign(im, y)


def _roots_around_one(x: torch.Tensor, y: torch.Tensor) -> tuple[Pair, Pair]:
    """The square roots of 1 - z and 1 + z."""
    return _sqrt(1 - x, -y), _sqrt(1 + x, y)


def _beyond(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return _infinite(x) | _infinite(y)


def _asin(x: torch.Tensor, y: torch.Tensor) -> Pair:
    import torch

    (a_re, a_im), (b_re, b_im) = _roots_around_one(x, y)
    re = phase(x, a_re * b_re - a_im * b_im)
    im = torch.asinh(a_re * b_im - a_im * b_re)
    endless = _beyond(x, y)
    re = torch.where(endless, phase(x, y.abs()), re)
    re = torch.where(x == 0, x, re)
    return re, torch.copysign(torch.where(endless, math.inf, im), y)


def _acos(x: torch.Tensor, y: torch.Tensor) -> Pair:
    import torch

    (a_re, a_im), (b_re, b_im) = _roots_around_one(x, y)
    re = 2 * phase(a_re, b_re)
    im = torch.asinh(a_re * b_im - a_im * b_re)
    endless = _beyond(x, y)
    re = torch.where(endless, phase(y.abs(), x), re)
    re = torch.where(x == 0, math.pi / 2, re)
    return re, -torch.copysign(torch.where(endless, math.inf, im), y)


def _acosh(x: torch.Tensor, y: torch.Tensor) -> Pair:
    import torch

    re, im = _acos(x, y)
    return im.abs(), torch.copysign(re, y)


_LARGE = 2.0**24
"""From this size on the inverse hyperbolic tangent is 1 / z and a right angle."""


def _atanh(x: torch.Tensor, y: torch.Tensor) -> Pair:
    import torch

    a, b = x.abs(), y.abs()
    far = torch.maximum(a, b) >= _LARGE
    near_a, near_b = torch.where(far, 0.5, a), torch.where(far, 0.5, b)
    away = (1 - near_a) * (1 - near_a) + near_b * near_b
    re = 0.25 * torch.log1p(4 * near_a / away)
    # The square of the distance from one is below the smallest number.
    re = torch.where(away == 0, 0.5 * (math.log(2) - torch.log(near_b)), re)
    im = 0.5 * phase(2 * near_b, (1 - near_a) * (1 + near_a) - near_b * near_b)
    large = torch.maximum(a, b)
    p, q = a / large, b / large
    re = torch.where(far, p / ((p * p + q * q) * large), re)
    im = torch.where(far | _infinite(b), math.pi / 2, im)
    re = torch.where((a == 0) | _infinite(a) | _infinite(b), 0.0, re)
    return torch.copysign(re, x), torch.copysign(im, y)


def _sinc(a: torch.Tensor) -> torch.Tensor:
    import torch

    angle = a * math.pi
    zero = a == 0
    return torch.where(zero, 1.0, torch.sin(angle) / torch.where(zero, 1.0, angle))


def _power(a: Any, b: Any) -> torch.Tensor:
    """`exp(b log a)`, as glibc's `cpow`."""
    import torch

    if not isinstance(a, torch.Tensor):
        if a == 1:
            return torch.ones_like(b)
        a = torch.full((), a, dtype=b.dtype, device=b.device)
    return torch.exp(torch.complex(*_log(*parts(a))) * b)


def _power_of_scalar(a: torch.Tensor, exponent: Any) -> torch.Tensor:
    """The exponents for which PyTorch has a form of its own."""
    import torch

    if exponent == 0:
        return torch.ones_like(a)
    forms = {
        -2: lambda: torch.reciprocal(a * a),
        -1: lambda: torch.reciprocal(a),
        -0.5: lambda: torch.rsqrt(a),
        0.5: lambda: torch.sqrt(a),
        1: lambda: a.clone(),
        2: lambda: a * a,
        3: lambda: a * a * a,
    }
    if exponent in forms:
        return forms[exponent]()
    return _power(a, exponent)
