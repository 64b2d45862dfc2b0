"""A performance engineer's questions, asked of real models.

"Why are these two layers two kernels" is asked of all models on all targets in
tests/models/test_boundaries_of_models.py.
"""

import json
import re
from pathlib import Path

import pytest
import torch
import transformers
from torch import nn

import mlirfuse
from helpers import trace_events
from helpers.models import records
from mlirfuse import torch_compile
from mlirfuse.benchmarking import verdict
from mlirfuse.tools import bench, profile
from mlirfuse.torch_backend import reports

ROOT = Path(__file__).parents[2]

MODELS = f"""
import sys
sys.path[:0] = {[str(ROOT), str(ROOT / "tests")]!r}  # the sides of a race are other processes
from helpers.models import records

def block():
    return records.build("bert_block")

def overflowing():
    model, inputs = block()
    model.layer.output.LayerNorm.weight.data[3] = float("inf")
    model.layer.output.LayerNorm.bias.data[3] = -float("inf")
    return model, inputs
"""


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("MLIRFUSE_FLAGS", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path(f"{tmp_path.name.replace('-', '_')}_zoo.py").write_text(MODELS)


@pytest.fixture
def module(tmp_path):
    """Name of a module with the models above."""
    return f"{tmp_path.name.replace('-', '_')}_zoo"


@pytest.fixture(params=["cpu", "vulkan"])
def target(request):
    """The targets whose programs this machine can run."""
    return "cpu" if request.param == "cpu" else request.getfixturevalue("vulkan")


@pytest.mark.parametrize("name", ["bert_block", "mobilenet_v3"])
def test_what_is_my_slowest_kernel_and_how_far_from_the_limit(name, target):
    program = mlirfuse.compile(records.imported(name)[0], target=target)
    found = program.profile(calls=3)
    first = found.kernels[0]
    assert first.median_us == max(kernel.median_us for kernel in found.kernels)
    assert {kernel.name for kernel in found.kernels} == {kernel.name for kernel in program.kernels}
    assert first.bound in ("memory", "compute", "launch")
    limit = first.copy_share if first.bound == "memory" else first.peak_share
    assert limit is not None or first.bound == "launch"
    assert first.layers
    assert first.name in found.text(top=1)
    trace_events.check(found.trace())


def test_which_kernel_makes_the_nan(module, target, capsys):
    """The layer is named: of two layer norms of one class it is the second."""
    assert profile.main([f"{module}:overflowing", "--sync", f"--target={target}"]) == 1
    line = capsys.readouterr().out.splitlines()[0]
    assert re.search(r" is the first to give \d+ NaN in 32x64; it computes ", line)
    assert "layer.output.LayerNorm" in line
    assert "attention.output.LayerNorm" not in line
    assert profile.main([f"{module}:block", "--sync", f"--target={target}"]) == 0


def test_is_fused_faster_than_stock_here_surely(module, capsys):
    """The verdict is one of three, and the first two only where the interval is past the noise."""
    words = [f"{module}:block", "--against=stock", "--seconds=0.5", "--threads=1", "--json"]
    assert bench.main(words) == 0
    found = json.loads(capsys.readouterr().out)
    stock = found["sides"]["stock"]
    low, high = stock["interval"]
    assert low <= stock["ratio"] <= high
    sure = {
        verdict.FASTER: low > found["noise"],
        verdict.SLOWER: high < 1 / found["noise"],
        verdict.NO_DIFFERENCE: low <= found["noise"] and high >= 1 / found["noise"],
    }
    assert sure[stock["verdict"]]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_what_did_torch_compile_leave_to_pytorch(monkeypatch):
    """A language model that draws its next token: the drawing is named with its line."""
    monkeypatch.setattr(torch_compile, "_warned", set())
    reports._reports.clear()
    torch._dynamo.reset()
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=100, n_positions=32, n_embd=32, n_layer=1, n_head=2, use_cache=False
    )
    model = transformers.GPT2Model(config).eval()
    head = nn.Linear(32, 100, bias=False)

    def step(tokens):
        scores = head(model(tokens).last_hidden_state[:, -1])
        return torch.multinomial(torch.softmax(scores, -1), 1)

    with torch.no_grad():
        token = torch.compile(step, backend="mlirfuse")(torch.randint(100, (1, 8)))
    assert token.shape == (1, 1)
    (report,) = mlirfuse.torch_reports()
    assert report.kernels
    (left,) = report.left
    assert "multinomial" in str(left)
    assert f"left to PyTorch (1 of {report.ops} ops)" in report.explain()
    assert f"({__file__}:" in report.explain()
