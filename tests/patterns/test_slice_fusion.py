"""Elementwise ops compute what a slice takes of their result, also where it drops dimensions."""

import pytest

import mlirfuse
from helpers.kernel_runner import needs_triton

torch = pytest.importorskip("torch")


class Sliced(torch.nn.Module):
    """A slice of cosines, and an op behind it."""

    def __init__(self, cut):
        super().__init__()
        self.cut = cut

    def forward(self, x):
        """`(6, 2, 5, 40)` to the part that `cut` takes."""
        return self.cut(x.cos()) * 2.0


CUTS = {
    "one_index": lambda x: x[:, 1],
    "kept_dimension": lambda x: x[:, :1, :, ::2],
    "several": lambda x: x[2, :, 3, 4:20],
    "first_and_last": lambda x: x[5, :, :, 7],
    "strided": lambda x: x[1::2, 0, 1:4, ::3],
}


@pytest.mark.parametrize("name", CUTS)
def test_values(name):
    torch.manual_seed(0)
    model, x = Sliced(CUTS[name]), torch.randn(6, 2, 5, 40)
    found = mlirfuse.compile(model, (x,), cache=False)
    torch.testing.assert_close(torch.as_tensor(found(x)), model(x))
    off = mlirfuse.compile(model, (x,), cache=False, disable_pass=["slice_fusion"])
    torch.testing.assert_close(torch.as_tensor(off(x)), model(x))
    assert len(found.kernels) <= len(off.kernels)


@needs_triton
@pytest.mark.parametrize("name", CUTS)
def test_one_kernel(name):
    model, x = Sliced(CUTS[name]), torch.randn(6, 2, 5, 40)
    found = mlirfuse.compile(model, (x,), target="cuda:sm_90", cache=False)
    assert [kernel.name for kernel in found.kernels] == ["elementwise_kernel"]
