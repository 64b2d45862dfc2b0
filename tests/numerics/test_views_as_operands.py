"""Kernels for a CPU read slices and transposes in the tensors that they are views of."""

import pytest
import torch

import mlirfuse


def numbers(*shape):
    return torch.arange(torch.Size(shape).numel()).reshape(shape).float()


MODELS = {
    "written into the middle": (
        lambda x, y: torch.cat([x[:, :10], y, x[:, 14:]], 1),
        (8, 52, 64),
        (8, 4, 64),
    ),
    "a cache that moves on": (
        lambda x, y: torch.cat([x[:, :, 1:], y], 2),
        (1, 8, 52, 16),
        (1, 8, 1, 16),
    ),
    "halves": (lambda x, y: torch.cat([x[..., 35:], y, x[..., :35]], -1), (8, 5, 70), (8, 5, 40)),
    "of two dimensions": (
        lambda x, y: torch.cat([x[:, :3, 4:], y], 2),
        (8, 5, 40, 24),
        (8, 3, 30, 24),
    ),
    "numbers": (lambda x, y: torch.cat([x[:, 7:], y], 1), (80, 500), (80, 1)),
    "rows without columns": (lambda x, y: torch.cat([x[:, 1:], y[:, 3:4]], 1), (80, 50), (80, 5)),
    "every second row": (
        lambda x, y: torch.cat([x[:, 1::2], y], 2),
        (8, 52, 64),
        (8, 26, 32),
    ),
    "of more than whole rows": (
        lambda x, y: torch.cat([x[2:7, :, 1:], y], 2),
        (9, 3, 40, 16),
        (5, 3, 20, 16),
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8])
@pytest.mark.parametrize("name", MODELS)
def test_concatenations(name, dtype):
    model, first, second = MODELS[name]
    x, y = numbers(*first).to(dtype), -numbers(*second).to(dtype)
    program = mlirfuse.compile(model, (x, y), target="cpu", cache=False)
    assert [kernel.code for kernel in program.kernels] == ["concat_vector_kernel"]
    assert torch.equal(program(x, y), model(x, y))


REDUCED = {
    "rows": lambda x: torch.softmax(x[:, 3:-5], -1),
    "every third row": lambda x: torch.layer_norm(x[1::3], x.shape[-1:]),
    "columns": lambda x: x[:, 10:90].sum(0),
    "every second row of columns": lambda x: x[::2].amax(0),
    "one index": lambda x: torch.softmax(x.unflatten(1, (-1, 2, 40))[:, :, 1], -1),
    "a scale of each row": lambda x: torch.softmax(x[:, :100] * x[:, 120:121], -1),
}


@pytest.mark.parametrize("name", REDUCED)
def test_reductions(name):
    x = torch.randn(70, 160, generator=torch.Generator().manual_seed(0))
    program = mlirfuse.compile(REDUCED[name], (x,), target="cpu", cache=False)
    assert [kernel.code for kernel in program.kernels] == ["row_vector_kernel"]
    torch.testing.assert_close(program(x), REDUCED[name](x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dot_products_of_channels(dtype):
    """A kernel reads images with channels first, whose pixels are lanes, without a copy."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(2, 9, 20, 30, generator=generator).to(dtype) for _ in range(2))

    def model(x, y):
        return torch.sigmoid(torch.einsum("bchw,bchw->bhw", x, y))

    program = mlirfuse.compile(model, (x, y), target="cpu", cache=False)
    assert program.kernels[0].code == "row_vector_kernel"
    limit = 1e-5 if dtype == torch.float32 else 2e-2
    right = model(x.double(), y.double())
    torch.testing.assert_close(program(x, y).double(), right, rtol=limit, atol=limit)


def test_every_second_column_of_rows():
    """Lanes are not adjacent there: the slice is copied first."""
    x = torch.randn(70, 160, generator=torch.Generator().manual_seed(0))
    program = mlirfuse.compile(lambda x: torch.softmax(x[:, ::2], -1), (x,), target="cpu")
    torch.testing.assert_close(program(x), torch.softmax(x[:, ::2], -1))
