"""Weights of bf16 whose vectors are interleaved by pairs, where no instruction multiplies bf16."""

import pytest

import mlirfuse
from mlirfuse.kernels.vector import convolution

torch = pytest.importorskip("torch")

TARGET = "cpu:x86-64-v3"


@pytest.fixture
def pairs(monkeypatch):
    """The lanes of interleaved vectors of each plan, 0 where there are none."""
    found, planned = [], convolution.Plan

    def plan(*arguments):
        made = planned(*arguments)
        found.append(made.pairs)
        return made

    monkeypatch.setattr(convolution, "Plan", plan)
    return found


def layer(kind, rows, inputs, outputs):
    """A layer in bf16, and an input."""
    torch.manual_seed(0)
    if kind == "linear":
        model, x = torch.nn.Linear(inputs, outputs), torch.randn(rows, inputs)
    elif kind == "convolution":
        model = torch.nn.Conv2d(inputs, outputs, 3, padding=1)
        x = torch.randn(1, inputs, rows, 9)
    else:
        model = torch.nn.Conv2d(inputs * 2, outputs * 2, 3, groups=2)
        x = torch.randn(1, inputs * 2, rows, 9)
    return model.to(torch.bfloat16), x.to(torch.bfloat16)


@pytest.mark.parametrize(
    ("kind", "rows", "inputs", "outputs", "paired"),
    [
        ("linear", 128, 64, 96, True),
        ("linear", 37, 51, 90, True),
        ("linear", 37, 51, 40, False),  # Five vectors: a sixth would be of zeros.
        ("linear", 4, 129, 16, True),
        ("linear", 64, 33, 7, False),
        ("linear", 3, 64, 56, False),
        ("linear", 1, 40, 24, False),
        ("convolution", 12, 16, 32, True),
        ("convolution", 7, 5, 13, True),
        ("grouped", 9, 8, 16, True),
    ],
)
def test_values(pairs, kind, rows, inputs, outputs, paired):
    model, x = layer(kind, rows, inputs, outputs)
    found = torch.as_tensor(mlirfuse.compile(model, (x,), target=TARGET, cache=False)(x))
    expected = model.double()(x.double())
    error = (found.double() - expected).abs() / (expected.abs() + 0.5)
    assert error.max() < 2**-7
    assert any(pairs) == paired


@pytest.mark.parametrize(
    ("target", "dtype", "paired"),
    [
        ("cpu:x86-64-v3", "bfloat16", True),
        ("cpu:x86-64-v4", "bfloat16", True),
        ("cpu:x86-64-v3", "float32", False),
        ("cpu:x86-64-v3", "float16", False),
        ("cpu:sapphirerapids", "bfloat16", False),
    ],
)
def test_only_weights_that_are_widened_by_shifts_are_paired(pairs, target, dtype, paired):
    kind = getattr(torch, dtype)
    model, x = torch.nn.Linear(96, 128).to(kind), torch.randn(64, 96).to(kind)
    mlirfuse.compile(model, (x,), target=target, cache=False)
    assert any(pairs) == paired
