"""Special functions of PyTorch in f32 and f64 on CPUs, against those of SciPy in f64."""

import math

import numpy as np
import pytest
import torch
from scipy import special

import mlirfuse

FUNCTIONS = {
    "lgamma": (torch.lgamma, special.gammaln, -20, 60),
    "digamma": (torch.digamma, special.digamma, -8, 60),
    "erfc": (torch.erfc, special.erfc, -6, 9),
    "erfinv": (torch.erfinv, special.erfinv, -1, 1),
    "erfcx": (torch.special.erfcx, special.erfcx, -4, 60),
    "log_ndtr": (torch.special.log_ndtr, special.log_ndtr, -30, 3),
    "ndtri": (torch.special.ndtri, special.ndtri, 0, 1),
    "i0": (torch.i0, special.i0, -30, 30),
    "i1e": (torch.special.i1e, special.i1e, -100, 100),
    "k0": (torch.special.modified_bessel_k0, special.k0, 0.01, 20),
    "k1": (torch.special.modified_bessel_k1, special.k1, 0.01, 20),
    "j0": (torch.special.bessel_j0, special.j0, -40, 40),
    "j1": (torch.special.bessel_j1, special.j1, -40, 40),
    "y0": (torch.special.bessel_y0, special.y0, 0.01, 40),
    "y1": (torch.special.bessel_y1, special.y1, 0.01, 40),
    "spherical_j0": (
        torch.special.spherical_bessel_j0,
        lambda x: special.spherical_jn(0, x),
        0.01,
        20,
    ),
}
"""The function, the exact one, and the range of its arguments."""

NEAR_ENDS = 40
"""Arguments that are powers of two away from the first number of the range."""


def arguments(name, dtype):
    low, high = FUNCTIONS[name][2:]
    x = np.random.default_rng(1).uniform(low, high, 2000)
    steps = 2.0 ** -np.arange(1, NEAR_ENDS + 1)
    if dtype == torch.float64 and name in ("erfinv", "ndtri"):
        x[:NEAR_ENDS] = low + steps
    if name in ("lgamma", "digamma"):
        x[:NEAR_ENDS] = -steps[::2].repeat(2)
    return torch.tensor(x, dtype=dtype)


@pytest.mark.parametrize(("dtype", "most"), [(torch.float64, 2e-13), (torch.float32, 1e-5)])
def test_errors(dtype, most):
    given = [arguments(name, dtype) for name in FUNCTIONS]

    def model(*xs):
        return tuple(f[0](x) for f, x in zip(FUNCTIONS.values(), xs, strict=True))

    results = mlirfuse.compile(model, tuple(given), target="cpu")(*given)
    errors = {}
    for (name, (_, exact, *_)), x, found in zip(FUNCTIONS.items(), given, results, strict=True):
        assert found.dtype == dtype
        expected = exact(x.double().numpy())
        errors[name] = np.max(np.abs(found.double().numpy() - expected) / (1 + np.abs(expected)))
    assert all(error < most for error in errors.values()), errors


def test_ends():
    def model(x):
        return torch.erfinv(x), torch.lgamma(x), torch.special.ndtri(x)

    x = torch.tensor([1.0, -1.0, 0.0, 1.5, math.nan], dtype=torch.float64)
    for found, expected in zip(mlirfuse.compile(model, (x,))(x), model(x), strict=True):
        torch.testing.assert_close(found, expected, equal_nan=True, rtol=1e-13, atol=1e-13)
