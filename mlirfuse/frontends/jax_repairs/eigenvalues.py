"""Jacobi's methods for eigenvalues of Hermitian matrices and for singular values, as JAX programs.

n / 2 disjoint pairs of rows are rotated at a time; row i pairs with row i + n / 2, and a fixed
permutation between two rounds brings all pairs together in n - 1 rounds (Brent and Luk, 1985).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from mlirfuse.frontends.jax_repairs.linear_algebra import householder_qr, orthogonal_factor

Array = Any

_SWEEPS = 30
"""Maximum number of sweeps over all pairs; about 10 are needed."""


def _next_round(a: Array) -> Array:
    """The rows in the order of the next round: all but the first move by one place in a circle."""
    half = a.shape[0] // 2
    top, bottom = a[:half], a[half:]
    if half == 1:
        return a
    return jnp.concatenate([top[:1], bottom[:1], top[1:-1], bottom[1:], top[-1:]])


def _rotate(a: Array, c: Array, s: Array) -> Array:
    """Rotates the pairs of rows: by the adjoint of [[c, s], [-conj(s), c]] for each pair."""
    half = a.shape[0] // 2
    top, bottom = a[:half], a[half:]
    c, s = c[:, None], s[:, None]
    return jnp.concatenate([c * top - s * bottom, jnp.conj(s) * top + c * bottom])


def _rotation(first: Array, second: Array, mixed: Array) -> tuple[Array, Array]:
    """Cosine, and sine with phase, that make [[first, mixed], [conj(mixed), second]] diagonal."""
    magnitude = jnp.abs(mixed)
    zero = magnitude == 0
    safe = jnp.where(zero, 1, magnitude)
    tau = (second - first) / (2 * safe)
    sign = jnp.where(tau < 0, -1, 1).astype(tau.dtype)
    tangent = jnp.where(zero, 0, sign / (jnp.abs(tau) + jnp.sqrt(1 + tau * tau)))
    c = lax.rsqrt(1 + tangent * tangent)
    return c.astype(mixed.dtype), (tangent * c).astype(mixed.dtype) * (mixed / safe)


def _padded(a: Array, rows: int, columns: int) -> Array:
    return jnp.pad(a, ((0, rows - a.shape[0]), (0, columns - a.shape[1])))


def eigh(a: Array) -> tuple[Array, Array]:
    """Ascending eigenvalues of a Hermitian n x n matrix, and the eigenvectors as columns."""
    size = a.shape[0]
    if size == 1:
        return jnp.real(a)[0], jnp.ones_like(a)
    even = size + size % 2
    half = even // 2
    real = jnp.real(a).dtype
    eye = jnp.eye(half, dtype=a.dtype)
    scale = jnp.max(jnp.abs(a))
    scale = jnp.where((scale > 0) & jnp.isfinite(scale), scale, 1)
    threshold = (jnp.finfo(real).eps * even) ** 2 / 4
    off_diagonal = 1 - jnp.eye(even, dtype=real)
    # The added row, if any, must not mix with the others: nothing rotates it.
    start = _padded(a / scale.astype(a.dtype), even, even)

    def unfinished(state: tuple[Array, Array, Array]) -> Array:
        sweep, a, _ = state
        return (sweep < _SWEEPS) & (jnp.sum((jnp.abs(a) * off_diagonal) ** 2) > threshold)

    def one_round(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        a, v = state
        first, second = (jnp.real(jnp.sum(p * eye, 1)) for p in (a[:half, :half], a[half:, half:]))
        c, s = _rotation(first, second, jnp.sum(a[:half, half:] * eye, 1))
        rows = _next_round(_rotate(a, c, s))
        a = jnp.conj(_next_round(_rotate(jnp.conj(rows).T, c, s))).T
        return a, _next_round(_rotate(v, c, s))

    def sweep(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        index, a, v = state
        a, v = lax.fori_loop(jnp.int32(0), jnp.int32(even - 1), one_round, (a, v))
        return index + 1, a, v

    identity = jnp.eye(even, dtype=a.dtype)
    _, a, v = lax.while_loop(unfinished, sweep, (jnp.int32(0), start, identity))
    values = jnp.real(jnp.sum(a * identity, 1)) * scale
    # Rows return to their first places after a whole sweep, so the added one is the last.
    values, v = values[:size], v[:size, :size]
    order = jnp.argsort(values)
    return values[order], jnp.conj(v[order]).T


def svd(a: Array, *, full: bool) -> tuple[Array, Array, Array]:
    """Descending singular values, and the singular vectors: U, S, and V's adjoint.

    Args:
      a: an m x n matrix.
      full: whether U is m x m and V n x n; else they have min(m, n) columns.
    """
    if a.shape[0] < a.shape[1]:
        u, s, vh = svd(jnp.conj(a).T, full=full)
        return jnp.conj(vh).T, s, jnp.conj(u).T
    height, size = a.shape
    even = size + size % 2
    half = even // 2
    real = jnp.real(a).dtype
    scale = jnp.max(jnp.abs(a))
    scale = jnp.where((scale > 0) & jnp.isfinite(scale), scale, 1)
    threshold = jnp.finfo(real).eps * max(4, height) ** 0.5
    # Columns of `a` as rows, which are made orthogonal.
    start = _padded((a / scale.astype(a.dtype)).T, even, height)

    def one_round(_: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        b, v, largest = state
        top, bottom = b[:half], b[half:]
        first, second = (jnp.sum(jnp.real(p * jnp.conj(p)), 1) for p in (top, bottom))
        mixed = jnp.sum(top * jnp.conj(bottom), 1)
        bound = jnp.sqrt(first) * jnp.sqrt(second)
        cosine = jnp.where(bound > 0, jnp.abs(mixed) / jnp.where(bound > 0, bound, 1), 0)
        mixed = jnp.where(cosine > threshold, mixed, 0)
        c, s = _rotation(first, second, mixed)
        largest = jnp.maximum(largest, jnp.max(cosine))
        return _next_round(_rotate(b, c, s)), _next_round(_rotate(v, c, s)), largest

    def unfinished(state: tuple[Array, Array, Array, Array]) -> Array:
        return (state[0] < _SWEEPS) & (state[3] > threshold)

    def sweep(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        index, b, v, _ = state
        none = jnp.zeros((), real)
        b, v, largest = lax.fori_loop(jnp.int32(0), jnp.int32(even - 1), one_round, (b, v, none))
        return index + 1, b, v, largest

    one = jnp.ones((), real)
    state = jnp.int32(0), start, jnp.eye(even, dtype=a.dtype), one
    _, b, v, _ = lax.while_loop(unfinished, sweep, state)
    b, v = b[:size], v[:size, :size]
    values = jnp.sqrt(jnp.sum(jnp.real(b * jnp.conj(b)), 1))
    order = jnp.argsort(-values)
    values, b, v = values[order], b[order], v[order]
    kept = values > values[0] * jnp.finfo(real).eps
    u = jnp.where(kept[:, None], b / jnp.where(kept, values, 1).astype(a.dtype)[:, None], 0).T
    return _completed(u, full), values * scale, jnp.conj(v)


def _completed(u: Array, full: bool) -> Array:
    """Orthonormal columns that agree with the nonzero ones of `u`; all of them if `full`."""
    height, size = u.shape
    square = _padded(u, height, height) if full else u
    factored, taus = householder_qr(square)
    diagonal = jnp.sum(factored[:size] * jnp.eye(size, square.shape[1], dtype=u.dtype), 1)
    magnitude = jnp.abs(diagonal)
    phase = jnp.where(magnitude > 0, diagonal / jnp.where(magnitude > 0, magnitude, 1), 1)
    q = orthogonal_factor(factored, taus)
    phases = jnp.concatenate([phase, jnp.ones((square.shape[1] - size,), u.dtype)])
    return q * phases
