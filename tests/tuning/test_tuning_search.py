"""The search on models of known effects, and whole on a small model."""

import dataclasses
import itertools
import math
import random
import sys
from pathlib import Path

import numpy as np
import pytest

import mlirfuse
from helpers.tuning_model import MODEL
from mlirfuse.core import MlirfuseError
from mlirfuse.kernels.matmul.problem import MatmulConfig
from mlirfuse.tools.tune import main
from mlirfuse.tuning.execution.simulated import SimulatedExecutor
from mlirfuse.tuning.execution.store import Store, Stored
from mlirfuse.tuning.execution.task import COMPILE, FAILED, MEASURE, Outcome
from mlirfuse.tuning.model import (
    kernel_space,
    problem,
    space,
    tune,
)
from mlirfuse.tuning.model.modelled import ModelledModel, name, setting
from mlirfuse.tuning.model.problem import Shapes, added, without
from mlirfuse.tuning.model.search import FINAL_ROUNDS, Search
from mlirfuse.tuning_profile import file
from mlirfuse.tuning_profile.entry import Setting


def found_for(model, executor=None, **fields):
    executor = executor or SimulatedExecutor(4, 1, model.answer)
    return Search(model.problem(**fields), executor).run()


def names(found):
    return {name(kept.setting) for kept in found.settings}


def test_faster_settings_are_found_and_others_left_out(tmp_path):
    effects = {"good": 0.8, "better": 0.7, "bad": 1.3, "idle": 1.0}
    found = found_for(ModelledModel(tmp_path, effects, broken=frozenset({"broken"})))
    assert names(found) == {"good", "better"}
    assert found.whole.ratio.median == pytest.approx(1 / 0.56, rel=0.03)
    by_name = {name(kept.setting): kept.comparison for kept in found.settings}
    assert by_name["good"].ratio.median == pytest.approx(1 / 0.8, rel=0.03)
    assert by_name["good"].interval[0] > by_name["good"].noise
    assert list(found.failed) == ["target.cpu.broken=1"]


def test_a_wrong_result_is_never_accepted(tmp_path):
    model = ModelledModel(tmp_path, {"good": 0.9, "wrong": 0.1}, wrong=frozenset({"wrong"}))
    found = found_for(model)
    assert names(found) == {"good"}
    assert list(found.wrong) == ["target.cpu.wrong=1"]


@pytest.mark.parametrize("seed", range(8))
def test_noise_is_no_gain(tmp_path, seed):
    effects = {f"idle{i}": 1.0 + 1e-9 * i for i in range(20)}
    found = found_for(ModelledModel(tmp_path, effects, noise=0.1, seed=seed))
    assert found.whole is None
    assert found.settings == []
    assert found.best is found.default


def test_gains_that_are_too_small_to_be_seen_alone_add_up(tmp_path):
    effects = {f"kernel{i}": 0.985 for i in range(8)} | {"idle": 1.0, "bad": 1.1}
    found = found_for(ModelledModel(tmp_path, effects, noise=0.002))
    assert names(found) == {f"kernel{i}" for i in range(8)}
    assert found.whole.ratio.median == pytest.approx(0.985**-8, rel=0.01)
    assert all(kept.together.ratio.median > 1.1 for kept in found.settings)
    assert all(
        kept.comparison.verdict == "no difference outside the noise" for kept in found.settings
    )


def test_settings_that_pay_alone_and_not_together(tmp_path):
    model = ModelledModel(
        tmp_path, {"one": 0.8, "other": 0.85}, pairs={frozenset({"one", "other"}): 1.4}
    )
    assert names(found_for(model)) == {"one"}


def test_settings_that_pay_together_alone(tmp_path):
    model = ModelledModel(
        tmp_path, {"one": 1.0, "other": 0.95}, pairs={frozenset({"one", "other"}): 0.8}
    )
    assert names(found_for(model)) == {"one", "other"}


@pytest.mark.parametrize("seed", range(6))
def test_the_winner_is_within_two_percent_of_an_exhaustive_search(tmp_path, seed):
    generator = random.Random(seed)
    effects = {f"s{i}": math.exp(generator.gauss(0, 0.15)) for i in range(6)}
    pairs = {
        frozenset(pair): math.exp(generator.gauss(0, 0.02))
        for pair in itertools.combinations(effects, 2)
    }
    model = ModelledModel(tmp_path, effects, pairs=pairs, noise=0.01, seed=seed)
    found = found_for(model)
    reached = model.factor(tuple(kept.setting for kept in found.settings))
    best = min(
        model.factor(tuple(map(setting, chosen)))
        for count in range(7)
        for chosen in itertools.combinations(effects, count)
    )
    assert reached <= best * 1.02


def test_the_exhaustive_search_tries_every_combination(tmp_path):
    model = ModelledModel(tmp_path, {"a": 0.9, "b": 0.8, "c": 1.2})
    ranked = Search(model.problem(), SimulatedExecutor(1, 1, model.answer)).exhaustive(
        model.settings()
    )
    assert len(ranked) == 8
    assert {name(s) for s in ranked[0][0]} == {"a", "b"}


def test_memory_is_judged_without_noise(tmp_path):
    model = ModelledModel(tmp_path, {"small": 0.995, "large": 1.5}, noise=0.2)
    found = found_for(model, objective=problem.MEMORY)
    assert names(found) == {"small"}
    assert found.whole.ratio.median == pytest.approx(1 / 0.995, rel=1e-3)


def test_shapes_count_by_their_weights(tmp_path):
    one = ModelledModel(tmp_path, {"a": 0.9})
    weighted = one.problem(shapes=(Shapes(((1,),), 3.0), Shapes(((2,),), 1.0)))
    samples = weighted.samples({"x": [[1.0, 2.0], [5.0, 6.0, 7.0]]})
    assert samples.seconds["x"] == [8.0, 12.0]
    assert str(weighted.shapes[0]) == "1@3"


def test_a_resumed_search_runs_nothing_again(tmp_path):
    (tmp_path / "files").mkdir()
    effects = {f"s{i}": 0.9 + 0.03 * i for i in range(8)}
    model = ModelledModel(tmp_path / "files", effects)
    results = []
    for _ in range(2):
        store = Store(tmp_path / "store")
        stored = Stored(SimulatedExecutor(3, 2, model.answer), store)
        results.append((names(found_for(model, stored)), stored.hits))
    assert results[0][0] == results[1][0]
    assert results[0][1] == 0
    assert results[1][1] > 0
    assert set(model.compiled.values()) == {1}


def test_a_time_limit_leaves_candidates_out_and_still_confirms_the_result(tmp_path):
    effects = {"good": 0.7, **{f"slow{i}": 1.1 for i in range(60)}}
    model = ModelledModel(tmp_path, effects, compile_seconds=(10.0,))
    times, tried = {}, {}
    for seconds in (None, 300.0):
        executor = SimulatedExecutor(2, 1, model.answer)
        search = Search(model.problem(), executor, seconds=seconds, parallel=2)
        found = search.run()
        times[seconds], tried[seconds] = executor.now(), found.tried
        assert names(found) == {"good"}
        assert found.rounds >= FINAL_ROUNDS
    assert times[300.0] < 1.5 * 300 < times[None]
    assert 2 < tried[300.0] < tried[None]


def test_small_gains_stay_where_the_time_is_over(tmp_path):
    effects = {f"kernel{i}": 0.985 for i in range(6)}
    model = ModelledModel(tmp_path, effects, noise=0.002)
    executor = SimulatedExecutor(1, 1, model.answer)
    found = Search(model.problem(), executor, seconds=120.0, parallel=1, batch_bytes=16 << 30).run()
    assert executor.now() > 120
    assert len(found.settings) > 3


def test_a_time_limit_that_is_over_still_gives_a_result(tmp_path):
    model = ModelledModel(tmp_path, {"good": 0.7, "better": 0.6, "idle": 1.0})
    executor = SimulatedExecutor(1, 1, model.answer)
    found = Search(model.problem(), executor, seconds=0.1, parallel=1).run()
    assert found.tried == 1
    assert len(found.settings) <= 1


def test_batches_of_a_device_are_as_large_as_its_memory(tmp_path):
    model = ModelledModel(tmp_path, {f"s{i}": 1.1 for i in range(40)})
    counts = []
    for memory in (None, 1 << 30, 6 << 30, 80 << 30):
        executor = SimulatedExecutor(4, 1, model.answer)
        Search(model.problem(), executor, batch_bytes=memory).run()
        counts.append(executor.count(MEASURE))
    assert counts[0] == counts[1] > counts[2] > counts[3]


def test_results_in_float64_take_no_time_of_the_device(tmp_path):
    model = ModelledModel(tmp_path, {f"s{i}": 1.1 for i in range(20)}, compile_seconds=(10.0,))
    times = {}
    for seconds in (10.0, 40.0):

        def slow(task, seconds=seconds):
            outcome = model.answer(task)
            return (
                dataclasses.replace(outcome, seconds=seconds)
                if task.function.endswith(":make_exact")
                else outcome
            )

        executor = SimulatedExecutor(4, 1, slow)
        found_for(model, executor)
        times[seconds] = executor.now()
    assert times[40.0] - times[10.0] < 15.0


def test_an_unfused_program_that_fails_ends_the_search(tmp_path):
    model = ModelledModel(tmp_path, {"good": 0.5})

    def failing(task):
        if task.function.endswith(":make_unfused"):
            return Outcome(task.key, FAILED, message="no device")
        return model.answer(task)

    with pytest.raises(MlirfuseError, match="no results to compare with: no device"):
        found_for(model, SimulatedExecutor(1, 1, failing))


def test_programs_are_measured_without_results_in_float64(tmp_path):
    model = ModelledModel(tmp_path, {"good": 0.5})
    requests = []

    def failing(task):
        if task.function.endswith(":make_exact"):
            return Outcome(task.key, FAILED, message="ran out of time")
        requests.append(task)
        return model.answer(task)

    assert names(found_for(model, SimulatedExecutor(1, 1, failing))) == {"good"}
    measured = [task for task in requests if task.function.endswith(":measure")]
    assert all(task.request["sets"] == [{"unfused": [], "exact": None}] for task in measured)
    assert [task.request["alone"] for task in measured].count(True) == 1, "the result alone"


def test_measurements_run_on_all_devices_where_there_is_a_time_limit(tmp_path):
    model = ModelledModel(tmp_path, {f"s{i}": 1.1 for i in range(40)})
    times = []
    for devices in (1, 4):
        executor = SimulatedExecutor(8, devices, model.answer)
        Search(model.problem(), executor, seconds=1e6, parallel=8).run()
        times.append(executor.now())
    assert times[1] < 0.7 * times[0]


def test_a_model_that_cannot_be_compiled_is_an_error(tmp_path):
    def refused(task):
        return Outcome(task.key, FAILED, message="no")

    problem_ = ModelledModel(tmp_path, {}).problem()
    with pytest.raises(MlirfuseError, match="the model cannot be compiled: no"):
        Search(problem_, SimulatedExecutor(1, 1, refused)).run()


def test_simulated_workers_share_the_tasks(tmp_path):
    model = ModelledModel(tmp_path, {f"s{i}": 1.1 for i in range(40)}, compile_seconds=(10.0,))
    times = {}
    for workers in (1, 4, 40):
        executor = SimulatedExecutor(workers, 4, model.answer, head_seconds=0.01)
        found_for(model, executor)
        times[workers] = executor.now()
        assert 0 < executor.utilisation(COMPILE) <= 1
        assert executor.count(MEASURE) > 0
    assert times[1] > 3 * times[4] > 4 * times[40]


def test_settings_exclude_others_of_their_place():
    one, other = Setting("numerics", "exact"), Setting("numerics", "any")
    assert added((one,), other) == (other,)
    whole = Setting("disable_pass", "softmax_fusion")
    match = Setting("disable_pass", "softmax_fusion@match=1")
    second = Setting("disable_pass", "softmax_fusion@match=2")
    assert added((match,), whole) == (whole,)
    assert added((whole,), match) == (match,)
    assert set(added((match,), second)) == {match, second}
    assert without((match, second), match) == (second,)
    flags = [Setting("iree_option", f"--iree-llvmcpu-enable-ukernels={w}") for w in "ab"]
    assert added((flags[0],), flags[1]) == (flags[1],)


def test_a_model_is_tuned_and_its_profile_used(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("model.mlir").write_text(MODEL.replace("OP", "add"))
    words = ["model.mlir", "-o", "model.toml", "--max-candidates=3", "--store=store"]
    assert main(words) == 0
    assert "3 candidates tried" in capsys.readouterr().out
    (section,) = file.read("model.toml").sections
    assert section.model == "model.mlir"
    assert section.result["tried"] >= 3
    assert section.result["wrong"] == 0
    lines = Path("store/results.jsonl").read_bytes()
    assert main(words) == 0
    assert Path("store/results.jsonl").read_bytes() == lines
    program = mlirfuse.compile("model.mlir", profile="model.toml")
    assert program.report.profile["model"].startswith("model.mlir (")
    x = np.ones((8, 32), np.float32)
    np.testing.assert_array_equal(program(x), x + x)


def test_a_summary_has_reasons_and_what_was_not_tried(tmp_path):
    model = ModelledModel(tmp_path, {"good": 0.7, "better": 0.6, "idle": 1.0})
    executor = SimulatedExecutor(1, 1, model.answer)
    found = Search(model.problem(), executor, seconds=0.1, parallel=1).run()
    assert found.untried > 0
    found.failed |= {"a": "out of memory", "b": "out of memory"}
    section = file.Section("m.mlir", "0" * 64, "cpu", "a CPU", {}, "latency")
    head, reason, *_ = tune.summary(section, found).splitlines()
    assert "1 candidate tried: " in head
    assert f"no time was left for {found.untried} more" in head
    assert reason == "  2 x out of memory"


@pytest.mark.parametrize("text", ["1xy", "", "0x3", "1x2@0", "1x2@", "@3"])
def test_malformed_shapes_are_wrong_usage(tmp_path, monkeypatch, capsys, text):
    monkeypatch.chdir(tmp_path)
    Path("model.mlir").write_text(MODEL.replace("OP", "add"))
    assert main(["model.mlir", "-o", "p.toml", f"--shapes={text}"]) == 2
    assert "--shapes takes" in capsys.readouterr().err


def test_ray_that_is_missing_is_wrong_usage(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "ray", None)
    Path("model.mlir").write_text(MODEL.replace("OP", "add"))
    assert main(["model.mlir", "-o", "p.toml", "--ray", "--store=store"]) == 2
    assert "pip install 'mlirfuse[ray]'" in capsys.readouterr().err


def test_kernel_configurations_near_the_default_are_tried_first():
    default = MatmulConfig(128, 128, 64, 4, 3, consumer_warpgroups=2)
    near = dataclasses.replace(default, num_stages=4)
    other = dataclasses.replace(default, block_n=256, ping_pong=True)
    far = MatmulConfig(16, 16, 64, 1, 3)
    assert kernel_space.nearest_first(default, [far, other, near]) == [near, other, far]


def test_a_limited_search_tries_some_of_each_kind():
    said = [("gain", -3.0), ("a", 0.0), ("b", 0.0), ("c", 0.0), ("loss", 2.0)]
    settings = [space.Proposal(Setting("target.cpu." + key, 1), "", us) for key, us in said]
    kernels = [space.Proposal(Setting(f"target.cpu.k{i}", 1)) for i in range(5)]

    def order(*given):
        return [name(p.setting) for p in space.with_kernels(*given)]

    few = ["gain", "k0", "k1", "a", "k2", "k3", "b", "k4", "c", "loss"]
    assert order(settings, kernels) == few
    assert order(settings[1:2], kernels) == ["k0", "k1", "a", "k2", "k3", "k4"]
    assert order(settings, []) == ["gain", "a", "b", "c", "loss"]


def test_forms_of_attention_are_tried_first(tmp_path):
    model = ModelledModel(tmp_path, {f"s{i}": 1.1 for i in range(9)})
    plain = model.problem()
    source = plain.sources[""]
    both = dataclasses.replace(plain, sources={"": source, "whole": source})
    executor = SimulatedExecutor(1, 1, model.answer)
    found = Search(both, executor, max_candidates=1).run()
    assert next(iter(found.proposals)) == Setting("attention", "whole").key
    assert found.tried == found.same == 1
