"""Tunes models, and records their times with the default settings and with the tuned ones.

python -m benchmarks tune                             twelve small models on this CPU, some hours
python -m benchmarks tune --minutes=8                 with a time limit for each model
python -m benchmarks tune lstm unet --target=cuda     some of them on a GPU, in f16
python -m benchmarks tune model.onnx                  another model
python -m benchmarks tune --exhaustive=5              all combinations of the 5 best settings too
python -m benchmarks tune --scaling                   the simulation of many workers

The record is written after each model. A model that has a row is not measured again (`--again`),
and with `--store=DIR` a search that was ended goes on from the results in the folder.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import faulthandler
import json
import math
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks import results
from benchmarks.tune import scaling
from benchmarks.tune.importing import Importers
from benchmarks.tune.models import MODELS
from mlirfuse import targets
from mlirfuse.core import MlirfuseError
from mlirfuse.options import FusionOptions
from mlirfuse.runtime import device_choice
from mlirfuse.targets.base import Target
from mlirfuse.tuning.execution.local import LocalExecutor
from mlirfuse.tuning.execution.store import RESULTS, Store, Stored
from mlirfuse.tuning.model import tune
from mlirfuse.tuning.model.problem import label
from mlirfuse.tuning.model.search import Search
from mlirfuse.tuning_profile import application
from mlirfuse.tuning_profile.entry import Setting

RECORDS = {"cpu": "tune.json"}
"""Name of a target -> its record; another target's is `tune_NAME.json`."""

DEFAULT_CANDIDATES = 48

MEASURE_SECONDS = 180.0
"""Time limit of a batch of measurements: the models are small."""

BATCH_BYTES = 24 << 30
"""Memory of a GPU for the programs of a batch."""

MIN_MINUTES = 1.5
"""Time that must be left of `--total-minutes` for a model to be started."""


def main(arguments: Sequence[str]) -> int:
    """Runs the suite."""
    if not faulthandler.is_enabled():
        faulthandler.enable(sys.__stderr__)  # a crash of this process shows where
    given = _arguments(arguments)
    target = targets.parse(given.target)
    record = given.results / RECORDS.get(target.name, f"tune_{target.name}.json")
    given.results.mkdir(parents=True, exist_ok=True)
    if given.scaling:
        recorded_times = given.results / RECORDS["cpu"]
        if not recorded_times.exists():
            recorded_times = results.FOLDER / RECORDS["cpu"]
        found = scaling.simulate(recorded_times)
        _write(given.results / scaling.RECORD, found)
        print(scaling.table(found))
        return 0
    suite = Suite(given, target, record)
    suite.run()
    print(summary(suite.record))
    return 0 if all("error" not in row for row in suite.record["rows"]) else 1


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks tune",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "models", nargs="*", help=f"{', '.join(MODELS)}; or models as for mlirfuse-tune"
    )
    parser.add_argument("--target", default="cpu", help="as for mlirfuse-compile (default: cpu)")
    parser.add_argument(
        "--dtype",
        choices=("float32", "float16", "bfloat16"),
        help="of the twelve models (default: float32 on a CPU, else float16)",
    )
    parser.add_argument("--minutes", type=float, help="time limit for each model")
    parser.add_argument(
        "--total-minutes",
        type=float,
        metavar="N",
        help="time limit of all: no model starts that has no time, the last ones get less",
    )
    parser.add_argument(
        "--at-once",
        type=int,
        default=1,
        metavar="N",
        help="searches beside each other: on each device one measures (default: 1)",
    )
    parser.add_argument("--max-candidates", type=int, default=DEFAULT_CANDIDATES, metavar="N")
    parser.add_argument("--exhaustive", type=int, default=0, metavar="N")
    parser.add_argument("--store", type=Path, metavar="DIR", help="folder that keeps all results")
    parser.add_argument("--again", action="store_true", help="models that have a row, too")
    parser.add_argument("--scaling", action="store_true")
    parser.add_argument("--results", type=Path, default=results.FOLDER, metavar="FOLDER")
    return parser.parse_args(arguments)


class Suite:
    """A run of the suite.

    Args:
      given: the arguments.
      target: the machine.
      path: file of the record; rows of other models in it are kept.
    """

    def __init__(self, given: argparse.Namespace, target: Target, path: Path) -> None:
        self._given, self._target, self._path = given, target, path
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._importers = Importers(max(1, given.at_once))
        self.record = _record(target, path)

    def run(self) -> None:
        """Tunes each model that has no row yet; writes the record after each."""
        given = self._given
        names = given.models or list(MODELS)
        if not given.again:
            done = {row["model"] for row in self.record["rows"] if "error" not in row}
            names = [name for name in names if name not in done]
        with self._place() as place, futures.ThreadPoolExecutor(max(1, given.at_once)) as pool:
            beside = self._target.name in ("cuda", "rocm")
            found = device_choice.environments(self._target.device)
            executor = LocalExecutor(place / "tasks", measures_beside=beside, environments=found)
            try:
                runs = [pool.submit(self._model, name, executor, place) for name in names]
                for run in runs:
                    run.result()
            finally:
                executor.close()
                self._importers.close()
                shutil.rmtree(place / "tasks", ignore_errors=True)

    @contextlib.contextmanager
    def _place(self) -> Iterator[Path]:
        if self._given.store:
            self._given.store.mkdir(parents=True, exist_ok=True)
            yield self._given.store
            return
        with tempfile.TemporaryDirectory(prefix="mlirfuse-tune-") as name:
            yield Path(name)

    def _model(self, name: str, executor: LocalExecutor, place: Path) -> None:
        minutes = self._minutes()
        if minutes is not None and minutes < MIN_MINUTES:
            return
        began = time.monotonic()
        folder = place / Path(name).name
        (folder / "model").mkdir(parents=True, exist_ok=True)
        stored = Stored(executor.share(), Store(folder))
        print(f"{name}: begins", file=sys.stderr, flush=True)
        self._begun(name)
        try:
            row = self._tuned(name, stored, folder, minutes)
        except MlirfuseError as error:
            row = {"model": name, "error": str(error)}
        except Exception as error:
            traceback.print_exc()
            row = {"model": name, "error": f"{type(error).__name__}: {error}"}
        row["device"] = self.record["device"]
        row["seconds"] = round(time.monotonic() - began, 1)
        self._add(row, recorded_seconds(folder / RESULTS))

    def _minutes(self) -> float | None:
        """The time limit of a model that starts now."""
        given = self._given
        limits = [] if given.minutes is None else [float(given.minutes)]
        if given.total_minutes is not None:
            limits.append(given.total_minutes - (time.monotonic() - self._began) / 60)
        return min(limits, default=None)

    def _tuned(
        self, name: str, stored: Stored, folder: Path, minutes: float | None
    ) -> dict[str, Any]:
        given = self._given
        request = self._request(name, minutes)
        dtype = given.dtype or ("float32" if self._target.name == "cpu" else "float16")
        opened = self._importers.opened(request, dtype, folder / "model")
        if request.seconds is not None and minutes is not None:
            left = self._minutes() or 0.0
            request = dataclasses.replace(request, seconds=60 * min(minutes, left))

        stages: list[str] = []

        def say(stage: str, done: int, total: int) -> None:
            if stage not in stages[-1:]:
                stages.append(stage)
                passed = time.monotonic() - self._began
                print(f"{passed:6.1f} s {name}: {stage} ({total})", file=sys.stderr, flush=True)

        section, found = tune.searched(request, opened, stored, say)
        row = {
            "model": request.name,
            **section.result,
            "settings": [f"{e.setting} ({e.speedup:.3f})" for e in section.entries],
        }
        if refused := {**found.failed, **found.wrong}:
            row["refused"] = refused
            for settings, reason in refused.items():
                print(f"{name}: {settings}: {reason}", file=sys.stderr, flush=True)
        if given.exhaustive:
            search = Search(opened.problem, stored)
            row["exhaustive"] = _exhaustive(search, found, given.exhaustive)
        return row

    def _request(self, name: str, minutes: float | None) -> tune.Request:
        given = self._given
        return tune.Request(
            model=name,
            name=name.rpartition(":")[2],
            target=given.target,
            options=FusionOptions(),
            max_candidates=given.max_candidates,
            seconds=None if minutes is None else 60 * minutes,
            measure_seconds=MEASURE_SECONDS,
            batch_bytes=BATCH_BYTES,
        )

    def _begun(self, name: str) -> None:
        """Writes a row that stays if this process dies; an earlier row of the model stays, too."""
        if all(row["model"] != name for row in self.record["rows"]):
            device = self.record["device"]
            self._put({"model": name, "error": "the suite died in this model", "device": device})

    def _add(self, row: dict[str, Any], times: Mapping[str, Sequence[float]]) -> None:
        self._put(row, times)
        print(json.dumps(row), flush=True)

    def _put(
        self, row: dict[str, Any], times: Mapping[str, Sequence[float]] = MappingProxyType({})
    ) -> None:
        """Writes the record with a row in place of the one of the same model."""
        with self._lock:
            rows = [r for r in self.record["rows"] if r["model"] != row["model"]]
            order = {name: index for index, name in enumerate(MODELS)}
            rows.append(row)
            rows.sort(key=lambda r: order.get(r["model"], len(order)))
            self.record["rows"] = rows
            for kind, seconds in times.items():
                self.record["seconds"][kind] += seconds
            _write(self._path, self.record)


def _record(target: Target, path: Path) -> dict[str, Any]:
    """A record with the rows of earlier runs; each row names its device."""
    device = _device(target)
    found: dict[str, Any] = {
        "device": device,
        "target": str(target),
        "date": time.strftime("%Y-%m-%d"),
        "versions": application.versions(),
        "rows": [],
        "seconds": {"compile": [], "measure": []},
        "head_seconds": _head_seconds(),
    }
    if path.exists():
        earlier = json.loads(path.read_text(encoding="utf-8"))
        found["rows"] = [row for row in earlier["rows"] if "device" in row]
        found["seconds"] = earlier["seconds"]
    return found


def _device(target: Target) -> str:
    """The name of the device: of a GPU as PyTorch has it, else of the target."""
    if target.name in ("cuda", "rocm"):
        import torch

        if torch.cuda.is_available():
            return str(torch.cuda.get_device_name())
    return application.device_name(target)


def recorded(folder: Path) -> list[dict[str, Any]]:
    """The records of a folder that have a model: the CPU's first."""
    paths = [folder / name for name in RECORDS.values()]
    paths += sorted(p for p in folder.glob("tune_*.json") if p.name != scaling.RECORD)
    records = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]
    for record in records:
        record["rows"] = [row for row in record["rows"] if "device" in row]
    return [record for record in records if record["rows"]]


def summary(record: Mapping[str, Any]) -> str:
    """The rows as a table of Markdown, and the geometric mean of the gains."""
    devices = dict.fromkeys(row["device"] for row in record["rows"])
    lines = [
        f"{', '.join(devices) or record['device']}, {record['date']}:",
        "",
        "| model | default, ms | tuned, ms | faster (95 % interval) | tried | settings |",
        "| --- | ---: | ---: | --- | ---: | --- |",
    ]
    for row in record["rows"]:
        lines.append(_line(row))
    gains = speedups(record["rows"])
    if gains:
        mean = math.exp(sum(map(math.log, gains)) / len(gains))
        lines += ["", f"Geometric mean of {len(gains)} models: {mean:.3f}."]
    return "\n".join([*lines, *_exhaustive_lines(record["rows"])])


def _exhaustive_lines(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The results of exhaustive searches beside those of the search, as a list."""
    found = [(row["model"], row["exhaustive"]) for row in rows if "exhaustive" in row]
    if not found:
        return []
    return [
        "",
        "All combinations of some settings, and the result of the search among them:",
        "",
        *(
            f"- {model}: of {e['combinations']} combinations {e['best']} is the fastest,"
            f" {e['best_speedup']:.3f}; the search's {e['search_speedup']:.3f} is behind by"
            f" {max(0.0, e['behind']):.1%}."
            for model, e in found
        ),
    ]


def speedups(rows: Iterable[Mapping[str, Any]]) -> list[float]:
    """The gain of each model that was tuned: 1 where the default is the result."""
    return [row.get("speedup", 1.0) for row in rows if "error" not in row]


def _line(row: Mapping[str, Any]) -> str:
    if "error" in row:
        return f"| {row['model']} | | | failed: {row['error']} | | |"
    settings = "; ".join(row["settings"]) or "the default"
    if "speedup" not in row:
        return f"| {row['model']} | | | 1 | {row['tried']} | {settings} |"
    low, high = row["interval"]
    return (
        f"| {row['model']} | {row['default_ms']:.4g} | {row['tuned_ms']:.4g}"
        f" | {row['speedup']:.3f} ({low:.3f} to {high:.3f}) | {row['tried']} | {settings} |"
    )


def _exhaustive(search: Search, found: Any, count: int) -> dict[str, Any]:
    """The best of all combinations of some settings, beside the result of the search."""
    alone: dict[Setting, float] = {}
    for judged in found.measured:
        if len(judged.program.settings) == 1:
            alone.setdefault(judged.program.settings[0], judged.comparison.ratio.median)
    best = sorted(alone, key=lambda s: -alone[s])[:count]
    kept = [k.setting for k in found.settings]
    chosen = list(dict.fromkeys([*kept, *best]))[: max(count, len(kept))]
    ranked = search.exhaustive(chosen)
    by_settings = dict(ranked)
    ours = by_settings.get(found.best.settings, 1.0)
    return {
        "combinations": len(ranked),
        "best": label(ranked[0][0]),
        "best_speedup": round(ranked[0][1], 4),
        "search_speedup": round(ours, 4),
        "behind": round(ranked[0][1] / ours - 1, 4),
    }


def recorded_seconds(results_file: Path) -> dict[str, list[float]]:
    """Times of compilations; and of measurements, for each program and round.

    Args:
      results_file: of a store; a search that ended before its first result has none.
    """
    found: dict[str, list[float]] = {"compile": [], "measure": []}
    if not results_file.exists():
        return found
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
