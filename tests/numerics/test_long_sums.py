"""Sums of many numbers of f32 that no kernel takes, on the CPU, against float64."""

import numpy as np
import pytest
import torch

import mlirfuse

SIZE = 1_000_003


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: x.sum(0), (SIZE,)),
        (lambda x: (x * x).mean(-1), (2, SIZE)),
        (lambda x: x.sum((0, 2)), (300, 3, 1111)),
    ],
)
def test_error_is_that_of_one_rounding(function, shape):
    class Sum(torch.nn.Module):
        def forward(self, x):
            return function(x)

    torch.manual_seed(0)
    x = torch.rand(shape)
    dims = dict.fromkeys(range(len(shape)), torch.export.Dim.DYNAMIC)
    dims = {n: kind for n, kind in dims.items() if shape[n] > 3}
    program = mlirfuse.compile(
        torch.export.export(Sum(), (x,), dynamic_shapes=(dims,)), target="cpu"
    )
    expected = function(x.double())
    np.testing.assert_allclose(program(x).double(), expected, rtol=3e-7)


def test_static_sum_in_a_group():
    """A broadcast in the middle of the row, which the kernel of rows does not take."""

    class Norm(torch.nn.Module):
        def forward(self, x, y):
            return torch.linalg.vector_norm(torch.minimum(x, y))

    torch.manual_seed(0)
    x, y = torch.rand(38, 56, 152, 8), torch.rand(38, 56, 1, 8)
    program = mlirfuse.compile(Norm(), (x, y), target="cpu")
    expected = Norm()(x.double(), y.double())
    np.testing.assert_allclose(program(x, y).double(), expected, rtol=3e-7)
