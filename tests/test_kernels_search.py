"""Tiles of kernels: chosen by size, searched, kept for one target and version."""

import importlib.util
import json

import pytest
from iree.compiler import ir
from linalg_text import Function
from norm_text import layer_norm

from mlirfuse import targets
from mlirfuse.core import Reason
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.configs.measured import MEASURED, Beside
from mlirfuse.kernels.plan import Key, Plan, Program
from mlirfuse.kernels.reduction import planner as reduction
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.structured.ir import ops
from mlirfuse.targets import tilings
from mlirfuse.targets.base import Tuned
from mlirfuse.tools.tune import main
from mlirfuse.tuning import kernel_search, kernel_timing, problems

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed"
)
SM_90 = "cuda:sm_90"
FOUND = Tuned("matmul", "16 bits, k inside, k inside", (96, 80, 64, 1), (64, 64, 32, 4, 2, 8), 3.5)


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    path = tmp_path / "data" / "tiles.json"
    monkeypatch.setenv(tilings.VARIABLE, str(path))
    return path


def key(*sizes, form=FOUND.form):
    return Key("matmul", form, sizes)


def test_stored_tiles_are_those_of_the_target_and_version(file):
    assert tilings.store(targets.parse(SM_90), [FOUND]) == file
    tilings.store(targets.parse(SM_90), [Tuned("attention", "open", (1, 2, 3, 4), (64, 64), 1.0)])
    target = targets.parse(SM_90)
    assert target.tuned[0] == FOUND
    assert len(target.tuned) == 2
    assert targets.parse("cuda:sm_80").tuned == ()
    entries = json.loads(file.read_text())
    entries[SM_90]["versions"] = "triton 0, iree 0"
    file.write_text(json.dumps(entries))
    assert targets.parse(SM_90).tuned == ()


def test_tiles_can_be_off_and_forgotten(monkeypatch, capsys):
    tilings.store(targets.parse(SM_90), [FOUND])
    with monkeypatch.context() as patch:
        patch.setenv(tilings.VARIABLE, "off")
        assert targets.parse(SM_90).tuned == ()
    monkeypatch.setenv("MLIRFUSE_RATES", str(tilings.path()) + ".rates")
    assert main(["--reset", f"--target={SM_90}"]) == 0
    assert "cuda:sm_90 has its built-in tiles again" in capsys.readouterr().out
    assert targets.parse(SM_90).tuned == ()


@pytest.mark.parametrize("text", ["{", "[]", '{"cuda:sm_90": {}}', '{"a": {"versions": ""}}'])
def test_a_damaged_file_is_an_error(file, text, capsys):
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert main(["--show", f"--target={SM_90}"]) == 2
    assert "holds no measured tiles; remove it" in capsys.readouterr().err


def test_the_nearest_measurement_counts():
    tilings.store(targets.parse(SM_90), [FOUND])
    target = targets.parse(SM_90)
    assert lookup.tiling(target, key(96, 80, 64, 1)) == FOUND.tiling
    assert lookup.tiling(target, key(190, 40, 64, 1)) == FOUND.tiling
    assert lookup.tiling(target, key(3000000, 80, 64, 1)) is None
    assert lookup.tiling(target, Key("attention", "", (96, 80, 64, 1))) is None
    assert lookup.tiling(target, key(96, 160, 128, 1, form="other")) == FOUND.tiling
    assert lookup.tiling(target, key(96, 320, 128, 1, form="other")) is None


def test_built_in_tiles_are_candidates():
    """What was measured is what a search would measure again."""
    kinds = kernel_search.KINDS
    for table in MEASURED.values():
        for entry in table:
            tried = kinds[entry.kind].candidates(Key(entry.kind, entry.form, entry.sizes))
            assert type(tried[0])(*entry.tiling) in tried, entry


def test_each_common_shape_has_a_plan():
    target = targets.parse(SM_90)
    with ir.Context():
        keys = []
        for module in problems.modules():
            assert module.operation.verify()
            (function,) = ops.functions(module)
            regions = [o for b in ops.blocks(function) for o in b.operations]
            region = next(r.operation for r in regions if r.operation.name == ops.REGION)
            plans = [
                kind.supports(region, target)
                for kind in dict.fromkeys(kernel_search.KINDS.values())
            ]
            (plan,) = [plan for plan in plans if isinstance(plan, Plan)]
            keys.append(plan.key)
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("form", "sizes", "target", "kept"),
    [
        ("arith.addf arith.addf, 1 read, 1 written", (16384, 4096), SM_90, True),
        ("arith.addf arith.addf, 1 read, 1 written", (8192, 2048), SM_90, True),
        ("arith.addf arith.addf, 1 read, 1 written", (16, 64), SM_90, False),
        ("arith.addf arith.addf, 1 read, 1 written", (16384, 4096), "cuda:sm_80", False),
        ("arith.addf, 1 read, 1 written", (16384, 4096), SM_90, False),
        ("arith.addf arith.addf, 2 read, 1 written", (16384, 4096), SM_90, False),
    ],
)
def test_iree_keeps_what_it_computes_as_fast(monkeypatch, form, sizes, target, kept):
    """A layer norm alone, near the sizes that were measured."""
    norm = Beside("arith.addf arith.addf, 1 read, 1 written", (16384, 4096), 69, 70)
    monkeypatch.setattr(lookup, "BESIDE", {SM_90: (norm,)})
    program = Program("row_kernel", "", (), 4, 1)
    plan = Plan(program, (), (), (), key=Key("rows", form, sizes))
    refusal = reduction.profitable(plan, targets.parse(target))
    assert (refusal is not None) == kept
    if refusal is not None:
        assert refusal.reason is Reason.NOT_PROFITABLE
        assert "IREE's code took 69 us where a kernel took 70 (16384x4096" in refusal.detail


def test_a_layer_norm_is_of_a_measured_form():
    """Whose code by IREE was slower, so that it has a kernel."""
    f = Function("main", (16384, 4096))
    x, g = f.argument((0, 1), "f16"), f.argument((1,), "f16")
    text = f.finish(layer_norm(f, x, (1,), g, f.argument((1,), "f16"), "f32"))
    with ir.Context():
        options = FusionOptions(enable_feature=("kernels",), disable_pass=("row_triton_kernel",))
        grouped, _ = engine.run(ir.Module.parse(text), target=targets.parse(SM_90), options=options)
        (region,) = kernel_search.regions(grouped)
        plan = reduction.supports(region, targets.parse(SM_90))
    found = lookup.beside(targets.parse(SM_90), plan.key)
    assert found.sizes == plan.key.sizes == (16384, 4096)
    assert found.iree_us > found.kernel_us
    assert plan.program.warps == 8


GROUP = """
util.func public @main(%a: tensor<?x64xf16>, %b: tensor<64x64xf16>, %n: index) -> tensor<?x64xf32> {
  %zero = arith.constant 0.0 : f32
  %y = flow.dispatch.region -> (tensor<?x64xf32>{%n}) {
    %sums = tensor.empty(%n) : tensor<?x64xf32>
    %start = linalg.fill ins(%zero : f32) outs(%sums : tensor<?x64xf32>) -> tensor<?x64xf32>
    %total = linalg.matmul ins(%a, %b : tensor<?x64xf16>, tensor<64x64xf16>)
        outs(%start : tensor<?x64xf32>) -> tensor<?x64xf32>
    flow.return %total : tensor<?x64xf32>
  }
  util.return %y : tensor<?x64xf32>
}
"""


@needs_triton
def test_candidates_are_built_for_another_machine(tmp_path, monkeypatch):
    target = targets.parse(SM_90)
    tried = kernel_search.KINDS["matmul"].candidates
    monkeypatch.setattr(kernel_search.KINDS["matmul"], "candidates", lambda key: tried(key)[:2])
    with ir.Context():
        assert kernel_search.build([ir.Module.parse(GROUP)], target, tmp_path) == 2
    jobs = json.loads((tmp_path / "jobs.json").read_text())
    assert [job["key"]["sizes"] for job in jobs] == [[kernel_search.ROWS, 64, 64, 1]] * 2
    job = jobs[0]
    assert job["operands"] == [[kernel_search.ROWS * 64, "f16"], [64 * 64, "f16"]]
    assert job["results"] == [[kernel_search.ROWS * 64, "f32"]]
    assert (job["grid"], job["told"]) == ([8, 1, 1], [kernel_search.ROWS])
    assert b".entry matmul_kernel" in (tmp_path / job["object"]).read_bytes()
    assert (tmp_path / "measure.py").exists()


def test_measurements_of_another_machine_are_kept(tmp_path, capsys):
    of = {"kind": FOUND.kind, "form": FOUND.form, "sizes": list(FOUND.sizes)}
    jobs = [
        {"key": of, "tiling": [64, 128, 32, 4, 2, 8], "us": 4.0},
        {"key": of, "tiling": list(FOUND.tiling), "us": 3.5},
        {"key": of, "tiling": [16, 16, 16, 4, 2, 8], "refused": "results that differ by 1"},
    ]
    (tmp_path / "measured.json").write_text(json.dumps(jobs))
    assert main([f"--measured={tmp_path / 'measured.json'}", f"--target={SM_90}"]) == 0
    assert targets.parse(SM_90).tuned == (FOUND,)
    assert "96x80x64x1" in capsys.readouterr().out
    (tmp_path / "measured.json").write_text("[1]")
    assert main([f"--measured={tmp_path / 'measured.json'}"]) == 2
    assert "is not a result of measure.py" in capsys.readouterr().err


def test_wrong_usage(capsys):
    assert main(["--kernels", "--show"]) == 2
    assert main(["--show", "model.mlir"]) == 2
    assert "--folder with --kernels" in capsys.readouterr().err
    assert main(["--kernels", "--target=cpu"]) == 2
    assert "no kernels are built for cpu" in capsys.readouterr().err


def test_no_driver(tmp_path, monkeypatch):
    def missing(name):
        raise OSError

    monkeypatch.setattr(kernel_timing.ctypes, "CDLL", missing)
    with pytest.raises(kernel_timing.DeviceError, match="no CUDA driver"):
        kernel_timing.measured(tmp_path)
