"""Matmuls with packed weights agree with the unfused program."""

import numpy as np
import pytest
import torch
from torch import nn

import mlirfuse
from mlirfuse import targets

PASS = "weight_packing_rewrite"

pytestmark = pytest.mark.skipif(
    not targets.parse("cpu").packed_matmul_tiles, reason="no CPU with AVX-512: nothing is packed"
)


class Layers(nn.Module):
    """A linear layer with an activation, one by rows with a residual, one whose result turns."""

    def __init__(self, width: int, columns: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.Linear(width, columns)
        self.down = nn.Parameter(torch.randn(columns, width) / columns**0.5)
        self.turn = nn.Linear(width, columns)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = nn.functional.gelu(self.up(x)) @ self.down + x
        return h, torch.tanh(self.turn(h)).T


ROWS = (4, 5, 6, 7, 8, 10, 12, 24, 104, 120)
"""With them every tile is used, whole and with rows left over."""


class EachRows(nn.Module):
    """The same layers for several M, in one program; of some rows the first alone."""

    def __init__(self, whole: tuple[int, ...]) -> None:
        super().__init__()
        self.layers = Layers(64, 192)
        self.whole = whole

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = []
        for x in tensors:
            if x.shape[0] in self.whole:
                found += self.layers(x)
            else:
                found.append(nn.functional.gelu(self.layers.up(x)))
        return tuple(found)


@pytest.mark.parametrize(
    "whole", [(5, 24, 120), pytest.param(ROWS, marks=pytest.mark.sweep)], ids=["some", "all"]
)
def test_packed_matmuls(whole):
    model = EachRows(whole).eval()
    inputs = tuple(torch.randn(rows, 64) for rows in ROWS)
    for x in inputs:
        x[0] = 0.0
        x[1] *= 1e3
    packed = mlirfuse.compile(model, inputs, cache=False, disable_feature=("kernels",))
    plain = mlirfuse.compile(model, inputs, cache=False, stock=True)
    exact = model.double()(*(x.double() for x in inputs))
    assert packed.report.counts()[PASS] == len(ROWS) + 2 * len(whole)
    for got, unfused, truth in zip(packed(*inputs), plain(*inputs), exact, strict=True):
        scale = truth.abs().max()
        error = (got - truth).abs().max() / scale
        assert error < 2e-4  # tanh of a small difference of large numbers
        assert error <= 2 * (unfused - truth).abs().max() / scale + 1e-7


@pytest.mark.parametrize(
    ("name", "disabled"), [(PASS, ("kernels",)), ("matmul_vector_kernel", ())], ids=["iree", "ours"]
)
def test_infinities_and_nans_do_not_leave_their_row(name, disabled):
    model = nn.Linear(32, 64).eval()
    x = torch.randn(16, 32)
    x[3, 5], x[7, 0] = float("inf"), float("nan")
    program = mlirfuse.compile(model, (x,), cache=False, disable_feature=disabled)
    assert program.report.counts()[name] == 1
    with torch.no_grad():
        np.testing.assert_allclose(program(x), model(x), rtol=1e-5, atol=1e-6)
