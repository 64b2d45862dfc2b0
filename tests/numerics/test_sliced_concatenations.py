"""A concatenation of slices is one kernel on a CPU, which reads them in their tensors."""

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
    "of more than whole rows": (
        lambda x, y: torch.cat([x[2:7, :, 1:], y], 2),
        (9, 3, 40, 16),
        (5, 3, 20, 16),
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8])
@pytest.mark.parametrize("name", MODELS)
def test_one_kernel(name, dtype):
    model, first, second = MODELS[name]
    x, y = numbers(*first).to(dtype), -numbers(*second).to(dtype)
    program = mlirfuse.compile(model, (x, y), target="cpu", cache=False)
    assert [kernel.code for kernel in program.kernels] == ["concat_vector_kernel"]
    assert torch.equal(program(x, y), model(x, y))


def test_every_second_row_is_copied_first():
    x, y = numbers(8, 52, 64), numbers(8, 26, 32)

    def model(x, y):
        return torch.cat([x[:, ::2], y], 2)

    program = mlirfuse.compile(model, (x, y), target="cpu", cache=False)
    assert torch.equal(program(x, y), model(x, y))
