"""Tokens that a model learns, before and behind those of its input, take no copy of their own."""

import pytest

import mlirfuse

torch = pytest.importorskip("torch")


class Tokens(torch.nn.Module):
    """Learned tokens around those of the input, and the places of all."""

    def __init__(self, before, behind):
        super().__init__()
        torch.manual_seed(0)
        self.before = torch.nn.Parameter(torch.randn(1, before, 24))
        self.behind = torch.nn.Parameter(torch.randn(1, behind, 24))
        self.places = torch.nn.Parameter(torch.randn(1, before + 30 + behind, 24))

    def forward(self, x):
        """`(batch, 30, 24)` to `(batch, before + 30 + behind, 24)`."""
        around = (one.expand(len(x), -1, -1) for one in (self.before, self.behind))
        before, behind = around
        return torch.cat([before, x, behind], 1) + self.places


@pytest.mark.parametrize(("before", "behind"), [(1, 0), (1, 3)])
def test_learned_tokens_take_no_copy(before, behind):
    model, x = Tokens(before, behind), torch.randn(2, 30, 24)
    found = mlirfuse.compile(model, (x,), cache=False)
    assert len(found.kernels) == 1
    assert torch.equal(torch.as_tensor(found(x)), model(x))
    off = mlirfuse.compile(model, (x,), cache=False, disable_pass=["constant_insertion_rewrite"])
    assert len(off.kernels) > 1
    assert torch.equal(torch.as_tensor(off(x)), model(x))
