"""`python -m benchmarks.fuzz --minutes=60`: checks random programs with random switches."""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import datetime
import json
import logging
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.fuzz import damaged
from benchmarks.fuzz.check import Checked, Outcome, check, check_all, switches
from benchmarks.fuzz.graphs import DIALECTS, graph
from benchmarks.fuzz.kinds import KINDS, kinds
from benchmarks.fuzz.page import REGRESSIONS
from mlirfuse.support.atomic_file import replacing

RESULTS = results.FOLDER / "fuzz.json"
"""One entry for each run."""

HEADER = "// checked: "
"""First line of a kept program; target and switches follow as JSON."""

_PACKAGES = ("mlirfuse", "iree-base-compiler", "iree-base-runtime")


def main(arguments: list[str] | None = None) -> int:
    """Runs until the time is over; returns 1 if a program fails."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="duration (default: 10)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--steps", type=int, default=10, help="size of a program (default: 10)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--together", type=int, default=12, help="programs a module (default: 12)")
    parser.add_argument("--target", default="cpu", help="others than cpu only compile")
    parser.add_argument(
        "--dialect", choices=sorted(DIALECTS), help="of all programs; all in turns by default"
    )
    parser.add_argument(
        "--damaged", type=int, metavar="N", help="N damaged inputs of each kind, and no programs"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--failures", type=Path, default=REGRESSIONS, metavar="FOLDER")
    given = parser.parse_args(arguments)
    logging.getLogger("mlirfuse").setLevel(logging.ERROR)
    if given.damaged is not None:
        found = damaged.sweep(given.damaged, given.seed)
        print(json.dumps(found["inputs"]))
        _save(given.results.with_name("damaged.json"), found)
        return 1 if any(kind["failed"] for kind in found["inputs"].values()) else 0
    run = _run(given)
    _save(given.results, run)
    print(json.dumps(run["outcomes"]))
    return 1 if any(not Outcome(name).ok for name in run["outcomes"]) else 0


@dataclasses.dataclass(frozen=True, slots=True)
class _Batch:
    """Programs that are compiled in one module, with the switches of the first seed."""

    seeds: tuple[int, ...]
    steps: int
    target: str
    dialect: str

    def alone(self) -> list[_Batch]:
        return [dataclasses.replace(self, seeds=(seed,)) for seed in self.seeds]

    def text(self, seed: int, name: str) -> str:
        return graph(seed, self.steps, name, self.dialect)


def _run(given: argparse.Namespace) -> dict[str, Any]:
    began = time.monotonic()
    outcomes: collections.Counter[str] = collections.Counter()
    seen: collections.Counter[str] = collections.Counter()
    dialects: collections.Counter[str] = collections.Counter()
    groups, switched, seed = 0, 0, given.seed
    with contextlib.suppress(KeyboardInterrupt):  # finished programs count
        while time.monotonic() < began + given.minutes * 60:
            batches = []
            for first in range(seed, seed + given.jobs * given.together, given.together):
                turn = sorted(DIALECTS)[first // given.together % len(DIALECTS)]
                seeds = tuple(range(first, first + given.together))
                batches.append(_Batch(seeds, given.steps, given.target, given.dialect or turn))
            for batch, found_each in zip(batches, _all(batches, given.jobs), strict=True):
                chosen = switches(batch.seeds[0])
                switched += len(batch.seeds) if chosen else 0
                dialects[batch.dialect] += len(batch.seeds)
                for program_seed, found in zip(batch.seeds, found_each, strict=True):
                    outcomes[str(found.outcome)] += 1
                    groups += found.groups
                    seen.update(kinds(batch.text(program_seed, "main")))
                    if found.outcome is not Outcome.EQUAL:
                        line = f"{program_seed} {chosen}: {found.outcome}: {found.message}"
                        print(line, file=sys.stderr, flush=True)
                    if not found.outcome.ok:
                        kept = _keep(given.failures, batch, program_seed, chosen, found)
                        print(kept, file=sys.stderr, flush=True)
            seed = batches[-1].seeds[-1] + 1
    return {
        "date": datetime.date.today().isoformat(),
        "versions": {name: metadata.version(name) for name in _PACKAGES},
        "target": given.target,
        "first_seed": given.seed,
        "steps": given.steps,
        "graphs": sum(outcomes.values()),
        "dialects": dict(sorted(dialects.items())),
        "with_switches": switched,
        "groups": groups,
        "seconds": round(time.monotonic() - began),
        "outcomes": dict(sorted(outcomes.items())),
        "kinds": {kind: seen[kind] for kind in KINDS},
    }


def _all(batches: list[_Batch], jobs: int) -> list[list[Checked]]:
    """Checks batches in parallel; if a process crashes, each program in a separate process."""
    try:
        with _pool(jobs) as pool:
            return list(pool.map(_batch, batches))
    except BrokenProcessPool:
        return [[_in_process(part) for part in batch.alone()] for batch in batches]


def _in_process(batch: _Batch) -> Checked:
    try:
        with _pool(1) as pool:
            return pool.submit(_batch, batch).result()[0]
    except BrokenProcessPool:
        return Checked(Outcome.CRASH, "the process crashed")


def _pool(jobs: int) -> concurrent.futures.ProcessPoolExecutor:
    return concurrent.futures.ProcessPoolExecutor(
        jobs, initializer=logging.disable, initargs=(logging.ERROR,)
    )


def _batch(batch: _Batch) -> list[Checked]:
    texts = {f"main{seed}": batch.text(seed, f"main{seed}") for seed in batch.seeds}
    seeds = {f"main{seed}": seed for seed in batch.seeds}
    try:
        found = check_all(texts, switches(batch.seeds[0]), seeds, batch.target)
    except Exception as error:
        failed = Checked(Outcome.ENGINE, f"{type(error).__name__}: {error}")
        return [failed for _ in batch.seeds]
    return [found[name] for name in texts]


def _keep(folder: Path, batch: _Batch, seed: int, chosen: dict[str, Any], found: Checked) -> Path:
    """Writes the smallest program of a seed with the same outcome; else the program itself."""

    def text(steps: int) -> str:
        return graph(seed, steps, "main", batch.dialect)

    def same_outcome(steps: int) -> bool:
        with _pool(1) as pool:
            try:
                arguments = (text(steps), chosen, seed, batch.target)
                return pool.submit(check, *arguments).result().outcome is found.outcome
            except BrokenProcessPool:
                return found.outcome is Outcome.CRASH
            except Exception:
                return found.outcome is Outcome.ENGINE

    steps = next((n for n in range(1, batch.steps) if same_outcome(n)), batch.steps)
    path = folder / f"{found.outcome}_{seed}.mlir"
    path.parent.mkdir(parents=True, exist_ok=True)
    message = " ".join(found.message.split())
    head = json.dumps({"target": batch.target, "switches": chosen})
    path.write_text(f"{HEADER}{head}\n// {message}\n{text(steps)}", encoding="utf-8")
    return path


def _save(path: Path, run: dict[str, Any]) -> None:
    runs = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    with replacing(path) as staged:
        staged.write_text(f"{json.dumps([*runs, run], indent=1)}\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
