"""Tunes models, and records their times with the default settings and with the tuned ones.

python -m benchmarks tune                             three small models, some minutes
python -m benchmarks tune model.onnx --target=cuda    another model
python -m benchmarks tune --exhaustive=5              all combinations of the 5 best settings too
python -m benchmarks tune --scaling                   the simulation of many workers
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.tune import scaling
from benchmarks.tune.models import MODELS
from mlirfuse import targets
from mlirfuse.core import MlirfuseError
from mlirfuse.options import FusionOptions
from mlirfuse.tuning.execution.local import LocalExecutor
from mlirfuse.tuning.execution.store import RESULTS, Store, Stored
from mlirfuse.tuning.model import tune
from mlirfuse.tuning.model.problem import label
from mlirfuse.tuning.model.search import Search
from mlirfuse.tuning_profile import application
from mlirfuse.tuning_profile.entry import Setting

RECORD = "tune.json"

DEFAULT_CANDIDATES = 48


def main(arguments: Sequence[str]) -> int:
    """Runs the suite."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks tune",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("models", nargs="*", help="models as for mlirfuse-tune")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--max-candidates", type=int, default=DEFAULT_CANDIDATES)
    parser.add_argument("--exhaustive", type=int, default=0, metavar="N")
    parser.add_argument("--scaling", action="store_true")
    parser.add_argument("--results", type=Path, default=results.FOLDER)
    given = parser.parse_args(arguments)
    if given.scaling:
        found = scaling.simulate(given.results / RECORD)
        _write(given.results / scaling.RECORD, found)
        print(scaling.table(found))
        return 0
    names = given.models or [f"{__package__}.models:{name}" for name in MODELS]
    rows, times = [], {"compile": [], "measure": []}  # type: ignore[var-annotated]
    for name in names:
        try:
            row, recorded = _tuned(name, given)
        except MlirfuseError as error:
            row, recorded = {"model": name, "error": str(error)}, {}
        rows.append(row)
        for kind, seconds in recorded.items():
            times[kind] += seconds
        print(json.dumps(row), flush=True)
    target = targets.parse(given.target)
    found = {
        "device": application.device_name(target),
        "target": str(target),
        "date": time.strftime("%Y-%m-%d"),
        "versions": application.versions(),
        "rows": rows,
        "seconds": times,
        "head_seconds": _head_seconds(),
    }
    _write(given.results / RECORD, found)
    return 0


def _tuned(name: str, given: argparse.Namespace) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """The row of a model, and the times of the tasks."""
    request = tune.Request(
        model=name,
        name=name.rpartition(":")[2],
        target=given.target,
        options=FusionOptions(),
        max_candidates=given.max_candidates,
    )
    began = time.monotonic()
    with _executor() as (executor, folder):
        print(f"tuning {request.name}", file=sys.stderr, flush=True)
        section, found = tune.tune(request, executor, folder)
        row: dict[str, Any] = {
            "model": request.name,
            **section.result,
            "settings": [f"{e.setting} ({e.speedup:.3f})" for e in section.entries],
            "seconds": round(time.monotonic() - began, 1),
        }
        if given.exhaustive:
            row["exhaustive"] = _exhaustive(request, executor, folder, found, given.exhaustive)
        return row, recorded_seconds(folder.parent / RESULTS)


def _exhaustive(
    request: tune.Request, executor: Stored, folder: Path, found: Any, count: int
) -> dict[str, Any]:
    """The best of all combinations of some settings, beside the result of the search."""
    alone: dict[Setting, float] = {}
    for judged in found.measured:
        if len(judged.program.settings) == 1:
            alone.setdefault(judged.program.settings[0], judged.comparison.ratio.median)
    best = sorted(alone, key=lambda s: -alone[s])[:count]
    kept = [k.setting for k in found.settings]
    chosen = list(dict.fromkeys([*kept, *best]))[: max(count, len(kept))]
    problem = tune.opened(request, folder).problem
    ranked = Search(problem, executor).exhaustive(chosen)
    by_settings = dict(ranked)
    ours = by_settings.get(found.best.settings, 1.0)
    return {
        "combinations": len(ranked),
        "best": label(ranked[0][0]),
        "best_speedup": round(ranked[0][1], 4),
        "search_speedup": round(ours, 4),
        "behind": round(ranked[0][1] / ours - 1, 4),
    }


@contextlib.contextmanager
def _executor() -> Iterator[tuple[Stored, Path]]:
    place = Path(tempfile.mkdtemp(prefix="mlirfuse-tune-"))
    store = Store(place)
    executor = Stored(LocalExecutor(place / "tasks"), store)
    folder = place / "model"
    folder.mkdir()
    try:
        yield executor, folder
    finally:
        executor.close()
        shutil.rmtree(place, ignore_errors=True)


def recorded_seconds(results_file: Path) -> dict[str, list[float]]:
    """Times of compilations; and of measurements, for each program and round.

    Args:
      results_file: of a store.
    """
    found: dict[str, list[float]] = {"compile": [], "measure": []}
    for line in results_file.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry["status"] != "ok":
            continue
        if entry["function"].endswith(":compile_candidate"):
            found["compile"].append(round(entry["seconds"], 3))
        elif entry["function"].endswith(":measure"):
            times = entry["value"]["seconds"]
            turns = sum(len(rounds) for sets in times.values() for rounds in sets)
            found["measure"].append(round(entry["seconds"] / turns, 4))
    return found


def _head_seconds() -> float:
    """Time of the tuner itself for a task: its key, and its result in the store."""
    from mlirfuse.tuning.execution.task import OK, Outcome, Task

    count = 50
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder, "store"))
        program = Path(folder, "program")
        began = time.perf_counter()
        for index in range(count):
            program.write_bytes(bytes([index]) * (1 << 20))
            task = Task("module:function", {"index": index}, {"program": program})
            store.add(task, Outcome(task.key, OK, files={"program": program}))
        return round((time.perf_counter() - began) / count, 5)


def _write(path: Path, found: dict[str, Any]) -> None:
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
