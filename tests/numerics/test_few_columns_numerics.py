"""Indices of extremes of columns, of which several rows are in a vector, with ties and NaNs."""

import numpy as np
import pytest

import mlirfuse

torch = pytest.importorskip("torch")

TARGETS = ("cpu:host", "cpu:x86-64-v3")


class Extremes(torch.nn.Module):
    """The indices of the largest and the smallest elements along one dimension."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return x.argmax(self.dim), (x * 2).argmin(self.dim)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(2, 1804, 3), (1000, 2), (3, 700, 5), (50, 40, 2, 3)], ids=str)
def test_index_of_a_row(target, shape):
    x = np.random.default_rng(3).integers(-20, 20, shape).astype(np.float32)
    x[..., 0].flat[7] = np.nan
    x = torch.from_numpy(x)
    dim = len(shape) - 2 if len(shape) < 4 else 1
    module = mlirfuse.compile(Extremes(dim), (x,), target=target)
    assert "row_vector_kernel" in {kernel.code for kernel in module.kernels}
    for found, exact in zip(module(x), Extremes(dim)(x), strict=True):
        np.testing.assert_array_equal(found, exact)


class Normalized(torch.nn.Module):
    """Rows divided by their norms, with the dimensions before them in another order."""

    def __init__(self, order):
        super().__init__()
        self.order = order

    def forward(self, x):
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        return (x * scale).permute(self.order), scale


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("order", [(0, 2, 1, 3), (2, 0, 1, 3), (0, 1, 3, 2)], ids=str)
def test_rows_in_another_order(target, order):
    """Short rows were written in the order of the reduction, whatever that of the result."""
    x = torch.randn(3, 12, 5, 16, generator=torch.Generator().manual_seed(0))
    module = mlirfuse.compile(Normalized(order), (x,), target=target)
    for found, exact in zip(module(x), Normalized(order)(x), strict=True):
        torch.testing.assert_close(found, exact)
