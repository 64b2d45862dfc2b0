"""Programs of several JAX functions: gradients, random numbers, updates of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.conformance.jax_forms import CUBE, MATRIX, ROW, Table, a, form, ints, made


def _gradient(function: Callable[..., Any], **keywords: Any) -> Callable[..., Any]:
    """The product of the cotangent `ones` and the Jacobian, by each array."""

    def call(*arrays: Any) -> Any:
        if not jnp.issubdtype(arrays[0].dtype, jnp.inexact):
            raise TypeError("the derivative of integers")
        result, pull_back = jax.vjp(lambda *xs: function(*xs, **keywords), *arrays)
        return pull_back(jnp.ones_like(result))

    return call


def _max_pool(x: Any, padding: str) -> Any:
    lowest = jnp.asarray(-jnp.inf, x.dtype)
    return lax.reduce_window(x, lowest, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), padding)


def _draw(name: str, *arguments: Any, **keywords: Any) -> Callable[..., Any]:
    draw = getattr(jax.random, name)
    return lambda data: draw(jax.random.wrap_key_data(data), *arguments, **keywords)


def _fixed_key(x: Any) -> Any:
    return x + jax.random.normal(jax.random.key(0), x.shape, x.dtype)


def _dropout(data: Any, x: Any) -> Any:
    kept = jax.random.bernoulli(jax.random.wrap_key_data(data), 0.5, x.shape)
    return jnp.where(kept, x * 2, 0)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "max_pool_gradient": lambda x: [_gradient(_max_pool, padding=p)(x) for p in ("SAME", "VALID")],
    "convolution_gradient": _gradient(
        lambda x, w: lax.conv_general_dilated(x, w, (2, 2), "SAME", feature_group_count=2)
    ),
    "cumulative_gradient": lambda x: [
        _gradient(f)(x) for f in (jnp.cumsum, jnp.cumprod, lax.cummax, lax.cumlogsumexp)
    ],
    "softmax_gradient": lambda x: [_gradient(f)(x) for f in (jax.nn.softmax, jax.nn.gelu)],
    "sort_gradient": lambda x: [_gradient(f)(x) for f in (jnp.sort, jnp.median)],
    "gather_gradient": lambda x, i: _gradient(lambda v: v[i] * v[i])(x),
    "scan_gradient": _gradient(lambda x: lax.scan(lambda c, r: (jnp.tanh(c + r), c), x[0], x)[1]),
    "update": lambda x, i, u: (x.at[i].set(u), x.at[i].add(u), x.at[i].max(u), x.at[0].mul(u[0])),
    "fixed_key": _fixed_key,
    "dropout": _dropout,
    "uniform": _draw("uniform", (4, 5)),
    "normal": _draw("normal", (4, 5)),
    "bits": _draw("bits", (7,), "uint8"),
    "randint": _draw("randint", (6,), 0, 10),
    "categorical": _draw("categorical", jnp.arange(8.0).reshape(2, 4) / 4),
    "permutation": _draw("permutation", 9),
    "split_key": lambda data: jax.random.key_data(
        jax.random.split(jax.random.wrap_key_data(data), 3)
    ),
    "fold_in": lambda data: jax.random.key_data(
        jax.random.fold_in(jax.random.wrap_key_data(data), 7)
    ),
    "gamma": _draw("gamma", 2.0, (4,)),
    "truncated_normal": _draw("truncated_normal", -1.0, 1.0, (6,)),
    "choice": _draw("choice", 9, (4,), replace=False),
}
"""By name; `FORMS` has the arguments of each."""

_KEY = made(lambda f, data: f(data), a(2, kind="shift", dtype="uint32"), dtypes="float32")

FORMS: Table = {
    f"programs.{name}": forms if isinstance(forms, tuple) else (forms,)
    for name, forms in (
        {name: _KEY for name in PROGRAMS}
        | {
            "max_pool_gradient": form(a(2, 7, 7, 3)),
            "convolution_gradient": form(a(2, 4, 7, 7), a(6, 2, 3, 3)),
            "cumulative_gradient": form(a(*ROW)),
            "softmax_gradient": form(a(*MATRIX)),
            "sort_gradient": form(a(*MATRIX)),
            "gather_gradient": form(a(*MATRIX), ints(4, below=4)),
            "scan_gradient": form(a(*CUBE)),
            "update": form(a(*MATRIX), ints(3), a(3, 6)),
            "fixed_key": form(a(*MATRIX)),
            "dropout": form(a(2, kind="shift", dtype="uint32"), a(*MATRIX)),
        }
    ).items()
}
