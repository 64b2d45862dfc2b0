"""Sums of f32 over dynamic dimensions on the CPU, against float64."""

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
