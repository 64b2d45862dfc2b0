"""How the functions of `jax.lax` and `jax.lax.linalg` are called."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.conformance.jax_forms import (
    CUBE,
    MATRIX,
    ROW,
    Table,
    a,
    angles,
    form,
    ints,
    joined,
    made,
    table,
)

_SPECIAL = a(24, kind="special")
_ELEMENTWISE = form(_SPECIAL)
_UNIT = form(a(16, kind="unit"))
_POSITIVE = form(a(16, kind="positive"))


def _lax(names: str, *forms: Any) -> Table:
    return table("lax", names, *forms)


def _linalg(names: str, *forms: Any) -> Table:
    return table("lax.linalg", names, *forms)


_GATHER = lax.GatherDimensionNumbers(
    offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,)
)
_SCATTER = lax.ScatterDimensionNumbers(
    update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
)
_WINDOWS = (
    made(lambda f, x: f(x, _zero(x), _add, (2, 3), (1, 2), "VALID"), a(*MATRIX)),
    made(lambda f, x: f(x, _lowest(x), _max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), a(2, 7, 7, 3)),
    made(lambda f, x: f(x, _zero(x) + 1, _mul, (3,), (1,), ((2, 0),)), a(*ROW, kind="unit")),
    made(
        lambda f, x: f(x, _zero(x), _add, (2, 2), (1, 1), ((1, 0), (0, 1)), (1, 2), (2, 1)),
        a(*MATRIX),
    ),
    made(
        lambda f, x, y: f(
            (x, y),
            (_zero(x), _zero(y)),
            lambda p, q: (p[0] + q[0], p[1] + q[1]),
            (2,),
            (1,),
            "SAME",
        ),
        a(*ROW),
        a(*ROW),
    ),
)


def _zero(x: Any) -> Any:
    return np.zeros((), x.dtype)


def _lowest(x: Any) -> Any:
    if x.dtype == bool:
        return np.zeros((), bool)
    integral = jnp.issubdtype(x.dtype, jnp.integer)
    return np.asarray(jnp.iinfo(x.dtype).min if integral else -np.inf, x.dtype)


def _add(x: Any, y: Any) -> Any:
    return lax.add(x, y) if x.dtype != bool else lax.bitwise_xor(x, y)


def _max(x: Any, y: Any) -> Any:
    return lax.max(x, y)


def _mul(x: Any, y: Any) -> Any:
    return lax.mul(x, y) if x.dtype != bool else lax.bitwise_and(x, y)


def _conv(f: Any, x: Any, w: Any, **keywords: Any) -> Any:
    return f(x, w, keywords.pop("strides", (1, 1)), keywords.pop("padding", "SAME"), **keywords)


_IMAGES, _KERNEL = a(2, 4, 7, 7), a(6, 4, 3, 3)
_CONVOLUTIONS = (
    made(_conv, _IMAGES, _KERNEL),
    made(lambda f, x, w: _conv(f, x, w, strides=(2, 1), padding="VALID"), _IMAGES, _KERNEL),
    made(
        lambda f, x, w: _conv(f, x, w, lhs_dilation=(2, 2), padding=((1, 2), (2, 1))),
        _IMAGES,
        _KERNEL,
    ),
    made(lambda f, x, w: _conv(f, x, w, rhs_dilation=(2, 1)), _IMAGES, _KERNEL),
    made(lambda f, x, w: _conv(f, x, w, feature_group_count=2), _IMAGES, a(6, 2, 3, 3)),
    made(lambda f, x, w: _conv(f, x, w, feature_group_count=4), _IMAGES, a(4, 1, 3, 3)),
    made(lambda f, x, w: _conv(f, x, w, batch_group_count=2), _IMAGES, a(6, 4, 3, 3)),
    made(
        lambda f, x, w: _conv(f, x, w, dimension_numbers=("NHWC", "HWIO", "NHWC")),
        a(2, 7, 7, 4),
        a(3, 3, 4, 6),
    ),
    made(lambda f, x, w: f(x, w, (1,), "SAME"), a(2, 3, 9), a(4, 3, 3)),
)

FORMS = joined(
    (
        _lax(
            "abs acos acosh asin asinh atan atanh bitwise_not cbrt ceil conj cos cosh erf erfc exp "
            "exp2 expm1 floor imag is_finite log log1p logistic neg real reciprocal round rsqrt "
            "sign sin sinh sqrt square tan tanh stop_gradient population_count clz "
            "optimization_barrier bessel_i0e bessel_i1e",
            _ELEMENTWISE,
        ),
        _lax("full_like", form(a(4), 3)),
        _lax("lgamma digamma", _POSITIVE, _UNIT),
        _lax("erf_inv", _UNIT, _ELEMENTWISE),
        _lax("integer_pow", form(a(9), 3), form(a(9), -2)),
        _lax(
            "add bitwise_and bitwise_or bitwise_xor eq ge gt le lt max min mul mulhi ne "
            "nextafter sub complex",
            form(_SPECIAL, a(24, kind="special")),
        ),
        _lax("atan2", *angles(_SPECIAL)),
        _lax("div rem", form(_SPECIAL, a(24, kind="nonzero"))),
        _lax(
            "pow",
            form(_SPECIAL, a(24, kind="small")),
            form(_SPECIAL, a(24, kind="small", dtype="int32")),
        ),
        _lax(
            "shift_left shift_right_arithmetic shift_right_logical",
            form(a(16), a(16, kind="shift")),
        ),
        _lax("clamp", form(1, _SPECIAL, 3), form(a(6), a(6), a(6))),
        _lax(
            "betainc", form(a(9, kind="positive"), a(9, kind="positive"), a(9, kind="probability"))
        ),
        _lax(
            "igamma igammac igamma_grad_a random_gamma_grad",
            form(a(9, kind="positive"), a(9, kind="positive")),
        ),
        _lax("polygamma", made(lambda f, x: f(jnp.full_like(x, 2), x), a(9, kind="positive"))),
        _lax("zeta", form(a(9, kind="above_one"), a(9, kind="positive"))),
        _lax("approx_max_k approx_min_k", form(a(3, 16), 4)),
        _lax("argmax argmin", form(a(4, 9, kind="ties"), 1, np.int32), form(a(*CUBE), 0, np.int32)),
        _lax("top_k", form(a(4, 9, kind="ties"), 4), form(a(*CUBE), 2)),
        _lax(
            "associative_scan",
            made(lambda f, x: f(_add, x), a(*ROW)),
            made(lambda f, x: f(_max, x, reverse=True, axis=1), a(*MATRIX)),
        ),
        _lax("batch_matmul", form(a(2, 3, 4), a(2, 4, 5))),
        _lax("dot", form(a(3, 4), a(4, 5)), form(a(4), a(4))),
        _lax(
            "dot_general",
            form(a(2, 3, 4), a(4, 2, 5), (((2,), (0,)), ((0,), (1,)))),
            made(
                lambda f, x, y: f(x, y, (((1,), (0,)), ((), ())), preferred_element_type=np.int32),
                a(3, 4),
                a(4, 5),
                dtypes="int8 uint8",
            ),
            made(
                lambda f, x, y: f(
                    x, y, (((1,), (0,)), ((), ())), preferred_element_type=np.float32
                ),
                a(3, 4),
                a(4, 5),
                dtypes="float16 bfloat16",
            ),
        ),
        _lax("ragged_dot", form(a(6, 4), a(3, 4, 5), np.array([1, 3, 2], np.int32))),
        _lax(
            "bitcast_convert_type",
            *(form(a(4, 4), np.dtype(d)) for d in ("uint8", "int16", "int32", "float32")),
            made(lambda f, x: f(x, np.dtype("int32")), a(3, 4), dtypes="int8 uint8"),
        ),
        _lax(
            "convert_element_type",
            *(
                form(a(8), getattr(jnp, d))
                for d in (
                    "float32",
                    "float16",
                    "bfloat16",
                    "int8",
                    "uint8",
                    "int32",
                    "bool",
                    "complex64",
                    "uint32",
                )
            ),
        ),
        _lax("broadcast", form(a(3), (2,))),
        _lax("broadcast_in_dim", form(a(3, 1), (3, 2, 4), (0, 2))),
        _lax("broadcast_to_rank", form(a(3), 3)),
        _lax("broadcast_like", form(a(3), a(2, 3))),
        _lax("iota", made(lambda f, x: x + f(x.dtype, 9), a(9))),
        _lax("broadcasted_iota", made(lambda f, x: x + f(x.dtype, (3, 4), 1), a(3, 4))),
        _lax("collapse", form(a(*CUBE), 1, 3)),
        _lax("composite", made(lambda f, x: f(lambda v: v * v, "suite.square")(x), a(4))),
        _lax("concatenate", form([a(3, 4), a(3, 2)], 1)),
        _lax("stack", form([a(3, 4), a(3, 4)], 1)),
        _lax("unstack", form(a(3, 4))),
        _lax("tile", form(a(2, 3), (2, 2))),
        _lax("cond", made(lambda f, x: f(x[0] > 0, lambda v: v + v, lambda v: v * v, x), a(5))),
        _lax(
            "switch",
            made(
                lambda f, i, x: f(i[0], [lambda v: v, lambda v: v + v, lambda v: v * v], x),
                ints(1),
                a(5),
            ),
        ),
        _lax(
            "platform_dependent",
            made(lambda f, x: f(x, cpu=lambda v: v + v, default=lambda v: v + v), a(5)),
        ),
        _lax(
            "fori_loop", made(lambda f, x: f(0, 4, lambda i, v: v + x * i.astype(x.dtype), x), a(5))
        ),
        _lax(
            "while_loop",
            made(
                lambda f, x: f(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] + s[1]), (0, x))[1],
                a(5),
            ),
        ),
        _lax(
            "scan",
            made(lambda f, x: f(lambda c, r: (c + r, c * r), x[0], x), a(5, 3)),
            made(
                lambda f, x: f(lambda c, r: (c + r, None), x[0], x, reverse=True, unroll=2)[0],
                a(6, 3),
            ),
        ),
        _lax("map", made(lambda f, x: f(lambda v: v * v.sum(), x), a(4, 3))),
        _lax("conv", form(_IMAGES, _KERNEL, (1, 1), "SAME")),
        _lax(
            "conv_with_general_padding",
            form(_IMAGES, _KERNEL, (1, 1), ((1, 0), (2, 1)), None, (2, 1)),
        ),
        _lax("conv_general_dilated", *_CONVOLUTIONS),
        _lax(
            "conv_general_dilated_local",
            form(a(1, 2, 5, 5), a(3, 18, 3, 3), (1, 1), "VALID", (3, 3)),
        ),
        _lax("conv_general_dilated_patches", form(a(1, 2, 6, 6), (3, 3), (2, 2), "VALID")),
        _lax("conv_transpose", form(a(2, 5, 5, 4), a(3, 3, 4, 6), (2, 2), "SAME")),
        _lax(
            "cumsum cummax cummin",
            form(a(*ROW)),
            form(a(*MATRIX), axis=1, reverse=True),
        ),
        # Complex logarithms of other orders of the sum differ by 2 pi.
        _lax("cumlogsumexp", made(lambda f, x: f(x), a(*ROW), dtypes="float32 float16 bfloat16")),
        _lax("cumprod", form(a(*ROW, kind="unit"))),
        _lax(
            "custom_linear_solve",
            made(
                lambda f, m, b: f(lambda v: m @ v, b, lambda mv, c: jnp.linalg.solve(m, c)),
                a(4, 4, kind="dominant"),
                a(4),
            ),
        ),
        _lax(
            "custom_root",
            made(
                lambda f, x: f(
                    lambda v: v * v - x,
                    x,
                    lambda g, x0: jnp.sqrt(x),
                    lambda g, y: y / g(jnp.ones_like(y)),
                ),
                a(4, kind="positive"),
            ),
        ),
        _lax("dynamic_index_in_dim", form(a(*MATRIX), ints())),
        _lax(
            "dynamic_slice",
            made(lambda f, x, i: f(x, (i[0], i[1] + 4), (2, 3)), a(*MATRIX), ints(2)),
        ),
        _lax("dynamic_slice_in_dim", form(a(*MATRIX), ints(), 3, 1)),
        _lax("dynamic_update_index_in_dim", form(a(*MATRIX), a(6), ints(), 0)),
        _lax(
            "dynamic_update_slice",
            made(lambda f, x, y, i: f(x, y, (i[0], i[1] + 4)), a(*MATRIX), a(2, 3), ints(2)),
        ),
        _lax("dynamic_update_slice_in_dim", form(a(*MATRIX), a(5, 2), ints(), 1)),
        _lax("expand_dims", form(a(3, 4), (0, 2))),
        _lax(
            "fft",
            *(form(a(3, 8), k, (8,)) for k in ("fft", "ifft", "rfft")),
            form(a(3, 5), "irfft", (8,)),
            form(a(2, 3, 4), "fft", (2, 3, 4)),
        ),
        _lax(
            "gather",
            *(
                made(
                    lambda f, x, i, mode=mode: f(x, i * 3, _GATHER, (1, 3), mode=mode),
                    a(6, 5),
                    ints(4, 1, below=4),
                )
                for mode in ("clip", "fill")
            ),
        ),
        _lax(
            "scatter scatter_add scatter_max scatter_min scatter_mul scatter_sub",
            *(
                made(
                    lambda f, x, u, mode=mode: f(
                        x,
                        np.array([[1], [4], [7], [0]]),
                        u,
                        _SCATTER,
                        mode=mode,
                        unique_indices=True,
                    ),
                    a(6, 5),
                    a(4, 5),
                )
                for mode in ("clip", "drop")
            ),
        ),
        _lax(
            "scatter_apply",
            made(
                lambda f, x: f(
                    x, np.array([[1], [4]]), lambda v: v + v, _SCATTER, update_shape=(2, 5)
                ),
                a(6, 5),
            ),
        ),
        _lax("index_in_dim", form(a(*MATRIX), 2)),
        _lax("index_take", made(lambda f, x, i: f(x, (i,), (0,)), a(*MATRIX), ints(4))),
        _lax("pad", made(lambda f, x: f(x, _zero(x), ((1, 2, 0), (-1, 1, 2))), a(3, 4))),
        _lax(
            "reduce",
            *(made(lambda f, x, g=g: f(x, _zero(x), g, (1,)), a(*MATRIX)) for g in (_add, _max)),
            made(
                lambda f, x, y: f(
                    (x, y),
                    (_lowest(x), np.int32(0)),
                    lambda p, q: (
                        lax.select(p[0] >= q[0], p[0], q[0]),
                        lax.select(p[0] >= q[0], p[1], q[1]),
                    ),
                    (1,),
                ),
                a(*MATRIX),
                ints(*MATRIX),
            ),
        ),
        _lax(
            "reduce_and reduce_or reduce_xor reduce_max reduce_min reduce_sum",
            form(a(*MATRIX), (1,)),
        ),
        _lax("reduce_prod", form(a(*MATRIX, kind="unit"), (0,))),
        _lax("reduce_precision", form(a(24), 5, 3), form(a(24), 8, 7)),
        _lax("reduce_window", *_WINDOWS),
        _lax("reshape", form(a(3, 4), (2, 6)), form(a(3, 4), (12,), (1, 0))),
        _lax("rev", form(a(*CUBE), (0, 2))),
        _lax(
            "rng_bit_generator",
            *(
                made(lambda f, k, s=s: f(k, s, np.dtype("uint32")), a(4, dtype="uint32"))
                for s in ((5,), (3, 4))
            ),
        ),
        _lax("select", form(a(6, dtype="bool"), a(6), a(6))),
        _lax("select_n", form(ints(6), a(6), a(6), a(6)), form(a(6, dtype="bool"), a(6), a(6))),
        _lax("slice", form(a(*MATRIX), (1, 0), (4, 6), (1, 2))),
        _lax("slice_in_dim", form(a(*MATRIX), 1, 5, 2, axis=1)),
        _lax("split", form(a(5, 6), (2, 1, 3), axis=1)),
        _lax("squeeze", form(a(3, 1, 4), (1,))),
        _lax(
            "sort",
            form(a(4, 9, kind="ties")),
            form([a(12, kind="ties"), a(12, kind="ties"), a(12)], num_keys=2),
        ),
        _lax("sort_key_val", form(a(12, kind="ties"), a(12))),
        _lax("transpose", form(a(*CUBE), (2, 0, 1))),
        _linalg("cholesky", form(a(4, 4, kind="definite")), form(a(2, 3, 3, kind="definite"))),
        _linalg("cholesky_update", form(a(4, 4, kind="definite"), a(4, kind="unit"))),
        _linalg(
            "eig",
            made(lambda f, x: f(x, compute_left_eigenvectors=False)[0], a(4, 4, kind="dominant")),
        ),
        _linalg("eigh", made(lambda f, x: (jnp.abs(f(x)[0]), f(x)[1]), a(5, 5, kind="definite"))),
        _linalg("hessenberg", form(a(5, 5))),
        _linalg("householder_product", form(a(5, 3, kind="unit"), a(3, kind="unit"))),
        _linalg("ormqr", form(a(5, 3, kind="unit"), a(3, kind="unit"), a(5, 4))),
        _linalg("lu", form(a(4, 4)), form(a(2, 3, 5))),
        _linalg("lu_pivots_to_permutation", form(np.array([1, 3, 2, 3], np.int32), 5)),
        _linalg("qr", made(lambda f, x: f(x, full_matrices=False), a(5, 4))),
        _linalg("svd", made(lambda f, x: f(x, compute_uv=False), a(5, 4))),
        _linalg("symmetric_product", form(a(4, 3), a(4, 4))),
        _linalg(
            "triangular_solve",
            form(a(4, 4, kind="dominant"), a(4, 2), left_side=True, lower=True),
            form(a(2, 3, 3, kind="dominant"), a(2, 4, 3), transpose_a=True, unit_diagonal=True),
        ),
        _linalg("tridiagonal", made(lambda f, x: f(x)[1:3], a(5, 5, kind="definite"))),
        _linalg(
            "tridiagonal_solve", form(a(5), a(5, kind="above_one"), a(5, kind="unit"), a(5, 2))
        ),
        _linalg(
            "schur", made(lambda f, x: jnp.abs(jnp.diagonal(f(x)[0])), a(4, 4, kind="definite"))
        ),
    )
)
