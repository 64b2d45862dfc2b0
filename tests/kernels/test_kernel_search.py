"""Kernel configurations: chosen by problem, searched, kept for one target and version."""

import dataclasses
import importlib
import importlib.util
import json
import re
from importlib import resources
from pathlib import Path
from typing import get_type_hints

import pytest
from iree.compiler import ir

import mlirfuse
from helpers.linalg_text import Function
from helpers.norm_text import layer_norm
from mlirfuse import targets
from mlirfuse.core import Reason
from mlirfuse.kernels.attention.problem import AttentionConfig, AttentionProblem
from mlirfuse.kernels.configs import lookup
from mlirfuse.kernels.configs.lookup import Baseline
from mlirfuse.kernels.matmul.family import MATMUL
from mlirfuse.kernels.matmul.problem import MatmulConfig, MatmulProblem
from mlirfuse.kernels.plan import Kernel, Plan, Program
from mlirfuse.kernels.problem import Problem, Record
from mlirfuse.kernels.reduction import family as reduction
from mlirfuse.kernels.reduction.problem import ReductionProblem
from mlirfuse.kernels.registry import FAMILIES, FAMILY_OF_ENTRY
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.structured.ir import ops
from mlirfuse.targets import kernel_configs
from mlirfuse.targets.base import MeasuredConfig
from mlirfuse.tools.tune import main
from mlirfuse.tuning import config_table, kernel_search, kernel_timing, problems

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed"
)
SM_90 = "cuda:sm_90"
PROBLEM = MatmulProblem(96, 80, 64, 1)
CONFIG = MatmulConfig(64, 64, 32, 4, 2)
FOUND = MeasuredConfig("matmul", PROBLEM.to_dict(), CONFIG.to_dict(), 3.5)


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    path = tmp_path / "data" / "configs.json"
    monkeypatch.setenv(kernel_configs.VARIABLE, str(path))
    return path


def nearest(problem, target=SM_90):
    found = lookup.nearest(targets.parse(target), problem, MatmulConfig)
    return None if found is None else found.config


def test_stored_configurations_are_those_of_the_target_and_version(file):
    assert kernel_configs.store(targets.parse(SM_90), [FOUND]) == file
    other = MeasuredConfig("attention", {"queries": 1}, {"block_m": 64}, 1.0)
    kernel_configs.store(targets.parse(SM_90), [other])
    target = targets.parse(SM_90)
    assert target.measured == (FOUND, other)
    assert targets.parse("cuda:sm_80").measured == ()
    entries = json.loads(file.read_text())
    entries[SM_90]["versions"] = "triton 0, iree 0"
    file.write_text(json.dumps(entries))
    assert targets.parse(SM_90).measured == ()


def test_near_a_problem_whose_computed_configuration_is_best_no_farther_entry_counts():
    near = dataclasses.replace(PROBLEM, m=PROBLEM.m + 1)
    kernel_configs.store(targets.parse(SM_90), [FOUND])
    assert nearest(near) == CONFIG
    computed = dataclasses.replace(FOUND, problem=near.to_dict(), config=None)
    kernel_configs.store(targets.parse(SM_90), [computed])
    assert nearest(near) is None
    assert nearest(PROBLEM) == CONFIG


def test_a_later_measurement_of_a_problem_replaces_the_earlier_one():
    kernel_configs.store(targets.parse(SM_90), [FOUND])
    again = dataclasses.replace(FOUND, us=3.0)
    kernel_configs.store(targets.parse(SM_90), [again])
    assert targets.parse(SM_90).measured == (again,)


def test_configurations_can_be_off_and_forgotten(monkeypatch, capsys):
    kernel_configs.store(targets.parse(SM_90), [FOUND])
    with monkeypatch.context() as patch:
        patch.setenv(kernel_configs.VARIABLE, "off")
        assert targets.parse(SM_90).measured == ()
    monkeypatch.setenv("MLIRFUSE_RATES", str(kernel_configs.path()) + ".rates")
    assert main(["--reset", f"--target={SM_90}"]) == 0
    assert "cuda:sm_90 has its built-in kernel configurations again" in capsys.readouterr().out
    assert targets.parse(SM_90).measured == ()


def test_the_old_name_of_the_variable_counts_with_a_warning(file, monkeypatch):
    kernel_configs.store(targets.parse(SM_90), [FOUND])
    monkeypatch.delenv(kernel_configs.VARIABLE)
    monkeypatch.setenv("MLIRFUSE_TILES", str(file))
    with pytest.warns(DeprecationWarning, match="MLIRFUSE_TILES is MLIRFUSE_KERNEL_CONFIGS now"):
        assert targets.parse(SM_90).measured == (FOUND,)


OLD = """{"cuda:sm_90": {"versions": "triton 3.9.0, iree 3.13", "tiles": [
    {"kind": "matmul", "form": "16 bits, k inside, k inside", "sizes": [96, 80, 64, 1],
     "tiling": [64, 64, 32, 4, 2, 8], "us": 3.5}]}}"""
WRONG_TYPE = json.dumps(
    {SM_90: {"versions": "", "configs": [dataclasses.asdict(FOUND) | {"us": "fast"}]}}
)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"cuda:sm_90": {}}', '{"a": {"versions": ""}}', OLD, WRONG_TYPE]
)
def test_a_damaged_file_and_one_of_version_0_1_are_errors(file, text, capsys):
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert main(["--show", f"--target={SM_90}"]) == 2
    assert "holds no kernel configurations of this version" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"block_q": 64}, "has no field 'block_q'"),
        ({"block_m": "64"}, "block_m is '64', not int"),
        ({"block_m": True}, "block_m is True, not int"),
        ({"block_m": 64}, "lacks 'block_n'"),
    ],
)
def test_a_configuration_is_read_by_name_or_refused(values, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        MatmulConfig.from_dict(values)


@pytest.mark.parametrize("problem", [PROBLEM, MatmulProblem(1, 2, 3, 4, weight_bits=4)])
def test_a_problem_survives_a_round_trip(problem):
    assert MatmulProblem.from_dict(problem.to_dict()) == problem


def test_the_nearest_measurement_counts():
    target = "cuda:sm_80"
    kernel_configs.store(targets.parse(target), [FOUND])
    assert nearest(PROBLEM, target) == CONFIG
    assert nearest(MatmulProblem(190, 40, 64, 1), target) == CONFIG
    assert nearest(MatmulProblem(3000000, 80, 64, 1), target) is None
    attention = AttentionProblem(96, 80, 64, 1)
    assert lookup.nearest(targets.parse(target), attention, AttentionConfig) is None
    assert nearest(MatmulProblem(96, 160, 128, 1, b_k_contiguous=False), target) == CONFIG
    assert nearest(MatmulProblem(96, 320, 128, 1, b_k_contiguous=False), target) is None


def test_user_measurements_join_the_built_in_entries():
    """The nearest wins, and of two as near the user's: one entry does not replace the table."""
    entries = [e for e in built_in(SM_90)["configs"] if e["family"] == "matmul" and e["config"]]
    exact = MatmulProblem.from_dict(entries[0]["problem"])
    tuned = dataclasses.replace(exact, m=8 * exact.m, n=exact.n // 2)
    measured = MatmulConfig.from_dict(entries[0]["config"])
    assert nearest(exact) == measured
    kernel_configs.store(
        targets.parse(SM_90), [dataclasses.replace(FOUND, problem=tuned.to_dict())]
    )
    assert nearest(exact) == measured
    assert nearest(tuned) == CONFIG
    kernel_configs.store(
        targets.parse(SM_90), [dataclasses.replace(FOUND, problem=exact.to_dict())]
    )
    assert nearest(exact) == CONFIG


def built_in(target):
    name = target.replace(":", "_") + ".json"
    text = resources.files("mlirfuse.kernels.configs").joinpath(name).read_text("utf-8")
    return json.loads(text)


def test_built_in_configurations_are_candidates():
    """A search would measure the recorded configurations again."""
    target = targets.parse(SM_90)
    for entry in built_in(SM_90)["configs"]:
        family = FAMILY_OF_ENTRY[entry["family"]]
        problem = family.problem_type.from_dict(entry["problem"])
        assert problem.family == entry["family"]
        if entry["config"] is not None:
            config = family.config_type.from_dict(entry["config"])
            assert config in family.configs(problem, target), entry


def test_every_folder_with_a_family_is_registered():
    kernels = Path(mlirfuse.__file__).parent / "kernels"
    assert {path.parent.name for path in kernels.glob("*/family.py")} == FAMILIES.keys()


@pytest.mark.parametrize("name", FAMILIES)
def test_families_agree_with_their_fields(name):
    family = FAMILIES[name]
    assert family.name == name
    assert issubclass(family.problem_type, Problem)
    assert issubclass(family.config_type, Record)
    written = importlib.import_module(f"mlirfuse.tuning.problem_modules.{name}").module_text
    assert get_type_hints(written) == {"problem": family.problem_type, "return": str}


def test_each_common_shape_has_a_plan():
    target = targets.parse(SM_90)
    with ir.Context():
        found = []
        for module in problems.modules():
            assert module.operation.verify()
            (function,) = ops.functions(module)
            regions = [o for b in ops.blocks(function) for o in b.operations]
            region = next(r.operation for r in regions if r.operation.name == ops.REGION)
            answers = [family.problem(region, target) for family in FAMILIES.values()]
            (problem,) = [answer for answer in answers if isinstance(answer, Problem)]
            found.append(problem)
    assert len(set(found)) == len(found)


LAYER_NORM = ReductionProblem(16384, 4096, "arith.addf arith.addf", 1, 1)


@pytest.mark.parametrize(
    ("problem", "target", "kept"),
    [
        (LAYER_NORM, SM_90, True),
        (dataclasses.replace(LAYER_NORM, rows=8192, columns=2048), SM_90, True),
        (dataclasses.replace(LAYER_NORM, rows=16, columns=64), SM_90, False),
        (LAYER_NORM, "cuda:sm_80", False),
        (dataclasses.replace(LAYER_NORM, combiners="arith.addf"), SM_90, False),
        (dataclasses.replace(LAYER_NORM, reads=2), SM_90, False),
    ],
)
def test_iree_keeps_regions_that_it_computes_as_fast(monkeypatch, problem, target, kept):
    """A layer norm alone, near the sizes that were measured."""
    norm = Baseline("reduction", LAYER_NORM.to_dict(), 69, 70, "a card")
    known = {SM_90: lookup._BuiltIn(baselines=(norm,))}
    monkeypatch.setattr(lookup, "_built_in", lambda name: known.get(name, lookup._BuiltIn()))
    plan = Plan(Program("row_kernel", "", (), 4, 1), (), (), (), problem=problem)
    refusal = reduction.profitable(plan, targets.parse(target))
    assert (refusal is not None) == kept
    if refusal is not None:
        assert refusal.reason is Reason.NOT_PROFITABLE
        assert "IREE's code took 69 us where a kernel took 70 (16384x4096" in refusal.detail
        assert "measured on a card)" in refusal.detail


def test_a_layer_norm_is_of_a_measured_form():
    """Whose code by IREE was slower, so that it has a kernel."""
    f = Function("main", (16384, 4096))
    x, g = f.argument((0, 1), "f16"), f.argument((1,), "f16")
    text = f.finish(layer_norm(f, x, (1,), g, f.argument((1,), "f16"), "f32"))
    with ir.Context():
        options = FusionOptions(enable_feature=("kernels",), disable_pass=("row_triton_kernel",))
        grouped, _ = engine.run(ir.Module.parse(text), target=targets.parse(SM_90), options=options)
        (region,) = kernel_search.regions(grouped)
        plan = reduction.REDUCTION.plan(region, targets.parse(SM_90))
    found = lookup.baseline(targets.parse(SM_90), plan.problem)
    assert found.problem == plan.problem.to_dict() == LAYER_NORM.to_dict()
    assert found.iree_us > found.kernel_us
    assert plan.program.num_warps == 8


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
    two = dataclasses.replace(MATMUL, configs=lambda *arguments: MATMUL.configs(*arguments)[:2])
    monkeypatch.setitem(FAMILIES, "matmul", two)
    with ir.Context():
        assert kernel_search.build([ir.Module.parse(GROUP)], target, tmp_path) == 2
    jobs = json.loads((tmp_path / "jobs.json").read_text())
    problem = MatmulProblem(kernel_search.ROWS, 64, 64, 1, b_k_contiguous=False)
    assert [job["problem"] for job in jobs] == [problem.to_dict()] * 2
    job = jobs[0]
    assert job["tensors"] == [[kernel_search.ROWS * 64, "f16"], [64 * 64, "f16"]]
    assert job["operands"] == [0, 1]
    assert job["results"] == [[kernel_search.ROWS * 64, "f32"]]
    assert (job["grid"], job["dynamic_sizes"]) == ([8, 1, 1], [kernel_search.ROWS])
    assert b".entry matmul_kernel" in (tmp_path / job["object"]).read_bytes()
    assert (tmp_path / "measure.py").exists()
    assert [job["default"] for job in jobs] == [True, False]
    default = FAMILIES["matmul"].default_config(problem, target)
    assert job["config"] == default.to_dict()
    assert job["versions"] == kernel_configs.version_numbers()


def test_kernels_of_a_problem_share_its_tensors(tmp_path, monkeypatch):
    """Each takes them in the order of its own arguments."""
    target, problem = targets.parse(SM_90), MatmulProblem(32, 64, 512, 1)
    tiled = MatmulConfig(block_m=32, block_n=32, block_k=64, num_warps=4, num_stages=2)
    split = dataclasses.replace(tiled, block_m=16, block_n=16, block_k=256, split_k=4)
    family = dataclasses.replace(MATMUL, configs=lambda *_: [tiled, split])
    monkeypatch.setitem(FAMILIES, "matmul", family)
    monkeypatch.setattr(kernel_search, "_object", lambda *_: Kernel(b"", (128, 1, 1), 0, "ptx"))
    with ir.Context():
        modules = [ir.Module.parse(problems.module_of(problem))]
        kernel_search.build(modules, target, tmp_path)
    jobs = json.loads((tmp_path / "jobs.json").read_text())
    sizes = [[job["tensors"][n][0] for n in job["operands"]] for job in jobs]
    assert len({json.dumps(job["tensors"]) for job in jobs}) == 1
    assert len({tuple(job["operands"]) for job in jobs}) == 2
    assert {tuple(sorted(found)) for found in sizes} == {(64, 32 * 512, 64 * 512)}


@pytest.mark.parametrize("problem", [*problems.COMMON], ids=lambda p: f"{p.family} {p}")
def test_the_default_is_a_candidate(problem):
    """First, and no other candidate is the same kernel."""
    target, family = targets.parse(SM_90), FAMILY_OF_ENTRY[problem.family]
    with ir.Context():
        module = ir.Module.parse(problems.module_of(problem))
        (region,) = kernel_search.regions(module)
        few = dataclasses.replace(FewConfigs(), family=family)
        found = kernel_search.candidates(few, problem, region, target)
        assert [candidate.default for candidate in found] == [True] + [False] * (len(found) - 1)
        assert found[0].config == family.default_config(problem, target)
        assert len({candidate.plan.program for candidate in found}) == len(found)


@dataclasses.dataclass
class FewConfigs:
    """A family with the first configurations alone, the default among them a second time."""

    family: object = None

    def default_config(self, problem, target):
        return self.family.default_config(problem, target)

    def configs(self, problem, target):
        return [*self.family.configs(problem, target)[:3], self.default_config(problem, target)]

    def plan(self, region, target, config):
        return self.family.plan(region, target, config)


def job_of(us, config=CONFIG, **more):
    problem = {"family": "matmul", "problem": PROBLEM.to_dict()}
    made = {"device": "H100", "versions": {"triton": "3"}, "default": False}
    return {**problem, "config": config.to_dict(), "us": us, **made, **more}


WIDER, DEFAULT = dataclasses.replace(CONFIG, block_n=128), dataclasses.replace(CONFIG, block_n=32)


@pytest.mark.parametrize(
    ("jobs", "kept"),
    [
        ([job_of(10.0, DEFAULT, default=True), job_of(9.7, WIDER)], WIDER),
        ([job_of(10.0, DEFAULT, default=True), job_of(9.71, WIDER)], None),
        ([job_of(10.0, DEFAULT, default=True), job_of(10.5, WIDER)], None),
        ([job_of(9.0), job_of(9.71, WIDER)], CONFIG),
        ([job_of(10.0), {**job_of(0.0, WIDER), "us": None} | {"refused": "NaN"}], CONFIG),
    ],
)
def test_an_entry_gains_over_the_default(jobs, kept):
    jobs = [{k: v for k, v in job.items() if v is not None} for job in jobs]
    found = kernel_search.best(jobs)
    assert [entry.config for entry in found] == [None if kept is None else kept.to_dict()]


def test_the_table_of_a_release_is_written(tmp_path, capsys):
    file, measured = tmp_path / "cuda_sm_90.json", tmp_path / "measured.json"
    other = dataclasses.replace(FOUND, problem=MatmulProblem(1, 2, 3, 4).to_dict())
    further = dataclasses.replace(FOUND, config=WIDER.to_dict(), us=4.0)
    entries = [dataclasses.asdict(entry) for entry in (FOUND, other, further)]
    file.write_text(json.dumps({"configs": entries, "baselines": [{"family": "matmul"}]}))
    assert config_table.problems(file) == [PROBLEM, MatmulProblem(1, 2, 3, 4)]

    def entries_after(*jobs):
        measured.write_text(json.dumps(jobs))
        assert main([f"--measured={measured}", f"--table={file}", f"--target={SM_90}"]) == 0
        return json.loads(file.read_text())

    slow = job_of(9.0, DEFAULT, default=True)
    table = entries_after(slow, job_of(3.0), job_of(5.0, WIDER))
    assert (table["device"], table["versions"]) == ("H100", {"triton": "3"})
    assert table["baselines"] == [{"family": "matmul"}]
    times = [(entry["config"]["block_n"], entry["us"]) for entry in table["configs"]]
    # The slower entry is for regions that cannot have the faster one.
    assert times == [(64, 3.0), (64, 3.5), (128, 5.0)]
    table = entries_after(slow, job_of(8.9), job_of(8.8, WIDER))
    found = [(entry["problem"], entry["config"]) for entry in table["configs"]]
    assert found == [(FOUND.problem, None), (other.problem, other.config)]
    output = capsys.readouterr().out
    assert "the computed configuration is kept for 1 of 1 problems" in output
    assert f"entries in {file}: 2" in output
    assert targets.parse(SM_90).measured == ()
    measured.write_text(json.dumps([slow, {**slow, "device": "A100"}]))
    assert main([f"--measured={measured}", f"--table={file}", f"--target={SM_90}"]) == 2
    assert "of 2 devices or versions" in capsys.readouterr().err


def test_a_table_is_formatted_as_that_of_the_release(tmp_path):
    text = resources.files("mlirfuse.kernels.configs").joinpath("cuda_sm_90.json").read_text()
    config_table.write(tmp_path / "table.json", json.loads(text))
    assert (tmp_path / "table.json").read_text() == text


def test_measurements_of_another_machine_are_kept(tmp_path, capsys):
    job = {"family": "matmul", "problem": dict(FOUND.problem)}
    wider = dataclasses.replace(CONFIG, block_n=128).to_dict()
    jobs = [
        {**job, "config": wider, "us": 4.0},
        {**job, "config": dict(FOUND.config), "us": 3.5},
        {**job, "config": wider, "refused": "results that differ by 1"},
    ]
    (tmp_path / "measured.json").write_text(json.dumps(jobs))
    assert main([f"--measured={tmp_path / 'measured.json'}", f"--target={SM_90}"]) == 0
    assert targets.parse(SM_90).measured == (FOUND,)
    assert "m=96, n=80, k=64, batch=1: block_m=64" in capsys.readouterr().out
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
