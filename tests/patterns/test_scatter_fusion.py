"""Arguments of a program, which a scatter must not change, are copied by a kernel."""

import pytest

import mlirfuse
from helpers.kernel_runner import needs_triton

torch = pytest.importorskip("torch")


class Updates(torch.nn.Module):
    """Sums updates into a tensor: an argument, a parameter, zeros, or a sum."""

    def __init__(self, into):
        super().__init__()
        self.into = into
        self.table = torch.nn.Parameter(torch.randn(64, 32))

    def forward(self, x, index, updates):
        destination = {
            "argument": lambda: x,
            "parameter": lambda: self.table,
            "zeros": lambda: torch.zeros_like(x),
            "sum": lambda: x + 1.0,
        }[self.into]()
        return destination.index_add(0, index, updates)


@needs_triton
@pytest.mark.parametrize(
    ("into", "names"),
    [
        ("argument", ["elementwise_kernel", "scatter_kernel"]),
        ("parameter", ["scatter_kernel"]),
        ("zeros", ["scatter_kernel"]),
        ("sum", ["elementwise_kernel", "scatter_kernel"]),
    ],
)
def test_an_argument_is_copied(into, names):
    arguments = torch.randn(64, 32), torch.arange(8), torch.randn(8, 32)
    found = mlirfuse.compile(Updates(into), arguments, target="cuda:sm_90", cache=False)
    assert [kernel.name for kernel in found.kernels if "fill" not in kernel.name] == names
