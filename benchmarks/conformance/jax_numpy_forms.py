"""How the functions of `jax.numpy` and its `linalg` and `fft` are called."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from benchmarks.conformance.jax_forms import (
    COMPLEX,
    CUBE,
    MATRIX,
    REAL,
    ROW,
    Table,
    a,
    angles,
    form,
    ints,
    joined,
    made,
    of_types,
    table,
)

_NUMBERS = f"{REAL} {COMPLEX}".replace(" bool", "")
"""All types but the booleans, whose dominant matrix is singular."""

_SPECIAL = a(24, kind="special")
_ELEMENTWISE = form(_SPECIAL)
_TWO = form(_SPECIAL, a(24, kind="special")), form(a(2, 3, 1), a(3, 4))
_REDUCED = form(a(*MATRIX)), form(a(*CUBE), axis=1), form(a(*CUBE), axis=(0, 2), keepdims=True)
_ALONG = form(a(*ROW)), form(a(*CUBE), axis=1)
_MATMUL = form(a(4, 5), a(5, 3)), form(a(2, 1, 4, 5), a(3, 5, 4))
_PERCENT = made(lambda f, x: f(x, jnp.asarray([10.0, 55.0]), axis=0), a(*MATRIX))
_FRACTION = made(lambda f, x: f(x, jnp.asarray([0.1, 0.55]), axis=0), a(*MATRIX))


def _rows(count: int) -> list[Any]:
    return [a(3, 4, kind="normal") for _ in range(count)]


def _linalg(names: str, *forms: Any) -> Table:
    return table("numpy.linalg", names, *forms)


def _fft(names: str, *forms: Any) -> Table:
    return table("numpy.fft", names, *forms)


def _np(names: str, *forms: Any) -> Table:
    return table("numpy", names, *forms)


def _inplace(f: Any, *arguments: Any, **keywords: Any) -> Any:
    return f(*arguments, inplace=False, **keywords)


FORMS = joined(
    (
        _np(
            "abs absolute angle arccos arccosh arcsin arcsinh arctan arctanh acos acosh asin asinh "
            "atan atanh around bitwise_count bitwise_invert bitwise_not cbrt ceil conj conjugate "
            "copy cos cosh deg2rad degrees exp exp2 expm1 fabs floor frexp i0 imag invert "
            "iscomplex isfinite isinf isnan isneginf isposinf isreal log log10 log1p log2 "
            "logical_not modf nan_to_num "
            "negative positive rad2deg radians real reciprocal rint "
            "round sign signbit sin sinc sinh spacing sqrt square tan tanh trunc array asarray "
            "ravel zeros_like ones_like atleast_1d atleast_2d atleast_3d sort_complex",
            _ELEMENTWISE,
        ),
        _np(
            "add bitwise_and bitwise_or bitwise_xor copysign equal float_power fmax "
            "fmin greater greater_equal heaviside hypot less less_equal logaddexp logaddexp2 "
            "logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal "
            "subtract isclose allclose array_equal array_equiv",
            *_TWO,
        ),
        _np("arctan2 atan2", *angles(_SPECIAL, *_TWO[1:])),
        _np(
            "divide true_divide floor_divide remainder mod fmod divmod",
            form(_SPECIAL, a(24, kind="nonzero")),
            form(a(2, 3, 1), a(3, 4, kind="nonzero")),
        ),
        _np("pow power", form(_SPECIAL, a(24, kind="small")), form(a(6, kind="positive"), a(6))),
        _np("gcd lcm", form(a(12), a(12))),
        _np(
            "left_shift right_shift bitwise_left_shift bitwise_right_shift",
            form(a(16), a(16, kind="shift")),
        ),
        _np("ldexp", form(a(12), ints(12))),
        _np(
            "all any amax amin max min mean sum prod std var median ptp nanmax nanmin nanmean "
            "nansum nanprod nanstd nanvar nanmedian count_nonzero average",
            *_REDUCED,
        ),
        _np(
            "argmax argmin nanargmax nanargmin",
            form(a(*MATRIX, kind="ties")),
            form(a(*CUBE), axis=1),
        ),
        _np("argsort sort", form(a(4, 9, kind="ties")), form(a(*CUBE), axis=1, descending=True)),
        _np("cumsum cumprod nancumsum nancumprod", form(a(*MATRIX)), *_ALONG),
        _np("cumulative_sum cumulative_prod", *_ALONG, form(a(*ROW), include_initial=True)),
        _np("percentile nanpercentile", _PERCENT),
        _np("quantile nanquantile", _FRACTION),
        _np("matmul", *_MATMUL, form(a(5), a(5, 3))),
        _np("dot inner", form(a(4, 5), a(5)), form(a(5), a(5))),
        _np("vdot", form(a(4, 5), a(4, 5))),
        _np("vecdot", form(a(4, 5), a(4, 5))),
        _np("matvec", form(a(2, 4, 5), a(2, 5))),
        _np("vecmat", form(a(2, 4), a(2, 4, 5))),
        _np("tensordot", form(a(3, 4, 5), a(4, 5, 2))),
        _np("outer", form(a(4), a(5))),
        _np("kron", form(a(2, 3), a(3, 2))),
        _np("cross", form(a(4, 3), a(4, 3))),
        _np(
            "einsum",
            form("bij,bjk->bik", a(2, 3, 4), a(2, 4, 5)),
            form("ii->i", a(4, 4)),
            form("ij,kj->", a(3, 4), a(2, 4)),
        ),
        _np("append", form(a(3, 2), a(4, 2), axis=0)),
        _np("array_split split hsplit", form(a(4, 6), 2)),
        _np("dsplit", form(a(2, 3, 4), 2)),
        _np("vsplit", form(a(4, 6), (1, 3))),
        _np("unstack", form(a(*CUBE), axis=1)),
        _np("concatenate concat", form([a(3, 4), a(2, 4)]), form([a(3, 4), a(3, 2)], axis=1)),
        _np("stack", form(_rows(2), axis=1)),
        _np("hstack vstack dstack column_stack block", form(_rows(3))),
        _np("broadcast_arrays", form(a(3, 1), a(4))),
        _np("broadcast_to", form(a(3, 1), (2, 3, 4))),
        _np("apply_along_axis", made(lambda f, x: f(lambda v: v * v.sum(), 1, x), a(*CUBE))),
        _np("apply_over_axes", made(lambda f, x: f(jnp.sum, x, (0, 2)), a(*CUBE))),
        _np("argpartition", made(lambda f, x: f(x, 3)[..., 3], a(4, 9, kind="permutation"))),
        _np("partition", made(lambda f, x: f(x, 3)[..., 3], a(4, 9))),
        _np("argwhere", form(a(*MATRIX), size=8)),
        _np("nonzero flatnonzero", form(a(*MATRIX), size=8, fill_value=-1)),
        _np(
            "astype",
            *(form(a(8), dtype=d) for d in ("float32", "float16", "int32", "uint8", "bool")),
        ),
        _np("bincount", form(ints(12, below=9), length=9), form(ints(12), a(12), length=4)),
        _np("choose", form(ints(6), [a(6), a(6), a(6)])),
        _np("clip", form(_SPECIAL, 1, 3), form(a(6), a(6), a(6))),
        _np("compress extract", form(a(6, dtype="bool"), a(6), size=4)),
        _np("convolve correlate", form(a(9), a(4)), form(a(9), a(4), mode="same")),
        _np("corrcoef cov", form(a(*MATRIX))),
        _np("delete", form(a(7), 2), form(a(*MATRIX), (1, 3), axis=1)),
        _np("diag diagflat", form(a(5)), form(a(5), 1)),
        _np("diagonal", form(a(*CUBE), axis1=1, axis2=2)),
        _np("trace", form(a(*MATRIX), 1)),
        _np("diff", form(a(*MATRIX)), form(a(9), n=2)),
        _np("digitize", made(lambda f, x, y: f(x, y), a(9), a(4, kind="sorted"))),
        _np(
            "searchsorted",
            form(a(6, kind="sorted"), a(9)),
            form(a(6, kind="sorted"), a(9), side="right"),
        ),
        _np("ediff1d", form(a(9))),
        _np("expand_dims", form(a(3, 4), (0, 2))),
        _np("fill_diagonal", made(_inplace, a(4, 4), 2)),
        _np("flip", form(a(*CUBE)), form(a(*CUBE), axis=1)),
        _np("fliplr flipud", form(a(*CUBE))),
        _np("full_like", form(a(4), 3)),
        _np("gradient", form(a(9)), form(a(*MATRIX))),
        # No edge but the outer ones is an integer: rounding would decide.
        _np("histogram", form(a(20), bins=7)),
        _np("histogram_bin_edges", form(a(20), bins=7)),
        _np("histogram2d", form(a(20), a(20), bins=4)),
        _np("histogramdd", form(a(20, 2), bins=4)),
        _np("insert", form(a(7), 2, 3), form(a(3, 4), 1, a(4), axis=0)),
        _np("interp", form(a(9), a(5, kind="sorted"), a(5))),
        _np("intersect1d", form(a(9), a(9), size=6, fill_value=0)),
        _np("setdiff1d", form(a(9), a(9), size=6, fill_value=0)),
        _np("setxor1d union1d", form(a(9), a(9), size=12, fill_value=0)),
        _np("isin", form(a(9), a(4))),
        _np("ix_", form(ints(3), ints(4))),
        _np("lexsort", form([a(12, kind="ties"), a(12)])),
        _np("linspace", form(a(3), a(3), 5)),
        _np("geomspace", form(a(3, kind="positive"), a(3, kind="positive"), 5)),
        _np("logspace", form(a(3, kind="unit"), a(3, kind="unit"), 5)),
        _np("meshgrid", form(a(3), a(4))),
        _np("moveaxis", form(a(*CUBE), 0, 2)),
        _np("matrix_transpose", form(a(*CUBE))),
        _np("permute_dims transpose", form(a(*CUBE), (2, 0, 1))),
        _np("swapaxes rollaxis", form(a(*CUBE), 2, 0)),
        _np("packbits", form(a(3, 11))),
        _np("unpackbits", form(a(5, dtype="uint8"))),
        _np("pad", form(a(3, 4), 2), form(a(3, 4), ((1, 2), (0, 1)), mode="reflect")),
        _np(
            "piecewise",
            made(lambda f, x: f(x, [x < 0, x > 1], [lambda v: -v, lambda v: v * v, 0]), a(9)),
        ),
        _np("place", made(_inplace, a(6), a(6, dtype="bool"), a(2))),
        _np("put", made(_inplace, a(6), ints(3), a(3))),
        _np(
            "put_along_axis",
            made(lambda f, x, i: f(x, i, 2, axis=1, inplace=False), a(4, 5), ints(4, 1)),
        ),
        _np("poly", form(a(3))),
        _np("polyadd polysub polymul", form(a(4), a(3))),
        _np("polyder polyint", form(a(5))),
        _np("polydiv", form(a(5), a(3, kind="positive"))),
        _np("polyfit", form(a(9, kind="permutation"), a(9), 2)),
        _np("polyval", form(a(4), a(9, kind="unit"))),
        _np("ravel_multi_index", form((ints(6), ints(6, below=4)), (3, 4))),
        _np("unravel_index", form(ints(6, below=9), (3, 3))),
        _np(
            "repeat",
            form(a(3, 4), 2, axis=1),
            form(a(3), a(3, kind="index3", dtype="int32"), total_repeat_length=5),
        ),
        _np("reshape", form(a(3, 4), (2, 6)), form(a(3, 4), (4, 3), order="F")),
        _np("resize", form(a(3, 4), (5, 4))),
        _np("roll", form(a(*MATRIX), 2), form(a(*MATRIX), (1, -2), axis=(0, 1))),
        _np("roots", form(a(4, kind="positive"), strip_zeros=False)),
        _np("rot90", form(a(*CUBE))),
        _np("select", made(lambda f, x, y: f([x > 0, y > 0], [x, y], 0), a(6), a(6))),
        _np("squeeze", form(a(3, 1, 4))),
        _np(
            "take",
            form(a(5, 4), ints(3), axis=0),
            *(
                form(a(9), a(4, kind="permutation", dtype="int32"), mode=m)
                for m in ("wrap", "clip", "fill")
            ),
        ),
        _np("take_along_axis", form(a(4, 3), ints(4, 2), axis=1)),
        _np("tile", form(a(2, 3), (2, 2))),
        _np("trapezoid", form(a(*MATRIX))),
        _np("tri", made(lambda f, x: x * f(4, 5, 1, dtype=x.dtype), a(4, 5))),
        _np("tril triu", form(a(4, 5)), form(a(2, 4, 4), 1)),
        _np(
            "unique",
            form(a(12, kind="ties"), size=4),
            form(a(12), size=9, return_index=True, return_inverse=True, return_counts=True),
        ),
        _np(
            "unique_all unique_counts unique_inverse unique_values",
            form(a(12, kind="ties"), size=4),
        ),
        _np("unwrap", form(a(9))),
        _np("vander", form(a(5), 3)),
        _np(
            "vectorize",
            made(
                lambda f, x, y: f(lambda u, v: u * v.sum(), signature="(),(n)->()")(x, y),
                a(4),
                a(4, 3),
            ),
        ),
        _np("where", form(a(6, dtype="bool"), a(6), a(6))),
        _np("fromfunction", made(lambda f, x: f(lambda i, j: i * x[0] + j, (3, 4)), a(2))),
        _np("frompyfunc", made(lambda f, x, y: f(lambda u, v: u + v, 2, 1)(x, y), a(4), a(4))),
        _np("mask_indices", made(lambda f, x: x[f(4, jnp.triu, size=10)], a(4, 4))),
        _np(
            "diag_indices_from tril_indices_from triu_indices_from",
            made(lambda f, x: x[f(x)], a(4, 4)),
        ),
        _linalg("cholesky", form(a(4, 4, kind="definite")), form(a(2, 3, 3, kind="definite"))),
        _linalg(
            "det slogdet inv pinv",
            form(a(4, 4, kind="dominant")),
            form(a(2, 3, 3, kind="dominant")),
        ),
        _linalg("cond", of_types(form(a(4, 4, kind="dominant")), _NUMBERS)),
        _linalg("cross", form(a(4, 3), a(4, 3))),
        _linalg("diagonal matrix_transpose trace", form(a(*CUBE))),
        _linalg("eig", made(lambda f, x: f(x)[0], a(4, 4, kind="dominant"))),
        _linalg("eigvals", form(a(4, 4, kind="dominant"))),
        _linalg("eigh", made(lambda f, x: (f(x)[0], jnp.abs(f(x)[1])), a(5, 5, kind="definite"))),
        _linalg("eigvalsh", form(a(5, 5, kind="definite"))),
        _linalg("lstsq", made(lambda f, x, y: f(x, y)[0], a(6, 4), a(6, 2))),
        _linalg("matmul", *_MATMUL),
        _linalg("matrix_norm", form(a(*CUBE)), form(a(*CUBE), ord="nuc"), form(a(*CUBE), ord=1)),
        _linalg("matrix_power", form(a(3, 3), 3), form(a(3, 3, kind="dominant"), -2)),
        _linalg("matrix_rank", form(a(4, 4, kind="dominant"))),
        _linalg("multi_dot", form([a(3, 4), a(4, 5), a(5, 2)])),
        _linalg("norm", form(a(*MATRIX)), form(a(*CUBE), axis=1), form(a(7), ord=np.inf)),
        _linalg("outer", form(a(4), a(5))),
        _linalg(
            "qr", made(lambda f, x: [jnp.abs(v) for v in f(x)], a(5, 4)), form(a(4, 4), mode="r")
        ),
        _linalg(
            "solve",
            form(a(4, 4, kind="dominant"), a(4, 2)),
            form(a(2, 3, 3, kind="dominant"), a(3)),
        ),
        _linalg("svd", made(lambda f, x: [jnp.abs(v) for v in f(x, full_matrices=False)], a(5, 4))),
        _linalg("svdvals", form(a(5, 4))),
        _linalg("tensordot", form(a(3, 4, 5), a(4, 5, 2))),
        _linalg("tensorinv", form(a(4, 2, 2, kind="normal"), ind=1)),
        _linalg("tensorsolve", form(a(2, 2, 4), a(2, 2))),
        _linalg("vecdot", form(a(4, 5), a(4, 5))),
        _linalg("vector_norm", form(a(*CUBE), axis=1), form(a(*CUBE), ord=3)),
        _fft(
            "fft ifft", form(a(3, 8)), form(a(12, 2), axis=0), form(a(7)), form(a(9), norm="ortho")
        ),
        _fft("rfft irfft hfft ihfft", form(a(3, 8)), form(a(7)), form(a(6), n=10)),
        _fft("fft2 ifft2 rfft2 irfft2", form(a(2, 4, 6))),
        _fft("fftn ifftn rfftn irfftn", form(a(4, 3, 6))),
        _fft("fftshift ifftshift", form(a(*MATRIX))),
    )
)
