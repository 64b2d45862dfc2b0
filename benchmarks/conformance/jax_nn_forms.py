"""How the functions of `jax.nn` and `jax.scipy.special` are called."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.conformance.jax_forms import CUBE, MATRIX, Table, a, form, ints, joined, made, table

_ELEMENTWISE = form(a(24, kind="special"))
_UNIT = form(a(16, kind="unit"))
_POSITIVE = form(a(16, kind="positive"))


def _nn(names: str, *forms: Any) -> Table:
    return table("nn", names, *forms)


def _special(names: str, *forms: Any) -> Table:
    return table("scipy.special", names, *forms)


FORMS = joined(
    (
        _nn(
            "celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu "
            "log_sigmoid mish relu relu6 selu sigmoid silu swish soft_sign softplus sparse_plus "
            "sparse_sigmoid squareplus tanh",
            _ELEMENTWISE,
        ),
        _nn("log1mexp", _POSITIVE),
        _nn("glu", form(a(3, 8))),
        _nn(
            "log_softmax softmax logsumexp logmeanexp standardize",
            form(a(*MATRIX)),
            form(a(*CUBE), axis=1),
        ),
        _nn("one_hot", form(ints(5), 4)),
        _nn(
            "dot_product_attention",
            # Not of integers: JAX cuts probabilities off, of which one can be just below one.
            made(
                lambda f, q, k, v: f(q, k, v),
                a(2, 5, 4, 8),
                a(2, 6, 2, 8),
                a(2, 6, 2, 8),
                dtypes="float32 float16 bfloat16",
            ),
            made(
                lambda f, q, k: f(q, k, k, is_causal=True),
                a(5, 4, 8),
                a(5, 4, 8),
                dtypes="float32 float16 bfloat16",
            ),
        ),
        _special(
            "dawsn entr erf erfc erfcx erfinv exp1 expi expit fresnel gamma gammaln "
            "gammasgn i0 i0e i1 i1e log_ndtr logit loggamma ndtr ndtri sici spence digamma wofz",
            _POSITIVE,
            _UNIT,
        ),
        _special("bessel_jn", made(lambda f, x: f(x, v=2, n_iter=20), a(6, kind="positive"))),
        _special("beta betaln poch xlog1py", form(a(9, kind="positive"), a(9, kind="positive"))),
        _special(
            "betainc", form(a(9, kind="positive"), a(9, kind="positive"), a(9, kind="probability"))
        ),
        _special("boxcox boxcox1p", form(a(9, kind="positive"), a(9, kind="unit"))),
        _special("comb", form(a(9, kind="positive"), a(9, kind="probability"))),
        _special("expn", made(lambda f, x: f(2, x), a(9, kind="positive"))),
        _special("factorial", _POSITIVE),
        _special("gammainc gammaincc", form(a(9, kind="positive"), a(9, kind="positive"))),
        _special("hyp1f1", form(a(6, kind="positive"), a(6, kind="positive"), a(6, kind="unit"))),
        _special(
            "hyp2f1",
            form(
                a(6, kind="positive"),
                a(6, kind="positive"),
                a(6, kind="positive"),
                a(6, kind="probability"),
            ),
        ),
        _special(
            "kl_div rel_entr xlogy",
            form(a(9, kind="positive"), a(9, kind="positive")),
            form(a(9), a(9, kind="positive")),
        ),
        _special("log_softmax softmax logsumexp", form(a(*MATRIX), axis=1)),
        _special("multigammaln", made(lambda f, x: f(x, 2), a(9, kind="above_one"))),
        _special("owens_t", form(a(9), a(9))),
        _special("polygamma", made(lambda f, x: f(2, x), a(9, kind="positive"))),
        _special("zeta", form(a(9, kind="above_one"), a(9, kind="positive"))),
        _special(
            "sph_harm_y",
            made(
                lambda f, x, y: f(np.array([2]), np.array([1]), x, y, n_max=3),
                a(1, kind="positive"),
                a(1, kind="positive"),
            ),
        ),
    )
)
