"""PyTorch models that update buffers and arguments, and results that are constants."""

import copy

import pytest
import torch
from torch import nn

import mlirfuse
from mlirfuse.runtime import exchange


class Cache(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(4, 3))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x, at):
        self.keys.index_copy_(0, at, x)
        self.count += 1
        x.mul_(2)
        return {"sum": self.keys.sum(0), "count": self.count.clone(), "none": None, "three": 3}


def arguments(step):
    return torch.full((1, 3), step + 1.0), torch.tensor([step])


def test_state_is_kept_between_calls_and_arguments_are_updated(tmp_path):
    model = Cache()
    program = mlirfuse.compile(model, arguments(0))
    reference = copy.deepcopy(model)
    assert [spec.name for spec in program.inputs] == ["keys", "count", "x", "at"]
    for step in (0, 2, 3):
        (x, at), (y, _) = arguments(step), arguments(step)
        got, expected = program(x, at), reference(y, at)
        assert torch.equal(got["sum"], expected["sum"])
        assert got["count"] == expected["count"]
        assert (got["none"], got["three"]) == (None, 3)
        assert torch.equal(x, y)
    assert not model.keys.any()

    program.save(tmp_path / "cache.vmfb")
    loaded = mlirfuse.load(tmp_path / "cache.vmfb")
    result, state = loaded(torch.zeros(4, 3), torch.tensor(7), *arguments(1))
    assert result["count"] == 8
    assert sorted(state) == ["argument 0", "count", "keys"]
    assert torch.equal(state["keys"][1], torch.full((3,), 2.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_batch_norm_in_training(dtype):
    torch.manual_seed(0)
    layer = nn.BatchNorm1d(3).to(dtype)
    program, x = mlirfuse.compile(layer, (torch.randn(5, 3, dtype=dtype),)), torch.randn(5, 3)
    for _ in range(2):
        with torch.no_grad():
            expected = layer(x.to(dtype))
        torch.testing.assert_close(program(x.to(dtype)), expected, rtol=2e-2, atol=2e-2)


def test_arguments_that_require_gradients_warn_once():
    program = mlirfuse.compile(torch.relu, (torch.zeros(2),))
    exchange._warn_of_gradients.cache_clear()
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        program(x)
    with pytest.warns(UserWarning, match=r"requires a gradient.*torch.no_grad\(\)"):
        assert not program(x).requires_grad
    program(x)
