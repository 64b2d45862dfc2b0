"""Random fusion plans that are one kernel by the rules are one when they are compiled."""

import dataclasses
import json

import numpy as np
import pytest

from benchmarks import results
from benchmarks.fusion_plans import run, speed
from benchmarks.gpu import timer
from mlirfuse.fusion_plan import TensorSpec
from mlirfuse.fusion_plan.rules import TARGETS
from mlirfuse.fusion_plan.text import parse
from mlirfuse.kernels import triton_compiler


@pytest.fixture(autouse=True)
def _private(tmp_path, monkeypatch):
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("MLIRFUSE_FIND_DB", "off")


def _needs(target):
    if target.startswith(("cuda", "rocm")) and triton_compiler.missing() is not None:
        pytest.skip("no Triton")


@pytest.mark.parametrize("target", ["cpu", "vulkan"])
def test_a_small_sample(target):
    found = list(run.outcomes(target, 5, seed=0, call=target == "cpu"))
    assert [str(outcome) for outcome in found if not outcome.ok] == []


def test_the_record_has_no_wrong_plan():
    """All plans of a recorded target are one kernel, and those that were called are right."""
    entries = {entry["target"]: entry for entry in json.loads(run.RESULTS.read_text())}
    assert entries["cpu"]["called"] == entries["cpu"]["plans"]
    for entry in entries.values():
        assert entry["plans"] >= 125
        assert entry["one_kernel"] == entry["plans"]
        assert entry["right"] == entry["called"]


def test_a_run_is_recorded(tmp_path, capsys):
    file = tmp_path / "results.json"
    assert run.main(["--target=cpu", "--count=2", f"--results={file}"]) == 0
    (entry,) = json.loads(file.read_text())
    assert entry == json.loads(capsys.readouterr().out)
    assert (entry["plans"], entry["one_kernel"], entry["called"], entry["right"]) == (2, 2, 2, 2)


def test_the_table_has_calls_of_the_targets_that_run():
    entry = {"plans": 9, "one_kernel": 9, "called": 0, "right": 0, "largest_error": 0.0}
    called = {"called": 9, "right": 8, "largest_error": 1.5, "device": "a GPU"}
    rows = run.table(
        [{**entry, "target": "vulkan"}, {**entry, **called, "target": "cuda:sm_90"}]
    ).splitlines()
    assert rows[2:] == [
        "| vulkan | 9 | 9 |  |  |  |",
        "| cuda:sm_90 | 9 | 9 | a GPU | 8 | 1.5 |",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_a_sample(target):
    _needs(target)
    found = run.outcomes(target, 125, seed=0, call=target == "cpu")
    assert [str(outcome) for outcome in found if not outcome.ok] == []


def test_the_speed_of_a_plan_and_its_ops(tmp_path, capsys):
    folder = tmp_path / "results"
    arguments = ["--only=NA, 512", "--batch=2", "--rounds=2", f"--results={folder}"]
    assert speed.main(arguments) == 0
    (row,) = json.loads((folder / "fusion_plan_speed.partial.json").read_text())["rows"]
    assert row["ours_ms"] > 0
    assert row["peers"][speed.SEPARATE] > 0
    assert "NA, 512 channels of 7x7" in capsys.readouterr().out


def test_records_are_drawn(tmp_path):
    row = results.Row(
        work="NA",
        dtype="f16",
        ours_ms=1.0,
        peers={speed.SEPARATE: 2.0},
        ratios={speed.SEPARATE: {"median": 2.0, "low": 1.9, "high": 2.1}},
    )
    for suite in speed.RECORDS.values():
        measured = results.describe(suite, [row], load=0.0, quick=False, complete=True)
        dataclasses.replace(measured, device=f"the {suite}").save(tmp_path)
    records = speed.recorded(tmp_path)
    assert [r.suite for r in records] == ["fusion_plan_speed", "fusion_plan_speed_gpu"]
    assert "<svg" in speed.picture(records[1])
    shown = speed.table(records[1])
    assert shown.startswith("the fusion_plan_speed_gpu, ")
    assert "| NA | f16 | 1 | 2 | 2.00 (1.90 to 2.10) |" in shown


def test_targets_without_a_record_are_wrong_usage(capsys):
    with pytest.raises(SystemExit):
        speed.main(["--target=vulkan"])
    assert "--target is one of cpu, cuda" in capsys.readouterr().err


def test_both_sides_compute_the_same():
    plan = parse("conv 3x3 p1 8 -> bias -> relu", TensorSpec((2, 4, 9, 9), "f32", "NCHW"))
    fused, separate = speed.sides(plan, "cpu").values()
    np.testing.assert_allclose(fused(0), separate(0), atol=1e-5)


def test_images_on_a_gpu_are_read_from_its_memory(monkeypatch):
    small = parse("batch_norm -> relu", TensorSpec((64, 512, 7, 7), "f16", "NCHW"))
    large = parse("batch_norm -> relu", TensorSpec((64, 64, 56, 56), "f32", "NCHW"))
    assert speed.copies_of(small, "cpu") == 1
    assert speed.copies_of(small, "cuda") == speed.MAX_COPIES
    assert speed.copies_of(large, "cuda") == 6
    seen = []

    def kernels(calls, *, rounds, copies):
        seen.append((rounds, copies))
        return {"fused": [1e-3] * rounds, speed.SEPARATE: [3e-3] * rounds}

    monkeypatch.setattr(timer, "kernels", kernels)
    called = []
    calls = {name: called.append for name in ("fused", speed.SEPARATE)}
    found = speed.row("NA", large, calls, "cuda", 4)
    assert seen == [(4, 6)]
    assert called == [*range(6), *range(6)]
    assert (found.ours_ms, found.ratios[speed.SEPARATE]["median"]) == (1.0, 3.0)
