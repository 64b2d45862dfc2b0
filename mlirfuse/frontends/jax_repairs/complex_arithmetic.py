"""Arithmetic of complex numbers on their parts, as JAX programs."""

from __future__ import annotations

from typing import Any

Array = Any


def quotient(a: Array, b: Array, c: Array, d: Array) -> tuple[Array, Array]:
    """(a + bi) / (c + di), scaled by the larger part, with XLA's infinities."""
    import jax.numpy as jnp
    from jax import lax

    scale = jnp.maximum(lax.abs(c), lax.abs(d))
    u, v = c / scale, d / scale
    norm = u * u + v * v
    real, imaginary = (a * u + b * v) / norm / scale, (b * u - a * v) / norm / scale
    one, zero = jnp.ones_like(a), jnp.zeros_like(a)
    infinity = jnp.full_like(a, jnp.inf)

    def unit(part: Array) -> Array:
        return jnp.copysign(jnp.where(jnp.isinf(part), one, zero), part)

    by_zero = (c == 0) & (d == 0) & ~(jnp.isnan(a) & jnp.isnan(b))
    large_x = (jnp.isinf(a) | jnp.isinf(b)) & jnp.isfinite(c) & jnp.isfinite(d)
    large_y = (jnp.isinf(c) | jnp.isinf(d)) & jnp.isfinite(a) & jnp.isfinite(b)
    ua, ub, uc, ud = (unit(part) for part in (a, b, c, d))
    signed = jnp.copysign(infinity, c)
    for where, values in (
        (large_y, (zero * (a * uc + b * ud), zero * (b * uc - a * ud))),
        (large_x, (infinity * (ua * c + ub * d), infinity * (ub * c - ua * d))),
        (by_zero, (signed * a, signed * b)),
    ):
        real, imaginary = (
            jnp.where(where, v, part) for v, part in zip(values, (real, imaginary), strict=True)
        )
    return real, imaginary


def power(a: Array, b: Array, c: Array, d: Array) -> tuple[Array, Array]:
    """(a + bi) to the power of (c + di)."""
    import jax.numpy as jnp
    from jax import lax

    zero = (a == 0) & (b == 0)
    norm = jnp.where(zero, 1.0, jnp.hypot(a, b))
    angle = lax.atan2(b, a)
    size = lax.exp(c * lax.log(norm) - d * angle)
    turned = c * angle + d * lax.log(norm)
    defined = (c >= 0) & (d == 0)
    of_zero = jnp.where(defined, jnp.where(c == 0, 1.0, 0.0), jnp.nan)
    return (
        jnp.where(zero, of_zero, size * lax.cos(turned)),
        jnp.where(zero, jnp.where(defined, 0.0, jnp.nan), size * lax.sin(turned)),
    )


def rsqrt(x: Array, y: Array) -> tuple[Array, Array]:
    """The inverse of the square root of x + yi, in polar form as XLA's: of zero infinity, NaN."""
    import jax.numpy as jnp
    from jax import lax

    infinite = jnp.isinf(x) | jnp.isinf(y)
    size, angle = lax.rsqrt(jnp.hypot(x, y)), lax.atan2(y, x) / 2
    zero = jnp.zeros_like(x)
    return (
        jnp.where(infinite, zero, size * lax.cos(angle)),
        jnp.where(infinite, -jnp.copysign(zero, y), -size * lax.sin(angle)),
    )


def tanh(x: Array, y: Array) -> tuple[Array, Array]:
    """The hyperbolic tangent of x + yi, by the tangents of the parts."""
    import jax.numpy as jnp
    from jax import lax

    t, u = lax.tanh(x), lax.tan(y)
    decay = lax.exp(-2 * lax.abs(x))
    slope = 4 * decay / ((1 + decay) * (1 + decay))
    scale = 1 + t * t * u * u
    return t * (1 + u * u) / scale, jnp.where(y == 0, y, u * slope / scale)


def exponential_minus_one(x: Array, y: Array) -> tuple[Array, Array]:
    """The exponential of x + yi, less one."""
    from jax import lax

    half = lax.sin(y / 2)
    return lax.expm1(x) * lax.cos(y) - 2 * half * half, lax.exp(x) * lax.sin(y)
