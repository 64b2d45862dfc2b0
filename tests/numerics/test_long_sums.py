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


def error_of(function, *arguments):
    """The root mean square of the errors of a function compiled for the CPU; its results are
    about one."""
    program = mlirfuse.compile(function, arguments, target="cpu", cache=False)
    assert [kernel.code for kernel in program.kernels if kernel.code != "iree"]
    right = function(*(argument.double() for argument in arguments))
    return float((program(*arguments) - right).square().mean().sqrt())


@pytest.mark.parametrize(
    ("rows", "columns", "turned"), [(70, 96, False), (70, 96, True), (1, 160, False), (5, 33, True)]
)
def test_products_of_long_sums(rows, columns, turned):
    """An accumulator that sums all 20,000 products has an error of 2.5e-6."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 20000, generator=generator) / 141
    shape = (columns, 20000) if turned else (20000, columns)
    w = torch.randn(shape, generator=generator)
    error = error_of(lambda x, w: x @ (w.mT if turned else w), x, w)
    assert error < 6e-7, error


def test_convolutions_of_many_channels():
    """An accumulator that sums all 9,216 products has an error of 1.7e-6."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 1024, 9, 9, generator=generator)
    w = torch.randn(20, 1024, 3, 3, generator=generator) / 96
    error = error_of(lambda x, w: torch.nn.functional.conv2d(x, w, stride=2), x, w)
    assert error < 6e-7, error
