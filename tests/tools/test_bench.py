"""`mlirfuse-bench` times a model beside other systems, and names those that it cannot time."""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from helpers import planted
from mlirfuse.benchmarking import sides, verdict
from mlirfuse.benchmarking.sides import CONTROL, OURS, SIDES, agreement, models, race, worker
from mlirfuse.benchmarking.timing import Samples
from mlirfuse.core import CompileFailedError, UsageError
from mlirfuse.targets import parse
from mlirfuse.tools import bench
from mlirfuse.tools.bench import main

ONNX_MODEL = """
<ir_version: 8, opset_import: ["": 17]>
net (float[4, 8] x) => (float[4, 8] y) { e = Exp(x) y = Add(e, x) }
"""

MODULE = """
import torch

def linear():
    module = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU())
    return module.eval(), (torch.randn(4, 16),)

def keywords():
    class Both(torch.nn.Module):
        def forward(self, pair, scale=1.0):
            return {"sum": pair["a"] + pair["b"] * scale, "product": pair["a"] * pair["b"]}
    pair = {"a": torch.randn(4), "b": torch.randn(4)}
    return Both(), {"pair": pair, "scale": 2.0}

def drifting():
    import time
    module = torch.nn.Linear(4, 4)
    with torch.no_grad():
        module.weight.fill_(time.time() % 100)
    return module, (torch.ones(2, 4),)

def jax_function():
    import jax, jax.numpy as jnp
    shape = jax.ShapeDtypeStruct((4, 8), "float32")
    return (lambda x, y: jnp.maximum(x, 0.0) + y), (shape, jnp.ones(8))
"""


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLIRFUSE_FLAGS", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("bench_models.py").write_text(MODULE)
    yield
    sys.modules.pop("bench_models", None)


def run(words, capsys):
    """The exit code, and the JSON document."""
    code = main([*words, "--seconds=0.1", "--threads=1", "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_model_of_pytorch_beside_all_systems(capsys):
    code, found = run(["bench_models:linear"], capsys)
    assert code == 0
    assert list(found["sides"]) == [OURS, *SIDES, CONTROL]
    assert found["rounds"] >= 12
    assert found["noise"] >= 1.02
    assert found["threads"] == 1
    for name in ("stock", "eager", "inductor", "ort", "openvino"):
        side = found["sides"][name]
        if "said" in side:  # without a compiler for C++, or without the package
            assert side["said"]
            continue
        assert side["ms"] >= side["min_ms"] > 0
        assert side["verdict"] in (verdict.FASTER, verdict.SLOWER, verdict.NO_DIFFERENCE)
        low, high = side["interval"]
        assert low <= side["ratio"] <= high
        assert side["version"]
    assert "verdict" in found["sides"]["stock"]
    assert "verdict" in found["sides"]["eager"]
    assert found["sides"]["xla"] == {"said": "takes models of JAX; this one is of PyTorch"}
    assert found["sides"][OURS]["dispatches"] >= 1


def test_a_model_of_onnx(capsys):
    onnx.save(onnx.parser.parse_model(ONNX_MODEL), "model.onnx")
    code, found = run(["model.onnx", "--against=stock,ort,eager", "--input=4x8xf32=0.5"], capsys)
    assert code == 0
    ort = found["sides"]["ort"]
    assert "verdict" in ort or "needs onnxruntime" in ort["said"]
    assert "this one is of ONNX" in found["sides"]["eager"]["said"]


def test_a_function_of_jax(capsys):
    code, found = run(["bench_models:jax_function", "--against=xla,stock"], capsys)
    assert code == 0
    assert "verdict" in found["sides"]["xla"]


def test_the_table(capsys):
    Path("model.mlir").write_text(planted.model(1))
    words = ["model.mlir", "--against=stock,ort", "--seconds=0.1", "--threads=1"]
    assert main([*words, "--pipeline=none"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("model.mlir on cpu, 1 thread: ")
    assert [line.split()[0] for line in lines[2:5]] == ["ours", "stock", "ort"]
    reason = "takes models of PyTorch and ONNX; this one is of MLIR"
    assert lines[4].endswith(reason) or "needs onnxruntime" in lines[4]
    assert "the same program in another process" in lines[5]
    assert lines[6].startswith("noise: ratios from 0.")


def test_no_other_side_is_an_error(capsys):
    Path("model.mlir").write_text(planted.model(1))
    assert main(["model.mlir", "--against=eager", "--seconds=0.1"]) == 1
    captured = capsys.readouterr()
    assert "takes models of PyTorch" in captured.out
    assert captured.err.splitlines()[-1].endswith("error: no other side ran")


def test_a_model_of_other_weights_in_each_process_is_not_timed(capsys):
    words = ["bench_models:drifting", "--against=stock", "--seconds=0.1", "--threads=1"]
    assert main(words) == 1
    assert "ours is not timed: its results differ from those of stock" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        ([], "MODEL is missing"),
        (["absent.onnx"], "cannot read absent.onnx"),
        (["model.mlir", "--against=ortt"], "unknown side 'ortt'; did you mean 'ort'?"),
        (["model.mlir", "--against=,"], "--against names no side"),
        (["model.mlir", "--threads=0"], "--threads takes a number from 1, not '0'"),
        (["model.mlir", "--seconds=never"], "--seconds takes seconds above 0, not 'never'"),
        (["model.mlir", "--target=tpu"], "'tpu'"),
        (["model.mlir", "--input=4xf99"], "unknown element type 'f99'"),
    ],
)
def test_wrong_usage(words, fragment, capsys):
    Path("model.mlir").write_text(planted.model(1))
    assert main(words) == 2
    assert fragment in capsys.readouterr().err


def test_a_model_that_does_not_compile_says_why(capsys):
    Path("model.mlir").write_text("func.func @main( {")
    assert main(["model.mlir", "--against=stock"]) == 1
    assert "(ours does not run)" in capsys.readouterr().err


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert race.lacking("ort") == "needs onnxruntime: pip install 'mlirfuse[bench]'"
    assert race.lacking("xla") == "needs jax: pip install 'mlirfuse[jax]'"
    assert race.lacking("stock") is None


@pytest.mark.parametrize(
    ("side", "target", "message"),
    [
        ("openvino", "cuda", "runs on cpu alone, not on cuda"),
        ("eager", "vulkan", "runs on cpu, cuda, rocm alone, not on vulkan"),
        ("eager", "cpu", None),
    ],
)
def test_a_side_without_the_device_says_so(side, target, message):
    assert sides.unsuited(side, "torch", target) == message


def test_a_package_that_would_not_help_is_not_asked_for(monkeypatch, capsys):
    """PyTorch runs no MLIR, installed or not."""
    Path("model.mlir").write_text(planted.model(1))
    monkeypatch.setattr(race, "lacking", lambda name: f"needs the package of {name}")
    _, found = run(["model.mlir", "--against=stock,eager"], capsys)
    assert found["sides"]["stock"] == {"said": "needs the package of stock"}
    assert found["sides"]["eager"] == {"said": "takes models of PyTorch; this one is of MLIR"}


def test_arguments_keep_the_structure_of_the_example():
    model = models.open_model("bench_models:keywords")
    flat = [np.full(4, 3.0, np.float32), np.full(4, 5.0, np.float32)]
    args, kwargs = model.call_arguments(flat)
    assert args == ()
    assert kwargs["scale"] == 2.0
    assert kwargs["pair"]["b"].tolist() == [5.0] * 4
    results = models.tensors_of(model.kind, model.source(**kwargs))
    assert [r[0] for r in results] == [13.0, 15.0]
    with pytest.raises(UsageError, match="takes 1 tensors of the model's 2"):
        model.call_arguments(flat[:1])


def test_weights_are_the_same_in_every_process():
    def weight():
        return models.open_model("bench_models:linear").source[0].weight.detach().numpy()

    np.testing.assert_array_equal(weight(), weight())


def test_the_side_that_differs_from_most_is_named():
    right, wrong = [np.ones(4, np.float32)], [np.full(4, 1.1, np.float32)]
    close = [np.full(4, 1.0001, np.float32)]
    results = {"ours": right, "stock": wrong, "eager": close}
    reference, found = agreement.differing(results)
    assert reference == "eager"
    assert list(found) == ["stock"]
    assert found["stock"].error == pytest.approx(0.1, rel=1e-2)
    assert agreement.differing(results, tolerance=0.2)[1] == {}
    assert list(agreement.differing({"ours": wrong, "stock": right})[1]) == ["ours"]


def test_results_of_another_kind_differ():
    one = [np.ones(4, np.float32)]
    assert not agreement.distance(one, [*one, *one]).ok
    assert not agreement.distance(one, [np.ones(5, np.float32)]).ok
    assert not agreement.distance([np.array([1])], [np.array([2])]).ok
    assert not agreement.distance(one, [np.full(4, np.nan, np.float32)]).ok
    nan = [np.full(4, np.nan, np.float32)]
    assert agreement.distance(nan, nan).ok
    # The coarser type of the two decides.
    half = [np.full(4, 1.01, np.float16)]
    assert agreement.distance(half, one).ok
    # A later result with an error inside its tolerance does not hide the wrong one.
    mixed = agreement.distance([np.full(4, 1.01, np.float32), *half], [*one, *one])
    assert not mixed.ok


def test_a_side_that_ends_early_leaves_the_others_compared():
    seconds = {"ours": [1.0] * 6, "stock": [2.0] * 6}
    facts = {"ours": {}, "stock": {}, "ours again": {"said": "its process ended with -9"}}
    work = race.Work(model="m", target=parse("cpu"), threads=1, seconds=1.0, options={})
    found = race._judged(work, 0.0, Samples(seconds), facts)
    assert found.comparisons["stock"].noise == 1.02
    assert "its process ended with -9" in bench._text(found)
    with pytest.raises(Exception, match="ours does not run: ended"):
        race._judged(work, 0.0, Samples({"stock": [1.0]}), {"ours": {"said": "ended"}})


def test_messages_name_no_folder():
    text = worker.said(ValueError("in /home/me/model.onnx:3: " + "x" * 500))
    assert text.startswith("ValueError: in model.onnx:3: xxx")
    assert len(text) == worker.MESSAGE_CHARS
    assert worker.said(CompileFailedError("refused", stage="codegen")) == "refused"
