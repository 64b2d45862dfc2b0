"""PyTorch programs of complex numbers, against PyTorch; many operators to a program."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import mlirfuse
from mlirfuse.core import ImportFailedError

NAN, INF = math.nan, math.inf
C64 = torch.complex64


def check(model, *arguments, tolerance=1e-4, fused=False):
    """Compiles and compares all results: type, shape, NaN, infinities and values of each part."""
    leaves = torch.utils._pytree.tree_leaves
    with torch.no_grad():
        expected = leaves(model(*arguments))
    program = mlirfuse.compile(model, arguments, stock=not fused)
    for index, (got, want) in enumerate(zip(leaves(program(*arguments)), expected, strict=True)):
        assert (got.dtype, got.shape) == (want.dtype, want.shape), index
        ours, theirs = (
            torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in (got, want)
        )
        torch.testing.assert_close(
            ours,
            theirs,
            rtol=tolerance,
            atol=1e-6,
            equal_nan=True,
            msg=lambda text, index=index, ours=ours, theirs=theirs: (
                f"#{index}: {text}\n{ours}\n{theirs}"
            ),
        )
    return program


def numbers(*shape, seed=0):
    return torch.randn(*shape, dtype=C64, generator=torch.Generator().manual_seed(seed))


def special_numbers():
    values = [0.0, -0.0, 1.0, -0.5, -2.5, -1e-8, 1e30, 80.0, INF, -INF, NAN]
    return torch.tensor([complex(a, b) for a, b in itertools.product(values, values)], dtype=C64)


EXPONENTIAL = ["exp", "sinh", "cosh", "tanh", "sin", "tan"]
INVERSE = ["log", "log10", "sqrt", "rsqrt", "asin", "acos", "acosh", "atanh", "atan", "reciprocal"]


@pytest.mark.parametrize("names", [EXPONENTIAL, INVERSE], ids=["exponential", "inverse"])
def test_functions_on_branch_cuts_and_special_values(names):
    z = special_numbers()
    if names is EXPONENTIAL:
        # Angles of a thousand turns are not exact; signs without an angle are unspecified.
        z = z[(z.real.abs() != 1e30) & (z.imag.abs() != 1e30)]
        z = z[z.real.isfinite() | z.imag.isfinite()]
    functions = [getattr(torch, name) for name in names]
    program = check(lambda z: [function(z) for function in functions], z, tolerance=2e-5)
    signs = [
        (torch.copysign(one, g.imag), torch.copysign(one, f(z).imag))
        for one, g, f in (
            (torch.ones(()), g, f) for g, f in zip(program(z), functions, strict=True)
        )
    ]
    for name, (ours, theirs) in zip(names, signs, strict=True):
        cut = (z.imag == 0) & z.real.isfinite() & (z.real != 0)
        if name in ("sqrt", "log", "asin", "acos", "acosh", "atanh"):
            assert torch.equal(ours[cut], theirs[cut]), name


def test_elementwise():
    def model(a, b, x):
        return (
            *(
                a**b,
                a**2,
                x**a,
                torch.log1p(a),
                torch.expm1(a),
                F.silu(a),
                torch.sinc(a),
                a.angle(),
            ),
            *(torch.logaddexp(a, b), torch.ldexp(a, x.to(torch.int32))),
            *(torch.lerp(a, b, 0.4 + 0.2j), torch.lerp(a, b, b), torch.rsub(a, b, alpha=2)),
            *(torch.logical_and(a, b), torch.logical_xor(a, x), torch.logical_or(a, b)),
            *(torch.isclose(a, a + 1e-7), torch.isnan(a), torch.isinf(a / 0.0)),
        )

    a, b = numbers(2, 3), numbers(2, 3, seed=1)
    check(model, a, torch.where(b.real > 0.9, 0, b), torch.tensor([[1.0, 2.0, 0.0], [3, 1, 0.5]]))


@pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter")
def test_moves_and_fills():
    def model(a, b, mask, index):
        short = index.to(torch.int32)
        return (
            a.masked_fill(mask, 1 + 2j),
            torch.fill(a, True),
            a.index_fill(1, index, 2j),
            a.scatter(1, index.expand(3, 3), b),
            a.scatter(1, index.expand(3, 3), 2 - 1j),
            a.scatter(1, index.expand(3, 3), b, reduce="add"),
            a.scatter_add(1, index.expand(3, 3), b),
            a.index_add(1, index, b, alpha=2j),
            torch.ops.aten.index_put(a, [None, short], b, True),
            torch.ops.aten.index(a.real, [None, short]),
            torch.put(a, index, b[0]),
            F.pad(a, (1, 2), value=3),
            F.pad(a.unsqueeze(0), (1, 1), mode="circular"),
            torch.roll(a, 1, 1),
            a.take_along_dim(index.expand(3, 3), 1),
        )

    a, b = numbers(3, 4), numbers(3, 3, seed=1)
    check(model, a, b, torch.rand(3, 4) > 0.5, torch.tensor([0, 2, 0]))


def test_reductions_and_products():
    def model(a, b, v, image, weight):
        return (
            *(torch.var_mean(a, 1), torch.std_mean(a), a.std(0), a.var(correction=0)),
            *(torch.linalg.vector_norm(a, 3, 1), F.normalize(a), F.rms_norm(a, (3,), eps=1e-5)),
            *(torch.cumsum(a, 1), torch.cumprod(a, 0), a.prod(), a.prod(1)),
            *(torch.addmm(a, a, b, beta=0.5, alpha=2j), F.linear(a, b, v), torch.addmv(v, a, v)),
            torch.addbmm(a, a.expand(2, 3, 3), b.expand(2, 3, 3)),
            F.conv_transpose1d(image, weight, v, stride=2),
            F.conv2d(image.unsqueeze(2), weight.unsqueeze(2).transpose(0, 1)),
        )

    check(
        model,
        numbers(3, 3),
        numbers(3, 3, seed=1),
        numbers(3, seed=2),
        numbers(1, 2, 5, seed=3),
        numbers(2, 3, 3, seed=4),
    )


def test_tensors_without_elements():
    def model(a, x):
        none = a[:0]
        return (
            *(none * 2, none.exp(), torch.flip(none, (0,)), torch.cat([a, none]), none @ a.mT),
            *(
                a[:, :0] @ a[:0],
                none.sum(0),
                none.prod(0),
                torch.zeros_like(none),
                a.new_zeros(2, 0),
            ),
            *(torch.linspace(0, 1, 0, dtype=C64), torch.polar(x[:0], x[:0])),
        )

    check(model, numbers(3, 3), torch.rand(3, 3))


def test_factorizations():
    def model(a, b):
        lower = torch.linalg.cholesky(a @ a.mH + torch.eye(4))
        lu, pivots = torch.linalg.lu_factor(a)
        return (
            *(lower, torch.cholesky_solve(b, lower.mH, upper=True), lu, pivots),
            *(torch.linalg.lu_solve(lu, pivots, b, adjoint=True), torch.linalg.slogdet(a)),
        )

    check(model, numbers(4, 4), numbers(4, 2, seed=1), tolerance=1e-3)


def test_reflections():
    def model(a, packed, factors):
        return (
            torch.geqrf(a),
            torch.ormqr(packed, factors, a.mT.contiguous(), left=False),
            torch.ormqr(packed, factors, a, transpose=True),
        )

    a = numbers(5, 3)
    check(model, a, *torch.geqrf(a), tolerance=1e-3)


def test_inverse_short_time_transform():
    check(lambda z: torch.istft(z, 10, window=torch.ones(10)), numbers(6, 4))


class Constants(nn.Module):
    """Expressions of constants, which the compiler evaluates."""

    def __init__(self):
        super().__init__()
        self.rates = nn.Parameter(numbers(3, 3))
        self.register_buffer("large", numbers(32, 32, seed=1))

    def forward(self, x):
        gain = self.rates.mT.exp().abs()
        step = torch.lerp(x, 2 * x, torch.tensor(0.3 + 1j))
        return x * gain, x.exp() @ (self.large * self.large)[:3], step, x * (torch.tensor(0.3) * -1)


def test_constants():
    check(Constants().eval(), numbers(3, 3, seed=2), fused=True)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_results_of_half_precision():
    def model(x, y):
        pair = torch.stack([x, y], -1)
        return torch.complex(x, y), x + y, torch.view_as_complex(pair), torch.complex(x[0], y[0])

    x, y = torch.rand(3).half(), torch.rand(3).half()
    program = check(model, x, y)
    arrays = program(x.numpy(), y.numpy())
    assert [array.dtype for array in arrays] == [np.complex64, np.float16, *[np.complex64] * 2]
    np.testing.assert_array_equal(arrays[0], x.numpy() + 1j * y.numpy().astype(np.complex64))
    with pytest.raises(ImportFailedError, match="is of complex32, of which IREE has no arrays"):
        mlirfuse.compile(lambda z: z.real, (torch.complex(x, y),))


def test_parts_as_results():
    z = numbers(3, 4)
    check(lambda z: (z * z).real, z)
    check(lambda z: (z.real, (2 * z).imag, z.real, z.T.imag), z)
