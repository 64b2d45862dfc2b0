import itertools
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mlirfuse
from mlirfuse.core import Decision, ImportFailedError, MlirfuseError, Report, UsageError

PROGRAM = """
#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @main(%x: tensor<8x16xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %b = tensor.empty() : tensor<8x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  %t = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<8x16xf32>) outs(%b : tensor<8x16xf32>) {
  ^bb0(%a: f32, %u: f32):
    %y = math.tanh %a : f32
    linalg.yield %y : f32
  } -> tensor<8x16xf32>
  %s = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%t : tensor<8x16xf32>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f32, %c: f32):
    %y = arith.addf %a, %c : f32
    linalg.yield %y : f32
  } -> tensor<8xf32>
  return %s : tensor<8xf32>
}
"""
X = np.linspace(-1, 1, 128, dtype=np.float32).reshape(8, 16)
ROOT = Path(__file__).parents[2]

PASS = "reduction_fusion"


@pytest.fixture(autouse=True)
def plain(monkeypatch, tmp_path):
    """No switches from outside, and a cache of this test's own."""
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("MLIRFUSE_CONFIG", "")
    monkeypatch.delenv("MLIRFUSE_FLAGS", raising=False)


@pytest.fixture(scope="module")
def torch_model():
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(16, 16)
            self.norm = torch.nn.LayerNorm(16)

        def forward(self, x, scale):
            y = self.norm(x + self.linear(x))
            return {"y": y, "more": (y * scale,)}

    torch.manual_seed(0)
    return Model().eval()


# --- the package ---------------------------------------------------------------------------------


def test_importing_the_package_is_cheap():
    code = (
        "import sys, mlirfuse; mlirfuse.options; mlirfuse.UsageError;"
        "print([m for m in ('numpy', 'iree.compiler', 'iree.runtime', 'torch', 'jax', 'rich',"
        " 'mlirfuse.api') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_public_name_is_there():
    for name in mlirfuse.__all__:
        assert getattr(mlirfuse, name) is not None
    assert dir(mlirfuse) == sorted(mlirfuse.__all__)
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", mlirfuse.__version__)
    with pytest.raises(AttributeError, match="has no attribute 'fusion'"):
        _ = mlirfuse.fusion


def test_options_is_the_function_whatever_was_imported_before():
    import mlirfuse.options

    with mlirfuse.options(numerics="exact"):
        assert mlirfuse.FusionOptions.resolve().numerics == "exact"
    assert mlirfuse.FusionOptions.resolve().numerics == "reassociating"


# --- compile -------------------------------------------------------------------------------------


def test_compile():
    program = mlirfuse.compile(PROGRAM, count_stock=True)
    np.testing.assert_allclose(program(X), np.tanh(X).sum(1), rtol=1e-5)
    assert program.report.counts() == {PASS: 1}
    assert program.report.dispatches == {"stock": 1, "fused": 1, "kernels": 0}
    assert program.report.coverage == (0, 1)
    assert len(program.report.left) == 1
    assert PASS in program.explain()
    assert str(program.inputs[0]) == "8x16xf32"


def test_stock():
    program = mlirfuse.compile(PROGRAM, stock=True)
    np.testing.assert_allclose(program(X), np.tanh(X).sum(1), rtol=1e-5)
    assert (program.report.passes, program.report.decisions) == ([], [])
    assert program.report.dispatches == {"stock": 1, "fused": None}


def test_a_normalized_module_continues_where_it_is(tmp_path):
    from mlirfuse import targets
    from mlirfuse.backend.compiler import Compiler

    source, normalized = tmp_path / "in.mlir", tmp_path / "normalized.mlirbc"
    source.write_text(PROGRAM)
    work = Compiler(targets.parse("cpu"), mlirfuse.FusionOptions())
    work.normalize(source, normalized, input_type="none")
    for stock in (False, True):
        program = mlirfuse.compile(normalized, stock=stock)
        np.testing.assert_allclose(program(X), np.tanh(X).sum(1), rtol=1e-5)


def test_a_torch_model_keeps_its_calling_convention(torch_model, tmp_path):
    import torch

    x, scale = torch.randn(4, 16), torch.tensor(3.0)
    want = torch_model(x, scale)
    program = mlirfuse.compile(torch_model, {"x": x, "scale": scale})
    path = tmp_path / "program.vmfb"
    program.save(path)
    loaded = mlirfuse.load(path)
    for got in (program(x=x, scale=scale), loaded(x=x, scale=scale), loaded(x, scale)):
        assert list(got) == ["y", "more"]
        assert isinstance(got["more"], tuple)
        torch.testing.assert_close(got["y"], want["y"])
        torch.testing.assert_close(got["more"][0], want["more"][0])
    with pytest.raises(mlirfuse.CallError, match=r"argument 'x' is 4x16xf64; expected 4x16xf32"):
        program(x=x.double(), scale=scale)
    assert {"add_layer_norm_fusion"} <= set(program.report.counts())


def test_a_torch_model_is_found_in_the_cache(torch_model):
    import torch

    inputs = (torch.randn(4, 16), torch.tensor(3.0))
    mlirfuse.compile(torch_model, inputs)
    cache = Path(mlirfuse.support.disk_cache.Cache.open().directory)
    before = sorted(cache.iterdir())
    mlirfuse.compile(torch_model, inputs)
    assert sorted(cache.iterdir()) == before


def test_text_is_found_in_the_cache():
    mlirfuse.compile(PROGRAM)
    cache = Path(mlirfuse.support.disk_cache.Cache.open().directory)
    before = sorted(cache.iterdir())
    report = mlirfuse.compile(PROGRAM).report
    assert sorted(cache.iterdir()) == before
    assert {place.partition(":")[0] for d in report.decisions for place in d.ops} == {"given.mlir"}


def test_a_jax_function():
    import jax.numpy as jnp

    program = mlirfuse.compile(lambda x: {"s": jnp.tanh(x).sum(1)}, (jnp.asarray(X),))
    got = program(jnp.asarray(X))
    np.testing.assert_allclose(got["s"], np.tanh(X).sum(1), rtol=1e-5)
    assert type(got["s"]) is type(jnp.asarray(X))


@pytest.mark.parametrize(
    "given",
    [
        {"disable_pass": [PASS]},
        {"options": {"disable_pass": [PASS]}},
        {"options": mlirfuse.FusionOptions(disable_pass=(PASS,))},
        {"pipeline": "none"},
    ],
)
def test_ways_to_switch(given):
    assert mlirfuse.compile(PROGRAM, cache=False, **given).report.counts() == {}


def test_switches_of_a_scope_and_of_the_environment(monkeypatch):
    with mlirfuse.options(disable_pass=[PASS]):
        assert mlirfuse.fuse(PROGRAM)[1].counts() == {}
        assert mlirfuse.fuse(PROGRAM, enable_pass=[PASS])[1].counts() == {PASS: 1}
    assert mlirfuse.fuse(PROGRAM)[1].counts() == {PASS: 1}
    monkeypatch.setenv("MLIRFUSE_FLAGS", f"--disable_pass={PASS}")
    assert mlirfuse.fuse(PROGRAM)[1].counts() == {}


def refusal(kind, call, *args, **kwargs):
    with pytest.raises(MlirfuseError) as caught:
        call(*args, **kwargs)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "start"),
    [
        ({"target": "gpu"}, "unknown target 'gpu'"),
        ({"disable_pass": "norm"}, "--disable-pass: unknown pass 'norm'"),
        ({"disable_passes": PASS}, "unknown switch 'disable_passes'; did you mean 'disable_pass'?"),
        ({"options": {}, "numerics": "any"}, "options= and numerics= are both given"),
        ({"disable_feature": "fma"}, "--disable-feature=fma is not available for target cpu"),
        ({"function": "other"}, "<MLIR>: the module has no function 'other'"),
    ],
)
def test_wrong_requests(given, start):
    message = refusal(UsageError, mlirfuse.compile, PROGRAM, **given)
    assert message.startswith(start)


def test_a_wrong_request_is_refused_before_the_model_is_read():
    for given in (
        {"target": "gpu"},
        {"disable_feature": "fma"},
        {"pipeline": "x", "numerics": "y"},
    ):
        assert "missing" not in refusal(UsageError, mlirfuse.compile, "missing.mlir", **given)


def test_a_missing_model():
    message = refusal(UsageError, mlirfuse.compile, "missing.mlir")
    assert message.startswith("cannot read missing.mlir: No such file or directory")


# --- fuse ----------------------------------------------------------------------------------------


def test_fuse_takes_text_bytes_a_path_and_a_module(tmp_path):
    from iree.compiler import ir

    path = tmp_path / "model.mlir"
    path.write_text(PROGRAM)
    for given in (PROGRAM, PROGRAM.encode(), path, str(path)):
        module, report = mlirfuse.fuse(given)
        assert f'mlirfuse.pass = "{PASS}"' in str(module)
        assert report.counts() == {PASS: 1}
    with ir.Context():
        module = ir.Module.parse(PROGRAM)
        before = str(module)
        fused, report = mlirfuse.fuse(module, target="cuda:sm_90", numerics="any")
        assert str(module) == before
        assert fused.context is module.context or fused.context == module.context
        assert report.target == "cuda:sm_90"
        assert report.options["numerics"] == "any"


def test_fuse_refuses_in_one_line(tmp_path):
    path = tmp_path / "model.mlir"
    path.write_text("func.func @main( {\n}\n")
    assert refusal(ImportFailedError, mlirfuse.fuse, path) == (
        f"{path}:1:17: expected non-function type"
    )
    message = refusal(ImportFailedError, mlirfuse.fuse, "func.func @main( {\n}\n")
    assert message == "<text>:1:17: expected non-function type"
    refusal(ImportFailedError, mlirfuse.fuse, b"ML\xefR damaged")
    assert refusal(UsageError, mlirfuse.fuse, tmp_path / "no").endswith("No such file or directory")
    assert "unknown target" in refusal(UsageError, mlirfuse.fuse, PROGRAM, target="tpu")


def test_candidates_are_decisions_taken_or_not():
    taken = mlirfuse.candidates(PROGRAM)
    refused = mlirfuse.candidates(PROGRAM, disable_pass=[PASS])
    assert all(isinstance(c.decision, Decision) for c in taken + refused)
    assert [c.rank for c in taken] == list(range(1, len(taken) + 1))
    gains = [c.decision.gain_us for c in taken]
    assert [c.margin_us for c in taken[:-1]] == [
        pytest.approx(a - b, abs=1e-3) for a, b in itertools.pairwise(gains)
    ]
    assert taken[-1].margin_us is None
    assert PASS in {c.decision.pass_name for c in taken if c.decision.taken}
    assert PASS in {c.decision.pass_name for c in refused if not c.decision.taken}


def test_fuse_needs_no_context_around_it():
    """Passes make attributes: of a convolution's filter, whose layout is changed."""
    file = ROOT / "lit_tests" / "patterns" / "filter_layout_rewrite.mlir"
    text = file.read_text(encoding="utf-8").split("// -----")[0]
    switches = {"pipeline": "filter_layout_rewrite", "enable_feature": ["kernels"]}
    _, report = mlirfuse.fuse(text, target="cuda:sm_90", **switches)
    assert report.counts()["filter_layout_rewrite"] >= 1


def test_list_passes():
    entries = mlirfuse.list_passes()
    assert PASS in [entry["name"] for entry in entries]
    assert set(entries[0]) == {
        *("name", "aliases", "summary", "numerics", "targets", "default", "options")
    }


def test_reports_are_reports():
    assert isinstance(mlirfuse.fuse(PROGRAM)[1], Report)
    assert isinstance(mlirfuse.compile(PROGRAM, cache=False).report, Report)
