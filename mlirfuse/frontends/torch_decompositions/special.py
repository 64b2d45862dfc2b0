"""Special functions in single and double precision, which IREE 3.13 has no lowering for.

Chebyshev series of smooth parts, from mpmath; asymptotic forms as in Abramowitz and Stegun.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions import special_series as series
from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_half

if TYPE_CHECKING:
    import torch

Function = Callable[["torch.Tensor"], "torch.Tensor"]


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    functions: dict[Any, Function] = {
        aten.lgamma: lgamma,
        aten.digamma: digamma,
        aten.erfc: erfc,
        aten.erfinv: erfinv,
        aten.special_erfcx: erfcx,
        aten.special_log_ndtr: _log_ndtr,
        aten.special_ndtri: _ndtri,
        aten.i0: lambda x: _i0e(x) * torch.exp(x.abs()),
        aten.special_i0e: _i0e,
        aten.special_i1: lambda x: _i1e(x) * torch.exp(x.abs()),
        aten.special_i1e: _i1e,
        aten.special_modified_bessel_i0: lambda x: _i0e(x) * torch.exp(x.abs()),
        aten.special_modified_bessel_i1: lambda x: _i1e(x) * torch.exp(x.abs()),
        aten.special_modified_bessel_k0: lambda x: _bessel_k(x, 0, scaled=False),
        aten.special_modified_bessel_k1: lambda x: _bessel_k(x, 1, scaled=False),
        aten.special_scaled_modified_bessel_k0: lambda x: _bessel_k(x, 0, scaled=True),
        aten.special_scaled_modified_bessel_k1: lambda x: _bessel_k(x, 1, scaled=True),
        aten.special_bessel_j0: lambda x: _bessel_j(x, 0),
        aten.special_bessel_j1: lambda x: _bessel_j(x, 1),
        aten.special_bessel_y0: lambda x: _bessel_y(x, 0),
        aten.special_bessel_y1: lambda x: _bessel_y(x, 1),
        aten.special_spherical_bessel_j0: _spherical_bessel_j0,
        aten.special_airy_ai: _airy_ai,
    }
    return {
        **{op.default: in_float32(function) for op, function in functions.items()},
        aten.polygamma.default: _polygamma,
        aten.special_zeta.default: _zeta,
        aten.special_zeta.other_scalar: _zeta,
        aten.special_zeta.self_scalar: _zeta,
    }


def in_float32(function: Function) -> Function:
    """Computes half precision and integers in float32; results of integers are float32."""

    def decomposition(x: torch.Tensor) -> torch.Tensor:
        import torch

        if not x.dtype.is_floating_point:
            return function(x.to(torch.get_default_dtype()))
        return function(x.float()).to(x.dtype) if is_half(x.dtype) else function(x)

    return decomposition


_SINGLE = 1e-9
"""Coefficients below this part of the largest one do not count in single precision."""


def chebyshev(coefficients: Sequence[float], t: torch.Tensor) -> torch.Tensor:
    """The sum of `coefficients[k] T_k(t)` by Clenshaw's recurrence, for t in [-1, 1]."""
    import torch

    if t.dtype != torch.float64:
        least = _SINGLE * max(map(abs, coefficients))
        count = max(k for k, c in enumerate(coefficients, 1) if abs(c) >= least)
        coefficients = coefficients[:count]
    twice = 2 * t
    later, last = torch.zeros_like(t), torch.zeros_like(t)
    for coefficient in reversed(coefficients[1:]):
        last, later = twice * last - later + coefficient, last
    return t * last - later + coefficients[0]


def _sin_pi(x: torch.Tensor) -> torch.Tensor:
    """sin(pi x), exact at the integers."""
    import torch

    turn = x - 2 * torch.round(x / 2)
    folded = torch.where(turn > 0.5, 1 - turn, torch.where(turn < -0.5, -1 - turn, turn))
    return torch.sin(math.pi * folded)


_STIRLING = (1 / 12, 1 / 360, 1 / 1260, 1 / 1680, 1 / 1188, 691 / 360360, 1 / 156, 3617 / 122400)

_DIGAMMA = (1 / 12, 1 / 120, 1 / 252, 1 / 240, 1 / 132, 691 / 32760, 1 / 12, 3617 / 8160)


def _alternating(coefficients: Sequence[float], square: torch.Tensor) -> torch.Tensor:
    """The sum of `coefficients[k] (-square)^k`."""
    import torch

    found = torch.zeros_like(square)
    for coefficient in reversed(coefficients):
        found = coefficient - square * found
    return found


def _stirling(x: torch.Tensor) -> torch.Tensor:
    """Log gamma for x >= 8, without the terms of first order."""
    y = 1 / x
    return y * _alternating(_STIRLING, y * y)


def lgamma(x: torch.Tensor) -> torch.Tensor:
    """Log |gamma(x)|: Stirling's series past 8, products below, reflection for negative x."""
    import torch

    negative = x < 0.5
    y = torch.where(negative, 1 - x, x)
    # gamma(y) = gamma(y + 8) / (y (y + 1) ... (y + 7)); near 1 and 2 the product is exact.
    small = y < 8
    moved = torch.where(small, y + 8, y)
    product = torch.ones_like(y)
    for k in range(8):
        product = product * torch.where(small, (y + k) / (8 + k), 1)
    # log((8 + 0) ... (8 + 7)) is a part of Stirling's value at y + 8.
    large = (moved - 0.5) * torch.log(moved) - moved + 0.5 * math.log(2 * math.pi)
    base = sum(math.log(8 + k) for k in range(8))
    found = large + _stirling(moved) - torch.where(small, torch.log(product) + base, 0)
    near = _near_one_and_two(y)
    found = torch.where((y > 0.5) & (y < 2.5), near, found)
    reflected = math.log(math.pi) - torch.log(_sin_pi(x).abs()) - found
    found = torch.where(negative, reflected, found)
    pole = (x <= 0) & (x == torch.floor(x))
    return torch.where(pole | (x.abs() == math.inf), math.inf, found)


def _near_one_and_two(y: torch.Tensor) -> torch.Tensor:
    """Log gamma on [0.5, 2.5] as `(y - 1) (y - 2) f(y)`, accurate relative to its zeros."""
    return (y - 1) * (y - 2) * chebyshev(series.LOG_GAMMA, (y - 1.5).clamp(-1, 1))


def digamma(x: torch.Tensor) -> torch.Tensor:
    """The derivative of log gamma: asymptotic past 8, recurrence below, reflection."""
    import torch

    negative = x < 0.5
    y = torch.where(negative, 1 - x, x)
    total = torch.zeros_like(y)
    small = y < 8
    for k in range(8):
        total = total + torch.where(small, 1 / (y + k), 0)
    y = torch.where(small, y + 8, y)
    square = 1 / (y * y)
    found = torch.log(y) - 0.5 / y - square * _alternating(_DIGAMMA, square) - total
    turn = x - torch.round(x)
    cotangent = torch.cos(math.pi * turn) / _sin_pi(turn)
    found = torch.where(negative, found - math.pi * cotangent, found)
    found = torch.where((x < 0) & (x == torch.floor(x)), math.nan, found)
    return torch.where(
        x == 0, -math.copysign(math.inf, 1) / torch.where(1 / x > 0, 1.0, -1.0), found
    )


def _polygamma(n: int, x: torch.Tensor) -> torch.Tensor:
    if n == 0:
        return in_float32(digamma)(x)
    sign = 1.0 if n % 2 else -1.0
    return in_float32(lambda y: sign * math.factorial(n) * zeta(y * 0 + (n + 1), y))(x)


_ZETA_TERMS = 20
"""Largest number of terms of Hurwitz's sum before the asymptotic form."""

_ZETA_FIRST_TERMS = 9
"""Terms of it for every q; there are more of them for q of 9 and less after these."""

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def zeta(s: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Hurwitz's zeta function by Euler and Maclaurin: the sum of (q + k)^-s."""
    import torch

    total, at = torch.zeros_like(s * q), q
    for k in range(_ZETA_TERMS):
        term, after = _power(at, -s), at + 1
        if k >= _ZETA_FIRST_TERMS:
            used = at <= 9
            term, after = torch.where(used, term, 0), torch.where(used, after, at)
        total, at = total + term, after
    tail = _power(at, -s)
    total = total + tail * at / (s - 1) + tail / 2
    factor, fall = s, tail / at
    for order, number in enumerate(_BERNOULLI, 1):
        total = total + number / math.factorial(2 * order) * factor * fall
        factor = factor * (s + (2 * order - 1)) * (s + 2 * order)
        fall = fall / (at * at)
    whole = q == torch.floor(q)
    total = torch.where(q == math.inf, 0.0, total)
    total = torch.where((q <= 0) & (s != torch.floor(s)), math.nan, total)
    total = torch.where((q <= 0) & whole, math.inf, total)
    total = torch.where((s == 1) | (q == -math.inf), torch.where(s == 1, math.inf, math.nan), total)
    return torch.where(s < 1, math.nan, total)


def _power(base: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """A power whose base may be negative where the exponent is an integer."""
    import torch

    size = torch.exp(exponent * torch.log(base.abs()))
    odd = exponent - 2 * torch.floor(exponent / 2) == 1
    return torch.where((base < 0) & odd, -size, size)


def _zeta(s: torch.Tensor | float, q: torch.Tensor | float) -> torch.Tensor:
    import torch

    s, q = torch.broadcast_tensors(*map(as_float, _tensors(s, q)))
    return zeta(s, q)


def _tensors(*values: Any) -> list[torch.Tensor]:
    """Numbers as tensors on the device of the others."""
    import torch

    device = next(v.device for v in values if isinstance(v, torch.Tensor))
    return [
        v if isinstance(v, torch.Tensor) else torch.full((), float(v), device=device)
        for v in values
    ]


def as_float(x: torch.Tensor) -> torch.Tensor:
    """Integers as floating-point numbers."""
    import torch

    return x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())


def erfcx(x: torch.Tensor) -> torch.Tensor:
    """exp(x^2) erfc(x)."""
    import torch

    size = x.abs()
    t = torch.where(size == math.inf, 1.0, (size - 3) / (size + 3))
    positive = chebyshev(series.ERFCX, t) / (1 + 2 * size)
    return torch.where(x < 0, 2 * torch.exp(x * x) - positive, positive)


def erfc(x: torch.Tensor) -> torch.Tensor:
    """1 - erf(x), accurate where it is small."""
    import torch

    return torch.where(x > 0.5, torch.exp(-x * x) * erfcx(x.clamp(min=0)), 1 - torch.erf(x))


def erfinv(x: torch.Tensor) -> torch.Tensor:
    """The inverse of erf."""
    import torch

    size = x.abs()
    w = -torch.log1p(-size) - torch.log1p(size)
    middle = chebyshev(series.ERFINV_MIDDLE, (w / 2.5 - 1).clamp(-1, 1))
    low, high = math.sqrt(5), 6.1
    root = torch.sqrt(w.clamp(min=5.0))
    tail = chebyshev(series.ERFINV_TAIL, ((2 * root - (low + high)) / (high - low)).clamp(-1, 1))
    found = x * torch.where(w < 5, middle, tail)
    found = torch.where(size == 1, x * math.inf, found)
    return torch.where(size <= 1, found, math.nan)


def _log_ndtr(x: torch.Tensor) -> torch.Tensor:
    import torch

    t = x * math.sqrt(0.5)
    low = torch.log(erfcx(-t) / 2) - t * t
    return torch.where(x < -1, low, torch.log1p(-erfc(t) / 2))


def _ndtri(p: torch.Tensor) -> torch.Tensor:
    """The inverse of the normal distribution function."""
    import torch

    tail = torch.minimum(p, 1 - p)
    r = torch.sqrt(-2 * torch.log(tail))
    low, high = 1 / 14.7, 1 / 1.3
    t = (1 / r * 2 - (low + high)) / (high - low)
    outer = r - chebyshev(series.NDTRI_TAIL, t.clamp(-1, 1))
    middle = math.sqrt(2) * erfinv(2 * p - 1)
    found = torch.where(tail > 0.1, middle, torch.where(p < 0.5, -outer, outer))
    found = torch.where(p == 0, -math.inf, torch.where(p == 1, math.inf, found))
    return torch.where((p < 0) | (p > 1), math.nan, found)


def _i0e(x: torch.Tensor) -> torch.Tensor:
    import torch

    size = x.abs()
    small = chebyshev(series.I0_SMALL, (size / 4 - 1).clamp(max=1))
    large = chebyshev(series.I0_LARGE, (16 / size - 1).clamp(max=1)) * torch.rsqrt(size)
    return torch.where(size <= 8, small, large)


def _i1e(x: torch.Tensor) -> torch.Tensor:
    import torch

    size = x.abs()
    small = chebyshev(series.I1_SMALL, (size / 4 - 1).clamp(max=1)) * size
    large = chebyshev(series.I1_LARGE, (16 / size - 1).clamp(max=1)) * torch.rsqrt(size)
    found = torch.where(size <= 8, small, large)
    return torch.where(x < 0, -found, found)


def _bessel_k(x: torch.Tensor, order: int, *, scaled: bool) -> torch.Tensor:
    import torch

    square = (x * x / 2 - 1).clamp(max=1)
    small_x = x.clamp(max=2)
    logarithm = torch.log(small_x / 2)
    grown = torch.exp(small_x)
    if order == 0:
        small = chebyshev(series.K0_SMALL, square) - logarithm * _i0e(small_x) * grown
    else:
        small = chebyshev(series.K1_SMALL, square) / x + logarithm * _i1e(small_x) * grown
    coefficients = series.K0_LARGE if order == 0 else series.K1_LARGE
    large = chebyshev(coefficients, (4 / x - 1).clamp(max=1)) * torch.rsqrt(x)
    small = small * grown if scaled else small
    large = large if scaled else large * torch.exp(-x)
    found = torch.where(x <= 2, small, large)
    return torch.where(x < 0, math.nan, torch.where(x == 0, math.inf, found))


def _oscillating(x: torch.Tensor, order: int) -> tuple[torch.Tensor, torch.Tensor]:
    """J and Y for x > 8."""
    import torch

    ratio = 8 / x
    t = (2 * ratio * ratio - 1).clamp(max=1)
    p = chebyshev(series.P1 if order else series.P0, t)
    q = chebyshev(series.Q1 if order else series.Q0, t) / x
    size = torch.sqrt(2 / (math.pi * x))
    # sin and cos of the sum, without rounding x - pi / 4.
    sine, cosine = torch.sin(x), torch.cos(x)
    root = math.sqrt(0.5)
    if order:
        s, c = -(sine + cosine) * root, (sine - cosine) * root
    else:
        s, c = (sine - cosine) * root, (sine + cosine) * root
    return size * (p * c - q * s), size * (p * s + q * c)


def _bessel_j(x: torch.Tensor, order: int) -> torch.Tensor:
    import torch

    size = x.abs()
    t = (x * x / 32 - 1).clamp(max=1)
    small = chebyshev(series.J1_SMALL, t) * size if order else chebyshev(series.J0_SMALL, t)
    found = torch.where(size <= 8, small, _oscillating(size, order)[0])
    return torch.where(x < 0, -found, found) if order else found


def _bessel_y(x: torch.Tensor, order: int) -> torch.Tensor:
    import torch

    t = (x * x / 32 - 1).clamp(max=1)
    logarithm = torch.log(x)
    if order:
        small = chebyshev(series.Y1_SMALL, t) * x
        small = small + 2 / math.pi * (logarithm * _bessel_j(x, 1) - 1 / x)
    else:
        small = chebyshev(series.Y0_SMALL, t) + 2 / math.pi * logarithm * _bessel_j(x, 0)
    found = torch.where(x <= 8, small, _oscillating(x, order)[1])
    return torch.where(x < 0, math.nan, torch.where(x == 0, -math.inf, found))


def _spherical_bessel_j0(x: torch.Tensor) -> torch.Tensor:
    import torch

    square = x * x
    small = torch.ones_like(x)
    for term in reversed(range(1, 7)):
        small = 1 - square / (2 * term * (2 * term + 1)) * small
    found = torch.where(x.abs() < 0.5, small, torch.sin(x) / x)
    return torch.where(x.abs() == math.inf, 0.0, found)


def _airy_ai(x: torch.Tensor) -> torch.Tensor:
    import torch

    size = x.abs()
    middle = chebyshev(series.AIRY_MIDDLE, (x / 3).clamp(-1, 1))
    z = 2 / 3 * size * torch.sqrt(size)
    root = torch.rsqrt(math.pi * torch.sqrt(size))
    least = 2 * math.sqrt(3)
    positive = chebyshev(series.AIRY_POSITIVE, (2 * least / z - 1).clamp(max=1))
    positive = positive * root * torch.exp(-z) / 2
    ratio = least / z
    t = (2 * ratio * ratio - 1).clamp(max=1)
    p, q = chebyshev(series.AIRY_P, t), chebyshev(series.AIRY_Q, t) / z
    sine, cosine = torch.sin(z), torch.cos(z)
    half = math.sqrt(0.5)
    negative = root * (p * (cosine + sine) * half + q * (sine - cosine) * half)
    found = torch.where(size <= 3, middle, torch.where(x > 0, positive, negative))
    return torch.where(size == math.inf, math.nan, found)
