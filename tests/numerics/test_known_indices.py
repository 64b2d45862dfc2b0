"""Kernels for a CPU take the lanes of vectors in an order that is known at compile time."""

import pytest
import torch
from torch.nn import functional

import mlirfuse

COLUMNS = torch.tensor([3, 1, 2, 0, 60, 33, 34, 35] * 5 + [63, 62])

MODELS = {
    "reflected": lambda x: functional.pad(x, (3, 2, 1, 3), mode="reflect"),
    "replicated": lambda x: functional.pad(x, (2, 1, 0, 3), mode="replicate"),
    "reflected and activated": lambda x: torch.relu(
        functional.pad(x, (1, 1, 1, 1), mode="reflect")
    ),
    "every element twice": lambda x: functional.interpolate(x, scale_factor=2),
    "half as many again": lambda x: functional.interpolate(x, scale_factor=1.5),
    "far apart": lambda x: x[..., COLUMNS],
    "rows and columns": lambda x: x[:, :, COLUMNS[:12, None] % 24, COLUMNS],
    "linear": lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"),
}


@pytest.mark.parametrize("target", ["cpu:host", "cpu:x86-64-v3"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("name", MODELS)
def test_moved_elements(name, dtype, target):
    x = torch.randn(2, 3, 24, 64, generator=torch.Generator().manual_seed(0)).to(dtype)
    program = mlirfuse.compile(MODELS[name], (x,), target=target, cache=False)
    assert [kernel.code for kernel in program.kernels] == ["movement_vector_kernel"]
    right = MODELS[name](x.float()).to(dtype)
    exact = {"rtol": 0.0, "atol": 0.0}
    near = {"rtol": 1e-2, "atol": 1e-2} if dtype == torch.float16 else {}
    torch.testing.assert_close(program(x), right, **(near if name == "linear" else exact))


@pytest.mark.parametrize("columns", [16, 17, 31, 33])
def test_rows_of_few_vectors(columns):
    """No vector reaches beyond a row, or beyond the last one."""
    x = torch.randn(2, 3, 5, columns, generator=torch.Generator().manual_seed(0))
    model = MODELS["reflected"]
    program = mlirfuse.compile(model, (x,), target="cpu", cache=False)
    assert torch.equal(program(x), model(x))


def test_one_index_for_all_lanes():
    """The target of a cross entropy is a constant: one element of each row."""
    x = torch.randn(206, 48, generator=torch.Generator().manual_seed(0))

    def model(x):
        return functional.cross_entropy(x, torch.full((206,), 3)), torch.relu(x[:, [5] * 20])

    program = mlirfuse.compile(model, (x,), target="cpu", cache=False)
    assert not [d for d in program.report.decisions if "FELL_BACK" in str(d.reason)]
    for ours, right in zip(program(x), model(x), strict=True):
        torch.testing.assert_close(ours, right)


def test_long_rows():
    """These are a loop, whose vectors are gathered."""
    x = torch.randn(3, 2, 7000, generator=torch.Generator().manual_seed(0))

    def model(x):
        return functional.pad(x, (3, 2), mode="reflect")

    program = mlirfuse.compile(model, (x,), target="cpu", cache=False)
    assert torch.equal(program(x), model(x))
