"""`--must-fuse` and marks hold in the engine's groups and in IREE's dispatches."""

import pytest
import torch

import mlirfuse
from mlirfuse.backend.compiler import Compiler
from mlirfuse.core import MustFuseError, Reason


class Block(torch.nn.Module):
    """A norm, and more of its row, in one marked block."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(32)

    def forward(self, x):
        with mlirfuse.region("row", fuse="must"):
            y = torch.tanh(self.norm(x)) * 2
        return y @ y.T


def compiled(**switches):
    return mlirfuse.compile(Block().eval(), (torch.ones(8, 32),), cache=False, **switches)


def test_no_pass_takes_some_ops_of_a_required_group():
    program = compiled()
    assert program.report.counts()["reduction_fusion"] == 1
    (refused,) = [d for d in program.report.decisions if d.pass_name == "layer_norm_fusion"]
    assert refused.reason is Reason.MUST_FUSE
    assert refused.detail.startswith("mlirfuse.region 'row' has ")
    x = torch.randn(8, 32, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(program(x), Block().eval()(x), rtol=1e-4, atol=1e-4)


def test_the_dispatches_are_checked(monkeypatch):
    """IREE forms dispatches of the module that no pass of ours has seen."""
    dispatches = Compiler.dispatches

    def split(self, source, output, *, data_tiling):
        dispatches(self, source.with_name("normalized.mlirbc"), output, data_tiling=data_tiling)

    monkeypatch.setattr(Compiler, "dispatches", split)
    with pytest.raises(
        MustFuseError, match=r"region 'row': the ops are in \d+ dispatches of @main"
    ):
        compiled()


def test_only_who_asks_pays_for_it(monkeypatch):
    monkeypatch.setattr(Compiler, "dispatches", lambda *_, **__: pytest.fail("nobody asked"))
    mlirfuse.compile(torch.nn.Tanh(), (torch.ones(8, 32),), cache=False)
