"""Executors and the store: crashes, hangs, kills and device errors end no more than one task."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from helpers.tuning_tasks import task
from mlirfuse.tuning.execution.local import PREPARED, LocalExecutor
from mlirfuse.tuning.execution.store import RESULTS, Store, Stored
from mlirfuse.tuning.execution.task import DEVICE, DIED, FAILED, MEASURE, OK, Outcome, run_all

TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def helpers_of_tests(monkeypatch):
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    )


@pytest.fixture
def executor(tmp_path):
    made = LocalExecutor(tmp_path / "tasks", workers=2)
    yield made
    made.close()


def gone(pid):
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_tasks_return_values_and_files(executor, tmp_path):
    (tmp_path / "in").write_text("from ")
    tasks = [task("run", files={"input": tmp_path / "in"}, name=n) for n in ("a", "b", "c")]
    found = run_all(executor, tasks)
    assert [o.status for o in found] == [OK] * 3
    assert [o.value["name"] for o in found] == ["a", "b", "c"]
    assert found[1].files["result"].read_text() == "from b"
    assert found[0].worker
    assert found[0].seconds > 0


def test_failures_end_one_task_alone(executor, tmp_path):
    pids = tmp_path / "pids"
    tasks = [
        task("crash"),
        task("refuse"),
        task("raise_error"),
        task("hang", timeout=3.0, pids=str(pids)),
        task("run", name="good"),
        task("no_such_function"),
    ]
    found = run_all(executor, tasks)
    assert [o.status for o in found] == [FAILED] * 4 + [OK, FAILED]
    messages = [o.message for o in found]
    assert messages[0].startswith("died with SIGSEGV")
    assert messages[1] == "refused"
    assert "ZeroDivisionError: no number" in messages[2]
    assert messages[3] == "ran out of time after 3 s"
    assert all(gone(pid) for pid in pids.read_text().split())


@pytest.mark.parametrize(("deaths", "status"), [(1, OK), (9, FAILED)])
def test_a_killed_process_is_tried_again(executor, tmp_path, deaths, status):
    (tmp_path / "calls").mkdir()
    (found,) = run_all(executor, [task("killed", folder=str(tmp_path / "calls"), deaths=deaths)])
    assert found.status == status
    assert found.attempts == (2 if status == OK else 3)


def test_measurements_run_alone(executor, tmp_path):
    place = {"folder": str(tmp_path), "seconds": 0.2}
    tasks = [task("alone", MEASURE, name=n, **place) for n in "abc"]
    tasks += [task("run", name=n, seconds=0.1) for n in "de"]
    assert [o.status for o in run_all(executor, tasks)] == [OK] * 5


def test_measurements_of_a_device_run_beside_compilations(tmp_path):
    executor = LocalExecutor(tmp_path / "tasks", workers=2, measures_beside=True)
    place = {"folder": str(tmp_path), "seconds": 0.5}
    tasks = [task("alone", MEASURE, name=n, **place) for n in "ab"]
    tasks += [task("meet", folder=str(tmp_path), seconds=10.0) for _ in "c"]
    try:
        assert [o.status for o in run_all(executor, tasks)] == [OK] * 3
    finally:
        executor.close()


def test_measurements_of_a_device_are_prepared_while_another_one_holds_it(tmp_path):
    executor = LocalExecutor(tmp_path / "tasks", workers=1, measures_beside=True)
    tasks = [task("alone", MEASURE, name=n, folder=str(tmp_path), seconds=2.0) for n in "abcde"]
    try:
        found = run_all(executor, tasks)
    finally:
        executor.close()
    assert [o.status for o in found] == [OK] * 5
    assert max(o.value["beside"] for o in found) == PREPARED


def test_tasks_of_an_earlier_search_go_first(tmp_path):
    executor = LocalExecutor(tmp_path / "tasks", workers=1)
    first, second = executor.share(), executor.share()
    log = tmp_path / "log"
    work = [
        (second, "a", 1.0),
        (second, "b", 0),
        (second, "c", 0),
        (first, "d", 0),
        (first, "e", 0),
    ]
    try:
        for share, name, seconds in work:
            share.submit(task("run", name=name, log=str(log), seconds=seconds))
        for share, _, _ in work:
            assert share.wait().status == OK
    finally:
        executor.close()
    assert log.read_text().split() == ["a", "d", "e", "b", "c"]


def test_each_device_has_one_measurement_and_sees_itself_alone(tmp_path):
    environments = [{"TEST_VISIBLE_DEVICES": name} for name in ("4", "7")]
    executor = LocalExecutor(
        tmp_path / "tasks", workers=1, measures_beside=True, environments=environments
    )
    place = {"folder": str(tmp_path), "seconds": 1.0}
    tasks = [task("on_device", MEASURE, name=n, **place) for n in "abcd"]
    opened = executor.open_measurements, executor.share().open_measurements
    assert opened == (2 * PREPARED, 2 * PREPARED)
    try:
        found = run_all(executor, tasks)
    finally:
        executor.close()
    assert [o.status for o in found] == [OK] * 4
    assert {o.value["device"] for o in found} == {"4", "7"}
    assert max(o.value["together"] for o in found) == 2


def test_searches_that_share_an_executor_get_their_own_outcomes(executor):
    shares = [executor.share() for _ in range(3)]
    wanted = [[task("run", name=f"{i}{n}") for n in "abc"] for i in range(3)]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(run_all, shares, wanted))
    names = [[o.value["name"] for o in outcomes] for outcomes in found]
    assert names == [[f"{i}{n}" for n in "abc"] for i in range(3)]


def test_an_error_of_the_device_is_not_kept(executor, tmp_path):
    (tmp_path / "calls").mkdir()
    stored = Stored(executor, Store(tmp_path / "store"))
    request = task("faulty_device", MEASURE, folder=str(tmp_path / "calls"), failures=9)
    (found,) = run_all(stored, [request])
    assert found.status == DEVICE
    assert "fell off the bus" in found.message
    assert Store(tmp_path / "store").find(request.key) is None
    tried = len(list((tmp_path / "calls").iterdir()))
    run_all(stored, [request])
    assert len(list((tmp_path / "calls").iterdir())) > tried


def test_no_task_runs_twice(executor, tmp_path):
    log = tmp_path / "log"
    tasks = [task("run", log=str(log), name=n) for n in "abca"]
    for _ in range(2):
        stored = Stored(executor, Store(tmp_path / "store"))
        found = run_all(stored, [*tasks, task("crash")])
        assert [o.value.get("name") for o in found] == ["a", "b", "c", "a", None]
        assert found[1].files["result"].read_text() == "b"
    assert sorted(log.read_text().split()) == ["a", "b", "c"]
    assert stored.hits == 5


def test_the_content_of_files_is_part_of_a_task(tmp_path):
    (tmp_path / "in").write_text("one")
    first = task("run", files={"input": tmp_path / "in"}, name="a").key
    (tmp_path / "in").write_text("two!")
    assert task("run", files={"input": tmp_path / "in"}, name="a").key != first


def test_a_line_that_was_cut_short_is_skipped(executor, tmp_path):
    log = tmp_path / "log"
    tasks = [task("run", log=str(log), name=n) for n in "ab"]
    run_all(Stored(executor, Store(tmp_path / "store")), tasks)
    results = tmp_path / "store" / RESULTS
    text = results.read_text()
    results.write_text(text[:-20])
    stored = Stored(executor, Store(tmp_path / "store"))
    run_all(stored, tasks)
    assert stored.hits == 1
    assert len(log.read_text().split()) == 3
    again = Store(tmp_path / "store")
    assert all(again.find(t.key) is not None for t in tasks)


def test_results_without_their_files_are_made_again(executor, tmp_path):
    store = Store(tmp_path / "store")
    (found,) = run_all(Stored(executor, store), [task("run", name="a")])
    found.files["result"].unlink()
    assert store.find(found.key) is None


def test_two_tuners_share_a_store(tmp_path):
    stores = [Store(tmp_path / "store") for _ in range(2)]
    request = task("run", name="a")
    stores[0].add(request, Outcome(request.key, OK, {"n": 1}))
    assert stores[1].find(request.key).value == {"n": 1}


KILLED = """
import sys
from pathlib import Path
from helpers.tuning_tasks import task
from mlirfuse.tuning.execution.local import PREPARED, LocalExecutor
from mlirfuse.tuning.execution.store import Store, Stored
from mlirfuse.tuning.execution.task import run_all
place = Path(sys.argv[1])
stored = Stored(LocalExecutor(place / "tasks", workers=1), Store(place / "store"))
tasks = [task("run", log=str(place / "log"), name=f"t{i}", seconds=0.3) for i in range(8)]
found = run_all(stored, tasks)
print([o.value["name"] for o in found], stored.hits)
"""


def test_a_killed_tuner_goes_on_where_it_was(tmp_path):
    words = [sys.executable, "-c", KILLED, str(tmp_path)]
    first = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    results = tmp_path / "store" / RESULTS
    for _ in range(600):
        if results.exists() and len(results.read_bytes().splitlines()) >= 2:
            break
        time.sleep(0.05)
    first.kill()
    first.wait()
    done = [json.loads(line)["key"] for line in results.read_bytes().splitlines()]
    assert 2 <= len(done) < 8
    again = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    assert f"'t7'] {len(done)}" in again.stdout
    runs = (tmp_path / "log").read_text().split()
    # The one that ran when the tuner was killed may have begun; none that ended ran again.
    assert len(runs) <= 9
    assert set(runs) == {f"t{i}" for i in range(8)}


def test_closing_ends_what_runs(tmp_path):
    executor = LocalExecutor(tmp_path / "tasks", workers=1)
    pids = tmp_path / "pids"
    executor.submit(task("hang", pids=str(pids)))
    while not pids.exists() or len(pids.read_text().split()) < 2:
        time.sleep(0.05)
    executor.close()
    assert all(gone(pid) for pid in pids.read_text().split())


def test_closing_is_told_to_searches_that_wait(tmp_path):
    executor = LocalExecutor(tmp_path / "tasks", workers=1)
    stored = Stored(executor.share(), Store(tmp_path / "store"))
    pids = tmp_path / "pids"
    tasks = [task("hang", pids=str(pids)), task("run", name="waits")]
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(run_all, stored, tasks)
        while not pids.exists() or len(pids.read_text().split()) < 2:
            time.sleep(0.05)
        executor.close()
        outcomes = found.result(timeout=60)
    assert [o.status for o in outcomes] == [DIED, DIED]
    again = Store(tmp_path / "store")
    assert all(again.find(one.key) is None for one in tasks), "a lost task is tried again"
