"""Factorizations and solvers of dense linear algebra as JAX programs, for IREE has none.

Each works on one matrix, column by column, as LAPACK's unblocked routines do, with their layout of
results: what JAX computes from the results stays the same. `batched` adds leading dimensions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Array = Any


def batched(function: Callable[..., Any], dimensions: int) -> Callable[..., Any]:
    """The function over so many leading dimensions of all arguments."""
    for _ in range(dimensions):
        function = jax.vmap(function)
    return function


def _positions(size: int) -> Array:
    return lax.iota(jnp.int32, size)


def _column(a: Array, index: Array) -> Array:
    return lax.dynamic_index_in_dim(a, index, 1, keepdims=False)


def _row(a: Array, index: Array) -> Array:
    return lax.dynamic_index_in_dim(a, index, 0, keepdims=False)


def _set_column(a: Array, column: Array, index: Array) -> Array:
    return lax.dynamic_update_index_in_dim(a, column, index, 1)


def _set_row(a: Array, row: Array, index: Array) -> Array:
    return lax.dynamic_update_index_in_dim(a, row, index, 0)


def _loop(count: int, step: Callable[..., Any], start: Any) -> Any:
    return lax.fori_loop(jnp.int32(0), jnp.int32(count), step, start)


def cholesky(a: Array) -> Array:
    """The lower factor of a positive definite n x n matrix, of which the lower half is read.

    NaN from the first row on that is not positive.
    """
    size = a.shape[0]
    rows = _positions(size)

    def step(j: Array, factor: Array) -> Array:
        column = _column(a, j) - factor @ jnp.conj(_row(factor, j))
        root = jnp.sqrt(jnp.real(_row(column, j))).astype(a.dtype)
        column = jnp.where(rows == j, root, column / root)
        return _set_column(factor, jnp.where(rows >= j, column, 0), j)

    return _loop(size, step, jnp.zeros_like(a))


def adjoint(a: Array) -> Array:
    """The conjugate transposes over leading dimensions."""
    return jnp.conj(jnp.swapaxes(a, -1, -2))


def general_cholesky(a: Array, *, lower: bool) -> Array:
    """The lower or upper factors over leading dimensions, from the same half of `a`."""
    factor = batched(cholesky, a.ndim - 2)(a if lower else adjoint(a))
    return factor if lower else adjoint(factor)


def triangular_solve(a: Array, b: Array, *, lower: bool, unit_diagonal: bool) -> Array:
    """The solution x of a x = b for a triangular n x n matrix and n x k right sides."""
    size = a.shape[0]
    if not lower:
        a, b = a[::-1, ::-1], b[::-1]
    a = jnp.tril(a)

    def step(i: Array, x: Array) -> Array:
        row = _row(a, i)
        value = _row(b, i) - row @ x
        return _set_row(x, value if unit_diagonal else value / _row(row, i), i)

    x = _loop(size, step, jnp.zeros_like(b))
    return x if lower else x[::-1]


def general_triangular_solve(
    a: Array, b: Array, *, left: bool, lower: bool, transpose: str, unit_diagonal: bool
) -> Array:
    """The solution of op(a) x = b, or x op(a) = b, over leading dimensions.

    Args:
      a: triangular matrices; the other half is not read.
      b: right sides.
      left: whether op(a) is on the left.
      lower: whether `a` is a lower triangle.
      transpose: op: `NO_TRANSPOSE`, `TRANSPOSE` or `ADJOINT`.
      unit_diagonal: whether the diagonal is taken as ones.
    """
    if transpose == "ADJOINT":
        a = jnp.conj(a)
    # x op(a) = b is op(a)^T x^T = b^T.
    if (transpose != "NO_TRANSPOSE") == left:
        a, lower = jnp.swapaxes(a, -1, -2), not lower
    solve = functools.partial(triangular_solve, lower=lower, unit_diagonal=unit_diagonal)
    right = b if left else jnp.swapaxes(b, -1, -2)
    count = right.shape[-1]
    if count == 1:  # IREE 3.13 does not compile the loop for one column
        right = jnp.concatenate([right, right], -1)
    x = batched(solve, a.ndim - 2)(a, right)[..., :count]
    return x if left else jnp.swapaxes(x, -1, -2)


def lu(a: Array) -> tuple[Array, Array, Array]:
    """`getrf`: both factors in one matrix, the pivots counted from one, and the info."""
    count, (height, width) = min(a.shape), a.shape
    rows, columns = _positions(height), _positions(width)

    def step(k: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        a, pivots, info = state
        column = _column(a, k)
        magnitude = jnp.abs(jnp.real(column)) + jnp.abs(jnp.imag(column))
        magnitude = jnp.where(rows >= k, jnp.where(jnp.isnan(magnitude), jnp.inf, magnitude), -1)
        pivot = jnp.argmax(magnitude).astype(jnp.int32)
        upper, chosen = _row(a, k), _row(a, pivot)
        # Not a scatter: over leading dimensions each matrix has another pivot.
        a = jnp.where(rows[:, None] == pivot, upper, a)
        a = jnp.where(rows[:, None] == k, chosen, a)
        below = rows > k
        divisor = _row(chosen, k)
        column = _column(a, k)
        column = jnp.where(below & (divisor != 0), column / divisor, column)
        a = _set_column(a, column, k)
        factor, row = jnp.where(below, column, 0), jnp.where(columns > k, chosen, 0)
        info = jnp.where((info == 0) & (divisor == 0), k + 1, info)
        return a - factor[:, None] * row, _set_row(pivots, pivot + 1, k), info

    start = a, jnp.zeros((count,), jnp.int32), jnp.int32(0)
    found: tuple[Array, Array, Array] = _loop(count, step, start)
    return found


def _reflector(x: Array, index: Array) -> tuple[Array, Array, Array]:
    """`larfg`: the vector v, tau and beta of the reflection of x[index:] to beta e_index."""
    rows = _positions(x.shape[0])
    alpha = _row(x, index)
    tail = jnp.where(rows > index, x, 0)
    norm = jnp.sqrt(jnp.sum(jnp.real(tail * jnp.conj(tail))))
    real, imaginary = jnp.real(alpha), jnp.imag(alpha)
    length = jnp.sqrt(real * real + imaginary * imaginary + norm * norm)
    beta = jnp.where(real > 0, -length, length)
    trivial = (norm == 0) & (imaginary == 0)
    safe = jnp.where(trivial, 1, beta).astype(x.dtype)
    tau = jnp.where(trivial, 0, (safe - alpha) / safe)
    v = jnp.where(rows == index, 1, tail / jnp.where(trivial, 1, alpha - safe))
    return v.astype(x.dtype), tau, jnp.where(trivial, alpha, safe)


def householder_qr(a: Array) -> tuple[Array, Array]:
    """`geqrf`: R and the reflectors in one matrix, and the taus."""
    count, (height, width) = min(a.shape), a.shape
    rows, columns = _positions(height), _positions(width)

    def step(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        a, taus = state
        column = _column(a, k)
        v, tau, beta = _reflector(column, k)
        product = jnp.conj(v) @ a
        right = jnp.where(columns > k, product, 0)
        a = a - jnp.conj(tau) * v[:, None] * right
        column = jnp.where(rows == k, beta, jnp.where(rows > k, v, column))
        return _set_column(a, column, k), _set_row(taus, tau, k)

    found: tuple[Array, Array] = _loop(count, step, (a, jnp.zeros((count,), a.dtype)))
    return found


def apply_reflectors(
    a: Array, taus: Array, c: Array, *, left: bool = True, adjoint: bool = False
) -> Array:
    """`ormqr`: Q c or c Q, or with Q's adjoint, of the reflectors below a's diagonal."""
    if not left:
        turned = jnp.conj(c).T
        return jnp.conj(apply_reflectors(a, taus, turned, adjoint=not adjoint)).T
    rows, count = _positions(a.shape[0]), taus.shape[0]

    def step(index: Array, c: Array) -> Array:
        k = index if adjoint else count - 1 - index
        column = _column(a, k)
        v = jnp.where(rows == k, 1, jnp.where(rows > k, column, 0)).astype(a.dtype)
        tau = _row(taus, k)
        tau = jnp.conj(tau) if adjoint else tau
        return c - tau * v[:, None] * (jnp.conj(v) @ c)

    return _loop(count, step, c)


def orthogonal_factor(a: Array, taus: Array) -> Array:
    """`orgqr`: the first columns of Q, as many as `a` has."""
    return apply_reflectors(a, taus, jnp.eye(a.shape[0], a.shape[1], dtype=a.dtype))


def hessenberg(a: Array) -> tuple[Array, Array]:
    """`gehrd`: the Hessenberg form and the reflectors in one n x n matrix, and n - 1 taus."""
    size = a.shape[0]
    rows = _positions(size)

    def step(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        a, taus = state
        column = _column(a, k)
        v, tau, beta = _reflector(column, k + 1)
        a = a - tau * (a @ v)[:, None] * jnp.conj(v)
        product = jnp.where(rows > k, jnp.conj(v) @ a, 0)
        a = a - jnp.conj(tau) * v[:, None] * product
        column = jnp.where(rows == k + 1, beta, jnp.where(rows > k + 1, v, column))
        return _set_column(a, column, k), _set_row(taus, tau, k)

    found: tuple[Array, Array] = _loop(size - 1, step, (a, jnp.zeros((size - 1,), a.dtype)))
    return found


def tridiagonal_solve(lower: Array, diagonal: Array, upper: Array, b: Array) -> Array:
    """The solution of a tridiagonal system, without pivoting.

    Args:
      lower: n - 1 elements below the diagonal.
      diagonal: n elements.
      upper: n - 1 elements above it.
      b: n x k right sides.
    """
    zero = jnp.zeros((1,), diagonal.dtype)
    below, above = jnp.concatenate([zero, lower]), jnp.concatenate([upper, zero])

    def forward(state: tuple[Array, Array], parts: Any) -> Any:
        ratio, x = state
        low, middle, high, right = parts
        pivot = middle - low * ratio
        new = high / pivot, (right - low * x) / pivot
        return new, new

    start = jnp.zeros((), diagonal.dtype), jnp.zeros_like(b[0])
    _, (ratios, reduced) = lax.scan(forward, start, (below, diagonal, above, b))

    def backward(x: Array, parts: Any) -> Any:
        ratio, right = parts
        x = right - ratio * x
        return x, x

    return lax.scan(backward, jnp.zeros_like(b[0]), (ratios, reduced), reverse=True)[1]
