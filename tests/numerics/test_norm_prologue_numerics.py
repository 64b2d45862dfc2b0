"""Norms with elementwise prologues in their kernel are right beside float64."""

import pytest
import torch
from torch.nn import functional

import mlirfuse

NORMS = {
    "layer norm": lambda x: functional.layer_norm(x, x.shape[-1:]),
    "rms norm": lambda x: functional.rms_norm(x, x.shape[-1:]),
    "group norm": lambda x: functional.group_norm(x, 4),
    "softmax": lambda x: torch.softmax(x, -1),
    "sum": lambda x: x.sum(-1),
}


def prologues(x, y):
    """A norm's name and operand: an activation, or a product that is reshaped; none is shared."""
    for n, name in enumerate(NORMS):
        yield name, functional.gelu(x + n)
        yield name, ((x - n) * y).reshape(3, 8, 5, 24)


def model(x, y):
    """Each norm of its operands."""
    return [NORMS[name](operand) for name, operand in prologues(x, y)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_prologues(dtype):
    x, y = torch.randn(2, 3, 8, 120, generator=torch.Generator().manual_seed(0)).to(dtype)
    program = mlirfuse.compile(model, (x, y), target="cpu", cache=False)
    assert program.report.counts()["norm_prologue_fusion"] >= len(NORMS)
    limit = 1e-5 if dtype == torch.float32 else 5e-3
    # The prologue is rounded to the element type, also by eager PyTorch.
    right = [NORMS[name](operand.double()) for name, operand in prologues(x, y)]
    for ours, expected in zip(program(x, y), right, strict=True):
        torch.testing.assert_close(ours.double(), expected, rtol=limit, atol=limit)
