"""`python -m benchmarks tune`: recorded times, and the simulation of many workers."""

import dataclasses
import json
import threading
import time

import pytest

from benchmarks.tune import importing, measure, models, scaling
from helpers.tuning_model import MODEL
from mlirfuse.core import MlirfuseError, UsageError
from mlirfuse.options import FusionOptions
from mlirfuse.tuning.execution.store import RESULTS, Store
from mlirfuse.tuning.execution.task import FAILED, OK, Outcome, Task
from mlirfuse.tuning.model import tune


def test_times_of_a_store_are_recorded(tmp_path):
    store = Store(tmp_path)
    jobs = "mlirfuse.tuning.model.jobs"
    seconds = {"incumbent": [[0.1] * 10], "control": [[0.1] * 10]}
    done = [
        (Task(f"{jobs}:compile_candidate", {"n": 1}), OK, {}, 4.0),
        (Task(f"{jobs}:compile_candidate", {"n": 2}), FAILED, {}, 9.0),
        (Task(f"{jobs}:measure", {}), OK, {"seconds": seconds}, 2.0),
    ]
    for task, status, value, passed in done:
        store.add(task, Outcome(task.key, status, value, seconds=passed))
    found = measure.recorded_seconds(tmp_path / RESULTS)
    assert found == {"compile": [4.0], "measure": [0.1]}
    empty = measure.recorded_seconds(tmp_path / "ended at once" / RESULTS)
    assert empty == {"compile": [], "measure": []}


def test_more_workers_are_faster_until_steps_wait(tmp_path, monkeypatch):
    monkeypatch.setattr(scaling, "CANDIDATES", 120)
    monkeypatch.setattr(scaling, "WORKERS", ((1, 1), (8, 2), (200, 50)))
    record = tmp_path / "tune.json"
    times = {"compile": [4.0, 6.0], "measure": [0.05]}
    record.write_text(json.dumps({"seconds": times, "head_seconds": 0.01, "device": "a CPU"}))
    found = scaling.simulate(record)
    seconds = [row["seconds"] for row in found["rows"]]
    assert seconds[0] > 3 * seconds[1] > 3 * seconds[2]
    busy = [row["compile_busy"] for row in found["rows"]]
    assert 1 >= busy[0] > busy[1] > busy[2] > 0
    assert len({row["tasks"] for row in found["rows"]}) == 1
    assert scaling.table(found).count("\n") == 6


@pytest.fixture
def suite(monkeypatch):
    """Runs the suite with searches that take no time; returns what was tuned, with its limit."""
    tuned = []
    lock = threading.Lock()

    def row(self, name, stored, folder, minutes):
        with lock:
            tuned.append((name, minutes))
        (folder / RESULTS).touch()
        if name == "unet":
            raise MlirfuseError("the model cannot be compiled")
        return {
            "model": name,
            "tried": 3,
            "settings": [],
            "speedup": 1.21,
            "interval": [1.2, 1.3],
        } | {
            "default_ms": 2.0,
            "tuned_ms": 1.7,
        }

    monkeypatch.setattr(measure.Suite, "_tuned", row)
    return tuned


def test_every_model_has_a_row_and_is_not_tuned_again(suite, tmp_path, capsys):
    assert measure.main([f"--results={tmp_path}", "--minutes=2", "--at-once=3"]) == 1
    assert {name for name, _ in suite} == set(models.MODELS)
    assert {minutes for _, minutes in suite} == {2.0}
    rows = json.loads((tmp_path / "tune.json").read_text())["rows"]
    assert [row["model"] for row in rows] == list(models.MODELS)
    assert "Geometric mean of 11 models: 1.210." in capsys.readouterr().out
    suite.clear()
    assert measure.main([f"--results={tmp_path}"]) == 1
    assert suite == [("unet", None)]


def test_any_error_of_a_model_is_in_its_row(suite, tmp_path, monkeypatch, capsys):
    def row(self, name, stored, folder, minutes):
        if name == "lstm":
            raise ZeroDivisionError("no number")
        rows = json.loads((tmp_path / "tune.json").read_text())["rows"]
        (own,) = (row for row in rows if row["model"] == name)
        assert own["error"] == "the suite died in this model", "what stays where the process dies"
        return {"model": name, "tried": 3, "settings": []}

    monkeypatch.setattr(measure.Suite, "_tuned", row)
    assert measure.main([f"--results={tmp_path}", "lstm", "mlp"]) == 1
    rows = {row["model"]: row for row in json.loads((tmp_path / "tune.json").read_text())["rows"]}
    assert rows["lstm"]["error"] == "ZeroDivisionError: no number"
    assert "error" not in rows["mlp"]
    printed = capsys.readouterr()
    assert "failed: ZeroDivisionError: no number" in printed.out
    assert "Traceback" in printed.err


def test_the_records_of_a_folder_are_shown(suite, tmp_path):
    assert measure.recorded(tmp_path) == []
    measure.main([f"--results={tmp_path}", "lstm"])
    (tmp_path / "tune_scaling.json").write_text("{}")
    gpu = json.loads((tmp_path / "tune.json").read_text())
    (tmp_path / "tune_cuda.json").write_text(json.dumps(gpu))
    (tmp_path / "tune_old.json").write_text(json.dumps({**gpu, "rows": [{"model": "mlp"}]}))
    records = measure.recorded(tmp_path)
    assert [record["rows"][0]["model"] for record in records] == ["lstm", "lstm"]
    assert "| lstm | 2 | 1.7 | 1.210 (1.200 to 1.300) | 3 | the default |" in measure.summary(gpu)


def test_an_exhaustive_search_is_shown_beside_the_search():
    row = {"model": "mlp", "device": "a CPU", "tried": 3, "settings": []}
    found = {"combinations": 8, "best": "a, b", "best_speedup": 1.21, "search_speedup": 1.2}
    record = {"device": "a CPU", "date": "2026-11-29"}
    text = measure.summary({**record, "rows": [{**row, "exhaustive": {**found, "behind": 0.008}}]})
    line = "of 8 combinations a, b is the fastest, 1.210; the search's 1.200 is behind by 0.8%."
    assert text.endswith(f"- mlp: {line}")
    assert "combinations" not in measure.summary({**record, "rows": [row]})


def test_the_simulation_says_where_it_saturates():
    rows = [
        {"compilers": 4**i, "devices": 2**i, "seconds": seconds, "tasks": 9}
        | {"compile_busy": 0.5, "measure_busy": 0.5}
        for i, seconds in enumerate((900.0, 300.0, 100.0))
    ]
    text = scaling.table({"rows": rows, "unbounded_seconds": 60.0})
    assert "It saturates at 1.0 min, " in text
    assert text.endswith("16 compile workers and 4 devices take less than twice as long.")
    slow = scaling.table({"rows": rows, "unbounded_seconds": 30.0})
    assert slow.endswith("these workers take more than twice as long.")


def test_results_go_into_a_new_folder(suite, tmp_path):
    assert measure.main([f"--results={tmp_path / 'new'}", "lstm"]) == 0
    assert (tmp_path / "new" / "tune.json").exists()


def test_no_model_starts_without_time(suite, tmp_path, monkeypatch):
    assert measure.main([f"--results={tmp_path}", "--total-minutes=1"]) == 0
    assert suite == []
    began = time.monotonic()
    clock = iter([began, *(began + 60 * minutes for minutes in (1, 5, 9))])
    monkeypatch.setattr(measure.Suite, "_minutes", lambda self: 10 - (next(clock) - began) / 60)
    measure.main([f"--results={tmp_path}", "lstm", "resnet", "encoder", "experts"])
    assert [minutes for _, minutes in suite] == [10.0, 9.0, 5.0]


def test_rows_of_another_device_stay(suite, tmp_path, capsys):
    measure.main([f"--results={tmp_path}", "lstm"])
    path = tmp_path / "tune.json"
    record = json.loads(path.read_text())
    record["rows"][0]["device"] = "another"
    record["rows"].append({"model": "mlp", "tried": 3})  # as old records have it
    path.write_text(json.dumps(record))
    measure.main([f"--results={tmp_path}", "lstm", "resnet"])
    rows = json.loads(path.read_text())["rows"]
    assert [(row["model"], row["device"] == "another") for row in rows] == [
        ("resnet", False),
        ("lstm", True),
    ]
    assert "another" in capsys.readouterr().out


@pytest.mark.parametrize("name", models.MODELS)
def test_models_run_in_f32_and_f16(name):
    torch = pytest.importorskip("torch")
    found = {}
    for dtype in ("float32", "float16"):
        module, inputs = models.build(name, dtype)
        results = module(*inputs)
        found[dtype] = results[0] if isinstance(results, tuple) else results
        assert found[dtype].dtype == getattr(torch, dtype)
    assert torch.allclose(found["float32"], found["float16"].float(), atol=0.02)


def test_models_are_imported_in_processes(tmp_path):
    (tmp_path / "model.mlir").write_text(MODEL.replace("OP", "add"))
    importers = importing.Importers(1)
    try:
        request = tune.Request(str(tmp_path / "model.mlir"), "m", "cpu", FusionOptions())
        found = importers.opened(request, "float32", tmp_path)
        source, path = found.problem.sources[""]
        assert source["function"] == "main"
        assert path.exists()
        absent = dataclasses.replace(request, model="absent.mlir")
        with pytest.raises(MlirfuseError, match="absent"):
            importers.opened(absent, "float32", tmp_path)
        named = dataclasses.replace(request, model="lstm")
        assert importers.opened(named, "float32", tmp_path).graph != found.graph
    finally:
        importers.close()


def test_a_model_that_there_is_not_is_an_error():
    with pytest.raises(UsageError, match=r"there is no model 'lst'.*lstm"):
        models.build("lst")
