"""Scans of PyTorch with combiners of their own."""

import pytest
import torch
from torch.export import Dim
from torch.nn import functional as F

import mlirfuse
from helpers.torch_programs import INF, NAN, check
from mlirfuse.frontends import import_model
from mlirfuse.frontends.torch_scans import COMBINERS, scan_op

OPS = (
    lambda x, dim: torch.cummax(x, dim),
    lambda x, dim: torch.cummin(x, dim),
    lambda x, dim: torch.logcumsumexp(x, dim),
)


class Scans(torch.nn.Module):
    """All of them along one axis."""

    def __init__(self, dim, *, floating=True):
        super().__init__()
        self.dim = dim
        self.ops = OPS[: 3 if floating else 2]

    def forward(self, x):
        return [op(x, self.dim) for op in self.ops]


def extremes():
    x = torch.randn(4, 20, generator=torch.Generator().manual_seed(1))
    x[0, [5, 9]] = NAN
    x[1, 3], x[1, 7] = INF, -INF
    x[2, :4] = -INF
    x[3, 10:12] = x[3].max()  # of two the later one
    return x


@pytest.mark.parametrize("dim", [0, -1])
def test_nan_and_infinities(dim):
    check(Scans(dim), extremes())


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.int64, torch.bool]
)
def test_element_types(dtype):
    x = torch.randn(3, 33, 5, generator=torch.Generator().manual_seed(2)) * 3
    check(Scans(1, floating=dtype.is_floating_point), x.to(dtype))


def test_dynamic_sizes_and_few_axes():
    sizes = {"x": ({0: Dim("n", min=2, max=100)},)}

    class Function(torch.nn.Module):
        def forward(self, *x):
            return Scans(1)(x[0])

    x = torch.randn(6, 9)
    program = mlirfuse.compile(Function(), (x,), dynamic_shapes=sizes)
    for rows in (6, 11):
        given = torch.randn(rows, 9)
        found = [
            t for pair in program(given) for t in (pair if isinstance(pair, tuple) else (pair,))
        ]
        expected = [
            t for pair in Scans(1)(given) for t in (pair if isinstance(pair, tuple) else (pair,))
        ]
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other)
    check(Scans(0), torch.randn(50))
    check(Scans(0), torch.randn(1, 4))


def test_a_scan_is_one_op():
    imported = import_model(Scans(1), (extremes(),))
    text = imported.path.read_bytes()
    assert text.count(b"scan") >= 1
    program = mlirfuse.compile(Scans(1), (extremes(),), target="cuda:sm_90")
    assert [kernel.code for kernel in program.kernels].count("scan_triton_kernel") == 5


def test_the_backend_of_torch_compile():
    x = extremes().nan_to_num()
    compiled = torch.compile(Scans(1), backend="mlirfuse", options={"fallback": False})
    with torch.inference_mode():
        for one, other in zip(compiled(x), Scans(1)(x), strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", COMBINERS)
def test_the_operator_in_pytorch(name):
    x = extremes()
    expected = {
        "maximum": torch.cummax(x, 1).values,
        "minimum": torch.cummin(x, 1).values,
        "logaddexp": torch.logcumsumexp(x, 1),
    }
    torch.testing.assert_close(scan_op()(x, 1, name), expected[name], equal_nan=True)


def shifted_sum(x):
    return torch.cat((torch.zeros_like(x[:, :1]), torch.cumsum(x.narrow(1, 0, 31), 1)), 1)


def padded_sum(x):
    return F.pad(torch.cumsum(x, 1)[:, :-1], (1, 0))


def shifted_product(x):
    return torch.cat((torch.ones(1, 32), torch.cumprod(x[:-1], 0)), 0)


@pytest.mark.parametrize("model", [shifted_sum, padded_sum, shifted_product])
def test_an_exclusive_scan_is_one_kernel(model):
    program = check(model, torch.randn(40, 32, generator=torch.manual_seed(0)))
    assert len(program.kernels) == 1


@pytest.mark.parametrize(
    "model",
    [
        lambda x: F.pad(torch.cumsum(x, 1)[:, :-1], (1, 0), value=1.0),
        lambda x: F.pad(torch.cumsum(x, 1)[:, 1:], (1, 0)),
        lambda x: F.pad(torch.cumsum(x, 0)[:, :-1], (1, 0)),
        lambda x: F.pad(torch.cumsum(x, 1)[:, :-1], (0, 1)),
        lambda x: torch.cat((torch.zeros(40, 1), torch.cumsum(x, 1)), 1),
    ],
    ids=["other_number", "other_end", "other_axis", "behind", "longer"],
)
def test_other_shifts_of_scans(model):
    check(model, torch.randn(40, 32, generator=torch.manual_seed(0)))
