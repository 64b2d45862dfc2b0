"""`python -m benchmarks.fuzz --minutes=60`: random programs and switches, counted and kept."""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import datetime
import json
import logging
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.fuzz.check import Checked, Outcome, check, check_all, switches
from benchmarks.fuzz.graphs import graph
from benchmarks.fuzz.page import REGRESSIONS
from mlirfuse.backend.outputs import replacing

RESULTS = results.FOLDER / "fuzz.json"
"""One entry for each run."""

HEADER = "// checked: "
"""Starts a kept program; target and switches follow, as JSON."""

_PACKAGES = ("mlirfuse", "iree-base-compiler", "iree-base-runtime")


def main(arguments: list[str] | None = None) -> int:
    """Runs until the time is over; 1 when something failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default: 10)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--steps", type=int, default=10, help="size of a program (default: 10)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--together", type=int, default=12, help="programs a module (default: 12)")
    parser.add_argument("--target", default="cpu", help="another than cpu only compiles")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--failures", type=Path, default=REGRESSIONS, metavar="FOLDER")
    given = parser.parse_args(arguments)
    logging.getLogger("mlirfuse").setLevel(logging.ERROR)
    run = _run(given)
    _save(given.results, run)
    print(json.dumps(run["outcomes"]))
    return 1 if any(not Outcome(name).ok for name in run["outcomes"]) else 0


def _run(given: argparse.Namespace) -> dict[str, Any]:
    began = time.monotonic()
    outcomes: collections.Counter[str] = collections.Counter()
    groups, switched, seed = 0, 0, given.seed
    with concurrent.futures.ProcessPoolExecutor(
        given.jobs, initializer=logging.disable, initargs=(logging.ERROR,)
    ) as pool:
        while time.monotonic() < began + given.minutes * 60:
            batches = [
                range(first, first + given.together)
                for first in range(seed, seed + given.jobs * given.together, given.together)
            ]
            found_all = pool.map(
                _batch, batches, *zip(*[(given.steps, given.target)] * len(batches), strict=True)
            )
            for seeds, found_each in zip(batches, found_all, strict=True):
                chosen = switches(seeds[0])
                switched += len(seeds) if chosen else 0
                for number, found in zip(seeds, found_each, strict=True):
                    outcomes[str(found.outcome)] += 1
                    groups += found.groups
                    if found.outcome is not Outcome.EQUAL:
                        said = f"{number} {chosen}: {found.outcome}: {found.message}"
                        print(said, file=sys.stderr, flush=True)
                    if not found.outcome.ok:
                        print(_keep(given, number, chosen, found), file=sys.stderr, flush=True)
            seed = batches[-1].stop
    return {
        "date": datetime.date.today().isoformat(),
        "versions": {name: metadata.version(name) for name in _PACKAGES},
        "target": given.target,
        "first_seed": given.seed,
        "steps": given.steps,
        "graphs": seed - given.seed,
        "with_switches": switched,
        "groups": groups,
        "seconds": round(time.monotonic() - began),
        "outcomes": dict(sorted(outcomes.items())),
    }


def _batch(seeds: Sequence[int], steps: int, target: str) -> list[Checked]:
    """The programs of the seeds; their switches are those of the first."""
    texts = {f"main{seed}": graph(seed, steps, f"main{seed}") for seed in seeds}
    numbers = {f"main{seed}": seed for seed in seeds}
    try:
        found = check_all(texts, switches(seeds[0]), numbers, target)
    except Exception as error:
        said = Checked(Outcome.ENGINE, f"{type(error).__name__}: {error}")
        return [said for _ in seeds]
    return [found[name] for name in texts]


def _keep(given: argparse.Namespace, seed: int, chosen: dict[str, Any], found: Checked) -> Path:
    """Writes the smallest program of the seed that ends the same way alone; else the program."""

    def alike(steps: int) -> bool:
        try:
            again = check(graph(seed, steps), chosen, seed, given.target)
        except Exception:
            return found.outcome is Outcome.ENGINE
        return again.outcome is found.outcome

    least = next((n for n in range(1, given.steps) if alike(n)), given.steps)
    path: Path = given.failures / f"{found.outcome}_{seed}.mlir"
    path.parent.mkdir(parents=True, exist_ok=True)
    message = " ".join(found.message.split())
    head = json.dumps({"target": given.target, "switches": chosen})
    text = f"{HEADER}{head}\n// {message}\n{graph(seed, least)}"
    path.write_text(text, encoding="utf-8")
    return path


def _save(path: Path, run: dict[str, Any]) -> None:
    runs = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    with replacing(path) as staged:
        staged.write_text(f"{json.dumps([*runs, run], indent=1)}\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
