"""`python -m benchmarks tune`: recorded times, and the simulation of many workers."""

import json

from benchmarks.tune import measure, scaling
from mlirfuse.tuning.execution.store import RESULTS, Store
from mlirfuse.tuning.execution.task import FAILED, OK, Outcome, Task


def test_times_of_a_store_are_recorded(tmp_path):
    store = Store(tmp_path)
    jobs = "mlirfuse.tuning.model.jobs"
    seconds = {"incumbent": [[0.1] * 10], "control": [[0.1] * 10]}
    done = [
        (Task(f"{jobs}:compile_candidate", {"n": 1}), OK, {}, 4.0),
        (Task(f"{jobs}:compile_candidate", {"n": 2}), FAILED, {}, 9.0),
        (Task(f"{jobs}:measure", {}), OK, {"seconds": seconds}, 2.0),
    ]
    for task, status, value, time in done:
        store.add(task, Outcome(task.key, status, value, seconds=time))
    found = measure.recorded_seconds(tmp_path / RESULTS)
    assert found == {"compile": [4.0], "measure": [0.1]}


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
    assert scaling.table(found).count("\n") == 4
