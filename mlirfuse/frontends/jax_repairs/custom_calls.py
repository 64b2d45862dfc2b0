"""Calls of LAPACK's routines, which JAX makes for the CPU, as programs of `linear_algebra`.

JAX's results besides the factors are kept: `info` is zero where the routine here cannot fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.jax_repairs.definitions import Function, define
from mlirfuse.frontends.jax_repairs.sorting import define_approximate_top_k

if TYPE_CHECKING:
    from iree.compiler import ir

Configuration = dict[str, Any]

_LAPACK = re.compile(r"lapack_[sdcz](?P<name>\w+)_ffi")


def repair_custom_call(op: ir.Operation) -> None:
    """Replaces a call that is known; others stay, and IREE refuses them."""
    from iree.compiler import ir

    name = str(ir.StringAttr(op.attributes["call_target_name"]).value)
    found = _LAPACK.fullmatch(name)
    if name == "ApproxTopK":
        define_approximate_top_k(op, _configuration(op))
    elif found and (make := _ROUTINES.get(found["name"])):
        define(op, make(_configuration(op)))


def _configuration(op: ir.Operation) -> Configuration:
    """The attributes that JAX passes to the call: numbers, LAPACK's characters as such."""
    from iree.compiler import ir

    if "mhlo.backend_config" not in op.attributes:
        return {}
    found: Configuration = {}
    for named in ir.DictAttr(op.attributes["mhlo.backend_config"]):
        value = named.attr
        if isinstance(value, ir.IntegerAttr | ir.BoolAttr):
            number = value.value
            character = str(value.type) == "ui8"
            found[named.name] = chr(number) if character else number
    return found


def _lower(configuration: Configuration) -> bool:
    return bool(configuration["uplo"] == "L")


def _potrf(configuration: Configuration) -> Function:
    import jax.numpy as jnp

    from mlirfuse.frontends.jax_repairs.linear_algebra import general_cholesky

    def routine(a: Any) -> Any:
        factor = general_cholesky(a, lower=_lower(configuration))
        return factor, jnp.isnan(factor).any((-2, -1)).astype(jnp.int32)

    return routine


def _trsm(configuration: Configuration) -> Function:
    from mlirfuse.frontends.jax_repairs.linear_algebra import general_triangular_solve

    c = configuration
    return lambda a, b: general_triangular_solve(
        a,
        b,
        left=c["side"] == "L",
        lower=_lower(c),
        transpose={"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}[c["trans_x"]],
        unit_diagonal=c["diag"] == "U",
    )


def _getrf(_: Configuration) -> Function:
    from mlirfuse.frontends.jax_repairs.linear_algebra import batched, lu

    return lambda a: batched(lu, a.ndim - 2)(a)


def _geqrf(_: Configuration) -> Function:
    from mlirfuse.frontends.jax_repairs.linear_algebra import batched, householder_qr

    return lambda a: batched(householder_qr, a.ndim - 2)(a)


def _orgqr(_: Configuration) -> Function:
    from mlirfuse.frontends.jax_repairs.linear_algebra import batched, orthogonal_factor

    return lambda a, taus: batched(orthogonal_factor, a.ndim - 2)(a, taus)


def _ormqr(configuration: Configuration) -> Function:
    import functools

    from mlirfuse.frontends.jax_repairs.linear_algebra import apply_reflectors, batched

    apply = functools.partial(
        apply_reflectors, left=configuration["left"], adjoint=configuration["transpose"]
    )
    return lambda a, taus, c: batched(apply, a.ndim - 2)(a, taus, c)


def _gehrd(_: Configuration) -> Function:
    import jax.numpy as jnp

    from mlirfuse.frontends.jax_repairs.linear_algebra import batched, hessenberg

    def routine(a: Any) -> Any:
        return (*batched(hessenberg, a.ndim - 2)(a), jnp.zeros(a.shape[:-2], jnp.int32))

    return routine


def _sytrd(configuration: Configuration) -> Function:
    """By the reduction to Hessenberg form, which is tridiagonal here."""
    import jax.numpy as jnp

    from mlirfuse.frontends.jax_repairs.linear_algebra import adjoint, batched, hessenberg

    def one(a: Any) -> Any:
        lower = jnp.tril(a if _lower(configuration) else adjoint(a))
        reduced, taus = hessenberg(lower + adjoint(jnp.tril(a, -1)))
        diagonal, below = (jnp.real(jnp.diagonal(reduced, offset)) for offset in (0, -1))
        return reduced, diagonal, below, taus, jnp.int32(0)

    return lambda a: batched(one, a.ndim - 2)(a)


def _gtsv(_: Configuration) -> Function:
    import jax.numpy as jnp

    from mlirfuse.frontends.jax_repairs.linear_algebra import batched, tridiagonal_solve

    def routine(lower: Any, diagonal: Any, upper: Any, b: Any) -> Any:
        below, above = lower[..., -(diagonal.shape[-1] - 1) :], upper[..., : diagonal.shape[-1] - 1]
        x = batched(tridiagonal_solve, b.ndim - 2)(below, diagonal, above, b)
        return lower, diagonal, upper, x, jnp.zeros(b.shape[:-2], jnp.int32)

    return routine


def _syevd(configuration: Configuration) -> Function:
    import jax.numpy as jnp

    from mlirfuse.frontends.jax_repairs.eigenvalues import eigh
    from mlirfuse.frontends.jax_repairs.linear_algebra import adjoint, batched

    def one(a: Any) -> Any:
        a = a if _lower(configuration) else adjoint(a)
        strict = jnp.tril(a, -1)
        values, vectors = eigh(strict + adjoint(strict) + jnp.diag(jnp.real(jnp.diagonal(a))))
        return vectors, values, jnp.int32(0)

    return lambda a: batched(one, a.ndim - 2)(a)


def _gesdd(configuration: Configuration) -> Function:
    import jax.numpy as jnp

    from mlirfuse.frontends.jax_repairs.eigenvalues import svd
    from mlirfuse.frontends.jax_repairs.linear_algebra import batched

    def one(a: Any) -> Any:
        # Without vectors LAPACK leaves those results undefined; they have their full sizes.
        u, s, vh = svd(a, full=configuration["mode"] != "S")
        return a, s, u, vh, jnp.int32(0)

    return lambda a: batched(one, a.ndim - 2)(a)


_ROUTINES: dict[str, Callable[[Configuration], Function]] = {
    "potrf": _potrf,
    "trsm": _trsm,
    "getrf": _getrf,
    "geqrf": _geqrf,
    "orgqr": _orgqr,
    "ungqr": _orgqr,
    "ormqr": _ormqr,
    "unmqr": _ormqr,
    "gehrd": _gehrd,
    "sytrd": _sytrd,
    "hetrd": _sytrd,
    "gtsv": _gtsv,
    "syevd": _syevd,
    "heevd": _syevd,
    "gesdd": _gesdd,
}
"""LAPACK's names without the letter of the type."""
