"""Matmuls of groups of rows: the experts of a mixture."""

import numpy as np
import pytest
import torch

import mlirfuse


class Experts(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, w, ends):
        return self.function(x, w, ends)


def expected(x, w, ends):
    found = np.zeros((x.shape[0], w.shape[2]))
    start = 0
    for matrix, end in zip(w.double().numpy(), ends.tolist(), strict=True):
        found[start:end] = x.double().numpy()[start:end] @ matrix
        start = end
    return found


def of_transformers():
    pytest.importorskip("transformers")
    from transformers.integrations import moe  # noqa: F401

    return torch.ops.transformers.grouped_mm_fallback


@pytest.mark.parametrize("ends", [[3, 3, 10, 12], [0, 12, 12, 12], [1, 2, 3, 9]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_meet_the_matrix_of_their_group(ends, dtype):
    torch.manual_seed(0)
    x, w = torch.randn(12, 8).to(dtype), torch.randn(4, 8, 5).to(dtype)
    x[2, 3] = 1e30  # no sum of another row has it
    offs = torch.tensor(ends, dtype=torch.int32)
    module = Experts(of_transformers())
    program = mlirfuse.compile(module, (x, w, offs), target="cpu")
    right = expected(x, w, offs)
    scale = np.abs(right).max(axis=1, keepdims=True) + 1
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    assert (np.abs(program(x, w, offs).double().numpy() - right) / scale).max() < tolerance


def test_pytorchs_own_op():
    module = Experts(lambda x, w, ends: torch.ops.aten._grouped_mm(x, w, ends))
    x, w = torch.randn(16, 16).bfloat16(), torch.randn(2, 16, 8).bfloat16()
    offs = torch.tensor([5, 16], dtype=torch.int32)
    found = mlirfuse.compile(module, (x, w, offs), target="cpu")(x, w, offs)
    assert np.abs(found.double().numpy() - expected(x, w, offs)).max() < 0.1
