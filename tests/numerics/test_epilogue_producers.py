"""Elementwise ops that compute operands of an epilogue, in the kernel of the epilogue."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import mlirfuse
from helpers.spread import some


class Program(nn.Module):
    def __init__(self, function, **modules):
        super().__init__()
        self.function = function
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def gated(program, a, b, gate):
    return (a @ b) * torch.sigmoid(gate)


def two_chains(program, a, b, gate, shift):
    return torch.relu(a @ b) * torch.sigmoid(gate) + torch.tanh(shift * 0.5)


def lower(program, a, b):
    return torch.tril(a @ b, 1)


def masked_twice(program, a, b):
    return torch.triu(a @ b, -3) + torch.tril(a) * torch.sigmoid(b)


def gated_convolution(program, x, gate):
    return functional.relu(program.convolution(x)) * torch.sigmoid(gate)


def gated_pooling(program, x, gate):
    return functional.max_pool2d(x, 2) * torch.sigmoid(gate)


def square(*sizes):
    return torch.randn(*(sizes or (48, 48)))


def programs():
    torch.manual_seed(5)
    convolution = nn.Conv2d(8, 16, 3, padding=1)
    yield "gated", Program(gated), (square(), square(), square())
    yield "two_chains", Program(two_chains), (square(), square(), square(), square())
    yield "lower", Program(lower), (square(), square())
    yield "masked_twice", Program(masked_twice), (square(), square())
    images = (square(2, 8, 12, 12), square(2, 16, 12, 12))
    yield "convolution", Program(gated_convolution, convolution=convolution), images
    yield "pooling", Program(gated_pooling), (square(2, 8, 12, 12), square(2, 8, 6, 6))


CASES = {name: (program, inputs) for name, program, inputs in programs()}


@pytest.mark.parametrize(
    ("name", "dtype"),
    some(
        CASES,
        (torch.float32, torch.float16),
        often=lambda name, dtype: dtype == torch.float32 or list(CASES).index(name) % 3 == 0,
    ),
)
def test_values(name, dtype):
    program, inputs = CASES[name]
    program, inputs = program.to(dtype), tuple(x.to(dtype) for x in inputs)
    with torch.no_grad():
        fused = torch.as_tensor(mlirfuse.compile(program, inputs, target="cpu")(*inputs)).double()
        program.double()
        expected = program(*(x.double() for x in inputs))
    tolerance = 1e-5 if dtype == torch.float32 else 4e-3
    assert (fused - expected).abs().max() <= tolerance * expected.abs().max()


@pytest.mark.parametrize("name", CASES)
def test_one_kernel(name):
    pytest.importorskip("triton")
    program, inputs = CASES[name]
    inputs = tuple(x.half() for x in inputs)
    kernels = mlirfuse.compile(program.half(), inputs, target="cuda:sm_90").kernels
    # Images of convolutions are reordered by a kernel of their own.
    reordered = int(name == "convolution")
    assert len(kernels) == 1 + reordered
    assert all(kernel.code.endswith("triton_kernel") for kernel in kernels)


def test_the_gate_of_another_product_stays_with_it():
    def gated_unit(program, x, a, b):
        return functional.silu(x @ a) * (x @ b)

    inputs = (square(), square(), square())
    apart = ["sibling_kernel_fusion"]
    fused = mlirfuse.compile(Program(gated_unit), inputs, target="cpu", disable_pass=apart)
    assert len(fused.kernels) == 2
    expected = gated_unit(None, *(x.double() for x in inputs))
    assert torch.allclose(torch.as_tensor(fused(*inputs)).double(), expected, atol=1e-4)


def test_axes_of_equal_sizes():
    """The sum of an image and its bias starts in the memory of zeros in another order."""
    pytest.importorskip("triton")
    torch.manual_seed(6)
    layers = nn.Sequential(
        nn.ConvTranspose2d(8, 16, 4, stride=2, padding=1), nn.BatchNorm2d(16), nn.Tanh()
    )
    inputs = (torch.randn(2, 8, 8, 8).half(),)
    kernels = mlirfuse.compile(layers.eval().half(), inputs, target="cuda:sm_90").kernels
    assert [kernel.code for kernel in kernels] == ["conv_triton_kernel"]
