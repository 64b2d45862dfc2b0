"""Orthogonal polynomials by their recurrences, and incomplete gamma functions, as loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_decompositions.accumulation import Table, is_half
from mlirfuse.frontends.torch_decompositions.loops import Carried, repeat, repeat_while
from mlirfuse.frontends.torch_decompositions.special import as_float, lgamma

if TYPE_CHECKING:
    import torch

Step = Callable[["torch.Tensor", "torch.Tensor", "torch.Tensor", "torch.Tensor"], "torch.Tensor"]
"""From k, x, value k - 1 and value k: value k + 1."""


def table() -> Table:
    """The decompositions."""
    import torch

    aten = torch.ops.aten
    chebyshev: Step = lambda k, x, old, new: 2 * x * new - old  # noqa: E731
    first: dict[str, Callable[[Any], Any]] = {
        "t": lambda x: x,
        "u": lambda x: 2 * x,
        "v": lambda x: 2 * x - 1,
        "w": lambda x: 2 * x + 1,
    }
    families: dict[str, tuple[Callable[[Any], Any], Step]] = {
        **{f"chebyshev_polynomial_{kind}": (start, chebyshev) for kind, start in first.items()},
        "hermite_polynomial_h": (
            lambda x: 2 * x,
            lambda k, x, old, new: 2 * (x * new - k * old),
        ),
        "hermite_polynomial_he": (lambda x: x, lambda k, x, old, new: x * new - k * old),
        "laguerre_polynomial_l": (
            lambda x: 1 - x,
            lambda k, x, old, new: ((2 * k + 1 - x) * new - k * old) / (k + 1),
        ),
        "legendre_polynomial_p": (
            lambda x: x,
            lambda k, x, old, new: ((2 * k + 1) * x * new - k * old) / (k + 1),
        ),
    }
    found: Table = {}
    for name, (start, step) in families.items():
        packet = getattr(aten, f"special_{name}")
        for overload in packet.overloads():
            if "out" not in overload:
                found[getattr(packet, overload)] = _polynomial(start, step, shifted=False)
        if name.startswith("chebyshev"):
            packet = getattr(aten, f"special_shifted_{name}")
            for overload in packet.overloads():
                if "out" not in overload:
                    found[getattr(packet, overload)] = _polynomial(start, step, shifted=True)
    found[aten.igamma.default] = lambda a, x: _incomplete(a, x, upper=False)
    found[aten.igammac.default] = lambda a, x: _incomplete(a, x, upper=True)
    return found


def _polynomial(
    start: Callable[[Any], Any], step: Step, *, shifted: bool
) -> Callable[..., torch.Tensor]:
    def decomposition(x: Any, n: Any) -> torch.Tensor:
        import torch

        like = x if isinstance(x, torch.Tensor) else n
        given = [
            v if isinstance(v, torch.Tensor) else torch.full((), float(v), device=like.device)
            for v in (x, n)
        ]
        value, degree = torch.broadcast_tensors(*map(as_float, given))
        degree = torch.trunc(degree)
        value = 2 * value - 1 if shifted else value
        one = torch.ones_like(value)
        if not value.numel():
            return one

        def body(k: torch.Tensor, carried: Carried) -> Carried:
            x, n, old, new = carried
            at = (k + 1).to(x.dtype)
            on = at < n
            following = step(at, x, old, new)
            return x, n, torch.where(on, new, old), torch.where(on, following, new)

        *_, last = repeat_while(
            lambda k, carried: (carried[1] > (k + 1).to(carried[1].dtype),),
            body,
            (value, degree, one, start(value)),
        )
        last = torch.where(degree == 0, 1.0, last)
        return torch.where(degree < 0, 0.0, last)

    return decomposition


_TERMS = 200
"""Terms of the series and of the continued fraction."""


def _incomplete(a: torch.Tensor, x: torch.Tensor, *, upper: bool) -> torch.Tensor:
    """The regularized incomplete gamma function: a series for x < a + 1, else a fraction."""
    import torch

    dtype = torch.result_type(a, x)
    wide = torch.float32 if is_half(dtype) else dtype
    a, x = torch.broadcast_tensors(a.to(wide), x.to(wide))
    if not a.numel():
        return a.to(dtype)
    by_series = x < a + 1
    safe_a = torch.where(a > 0, a, 1.0)
    small, large = torch.where(by_series, x, 0.5), torch.where(by_series, safe_a + 2, x)
    large = large.clamp(max=1e30)

    def term(k: torch.Tensor, carried: Carried) -> Carried:
        a, x, value, total = carried
        value = value * x / (a + (k + 1).to(a.dtype))
        return a, x, value, total + value

    one = torch.ones_like(a)
    total = repeat(_TERMS, term, (safe_a, small, one, one))[3] / safe_a

    def fraction(k: torch.Tensor, carried: Carried) -> Carried:
        """Lentz's method."""
        a, x, c, d, h = carried
        i = (k + 1).to(a.dtype)
        an = -i * (i - a)
        b = x + 2 * i + 1 - a
        d = 1 / (an * d + b)
        c = b + an / c
        return a, x, c, d, h * c * d

    b = large + 1 - safe_a
    start = (safe_a, large, torch.full_like(b, 1e30), 1 / b, 1 / b)
    h = repeat(_TERMS, fraction, start)[4]

    def scale(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(safe_a * torch.log(x) - x - lgamma(safe_a))

    lower = total * scale(small)
    rest = h * scale(large)
    p = torch.where(by_series, lower, 1 - rest)
    q = torch.where(by_series, 1 - lower, rest)
    found = q if upper else p
    zero, whole = (1.0, 0.0) if upper else (0.0, 1.0)
    found = torch.where(x == 0, zero, found)
    found = torch.where(x == math.inf, whole, found)
    found = torch.where(a == 0, torch.where(x > 0, whole, math.nan), found)
    found = torch.where(a == math.inf, torch.where(x == math.inf, math.nan, zero), found)
    bad = (x < 0) | (a < 0) | (a != a) | (x != x)
    return torch.where(bad, math.nan, found).to(dtype)
