"""The executor on a Ray cluster of two local nodes: lost workers, hangs and faulty devices."""

import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from helpers.tuning_tasks import task
from mlirfuse.tuning.execution.store import Store, Stored
from mlirfuse.tuning.execution.task import DEVICE, FAILED, MEASURE, OK, run_all

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'mlirfuse[ray]'")
ray_executor = pytest.importorskip("mlirfuse.tuning.execution.ray_executor")

pytestmark = pytest.mark.filterwarnings("ignore")
"""Ray's own warnings."""

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS), before])
    os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 2, "include_dashboard": False, "object_store_memory": 2**27},
    )
    for _ in range(1):
        made.add_node(
            num_cpus=2,
            resources={ray_executor.RESOURCE: 2},
            object_store_memory=2**27,
        )
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()
    os.environ["PYTHONPATH"] = before


@pytest.fixture
def executor(cluster, tmp_path):
    made = ray_executor.RayExecutor(tmp_path / "tasks")
    yield made
    made.close()


def test_tasks_run_on_the_cluster(executor, tmp_path):
    (tmp_path / "in").write_text("from ")
    tasks = [task("run", files={"input": tmp_path / "in"}, name=n) for n in "abc"]
    found = run_all(executor, [*tasks, task("run", MEASURE, name="d")])
    assert [o.status for o in found] == [OK] * 4
    assert found[1].files["result"].read_text() == "from b"


class Named:
    """A remote function that notes the names that it is called with."""

    def __init__(self, function):
        self.function, self.names = function, []

    def options(self, *, name):
        self.names.append(name)
        return self.function.options(name=name)


def test_tasks_have_names_for_the_dashboard(executor):
    compiled = executor._compile = Named(executor._compile)
    assert run_all(executor, [task("run", name="a"), task("run", MEASURE, name="b")])[1].ok
    assert compiled.names == ["run: run"]


def test_a_hang_and_a_crash_end_one_task_alone(executor, tmp_path):
    tasks = [
        task("hang", timeout=3.0, pids=str(tmp_path / "pids")),
        task("crash"),
        task("crash", MEASURE),
        task("refuse"),
        task("run", name="good"),
    ]
    found = run_all(executor, tasks)
    assert [o.status for o in found] == [FAILED] * 4 + [OK]
    assert found[0].message == "ran out of time after 3 s"


def test_a_device_has_one_measurement_at_a_time(executor, tmp_path):
    ray_places = [tmp_path / "one"]
    ray_places[0].mkdir()
    # Two devices and one place: measurements on both at once collide, on one they do not.
    executor._actors.pop()
    tasks = [task("alone", MEASURE, folder=str(ray_places[0]), seconds=0.2, name=n) for n in "abcd"]
    executor._find_devices = lambda: [_arrived(actor) for actor in executor._actors]
    assert [o.status for o in run_all(executor, tasks)] == [OK] * 4


def _arrived(actor):
    if actor.coming is not None:
        ray.get(actor.coming)
        actor.coming = None


def test_a_device_that_gives_errors_is_retired(executor, tmp_path):
    (tmp_path / "calls").mkdir()
    faulty = task("faulty_device", MEASURE, folder=str(tmp_path / "calls"), failures=1)
    (found,) = run_all(executor, [faulty])
    assert (found.status, found.attempts) == (OK, 2)
    struck = [a for a in executor._actors if a.strikes == 1]
    assert len(struck) <= 1
    (tmp_path / "more").mkdir()
    hopeless = task("faulty_device", MEASURE, folder=str(tmp_path / "more"), failures=99)
    (found,) = run_all(executor, [hopeless])
    assert found.status == DEVICE
    assert any(a.retired for a in executor._actors)


def test_workers_killed_at_random(executor, tmp_path):
    """Every task ends right, and none that ended runs again."""
    generator = random.Random(7)
    log = tmp_path / "log"
    stored = Stored(executor, Store(tmp_path / "store"))
    tasks = [task("run", log=str(log), name=f"c{i}", seconds=0.3) for i in range(12)]
    tasks += [task("run", MEASURE, log=str(log), name=f"m{i}", seconds=0.3) for i in range(6)]
    ended = threading.Event()
    killed = []

    def kill():
        while not ended.wait(0.8) and len(killed) < 5:
            workers = worker_processes()
            if workers:
                pid = generator.choice(workers)
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        found = run_all(stored, tasks)
    finally:
        ended.set()
        killer.join()
    assert [o.status for o in found] == [OK] * 18
    assert [o.value["name"] for o in found] == [t.request["name"] for t in tasks]
    assert killed
    again = Stored(executor, Store(tmp_path / "store"))
    before = log.read_text()
    run_all(again, tasks)
    assert again.hits == 18
    assert log.read_text() == before


def worker_processes():
    """The processes of Ray that run a task of ours."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                title = (path / "cmdline").read_bytes().split(b"\0")[0]
            except OSError:
                continue
            if title.startswith(b"ray::perform") or title.startswith(b"ray::Device"):
                found.append(int(path.name))
    return found


def test_a_lost_node_and_a_new_one(cluster, tmp_path):
    node = cluster.add_node(num_cpus=2, object_store_memory=2**27)
    executor = ray_executor.RayExecutor(tmp_path / "tasks")
    tasks = [task("run", name=f"t{i}", seconds=1.0) for i in range(10)]
    keys = [executor.submit(t) for t in tasks]
    time.sleep(1.5)
    cluster.remove_node(node, allow_graceful=False)
    found = {o.key: o for o in (executor.wait() for _ in keys)}
    assert [found[key].status for key in keys] == [OK] * 10
    executor.close()
