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
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.fuzz.check import Checked, Outcome, check, switches
from benchmarks.fuzz.graphs import graph
from mlirfuse.backend.outputs import replacing
from mlirfuse.core import MlirfuseError

RESULTS = results.FOLDER / "fuzz.json"
"""One entry for each run."""

FAILURES = Path(__file__).parents[2] / "tests" / "fuzz" / "regressions"
"""A failing program becomes a file of this folder, and with it a test."""

HEADER = "// switches: "

_PACKAGES = ("mlirfuse", "iree-base-compiler", "iree-base-runtime")


def main(arguments: list[str] | None = None) -> int:
    """Runs until the time is over; 1 when something failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default: 10)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--steps", type=int, default=10, help="size of a program (default: 10)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--failures", type=Path, default=FAILURES, metavar="FOLDER")
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
    with concurrent.futures.ProcessPoolExecutor(given.jobs) as pool:
        while time.monotonic() < began + given.minutes * 60:
            seeds = range(seed, seed + given.jobs)
            found_all = pool.map(_one, seeds, [given.steps] * given.jobs)
            for number, found in zip(seeds, found_all, strict=True):
                outcomes[str(found.outcome)] += 1
                groups += found.groups
                switched += bool(switches(number))
                if found.outcome is not Outcome.EQUAL:
                    print(f"{number}: {found.outcome}: {found.message}", file=sys.stderr)
                if not found.outcome.ok:
                    print(_keep(given, number, found), file=sys.stderr)
            seed += given.jobs
    return {
        "date": datetime.date.today().isoformat(),
        "versions": {name: metadata.version(name) for name in _PACKAGES},
        "first_seed": given.seed,
        "steps": given.steps,
        "graphs": seed - given.seed,
        "with_switches": switched,
        "groups": groups,
        "seconds": round(time.monotonic() - began),
        "outcomes": dict(sorted(outcomes.items())),
    }


def _one(seed: int, steps: int) -> Checked:
    try:
        return check(graph(seed, steps), switches(seed), seed)
    except MlirfuseError as error:
        return Checked(Outcome.REFUSED, str(error))
    except Exception as error:
        return Checked(Outcome.ENGINE, f"{type(error).__name__}: {error}")


def _keep(given: argparse.Namespace, seed: int, found: Checked) -> Path:
    """Writes the smallest program of the seed that ends the same way."""
    least = next(
        (n for n in range(1, given.steps) if _one_alike(seed, n, found.outcome)), given.steps
    )
    path: Path = given.failures / f"{found.outcome}_{seed}.mlir"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = f"{HEADER}{json.dumps(switches(seed))}\n// {found.message}\n{graph(seed, least)}"
    path.write_text(text, encoding="utf-8")
    return path


def _one_alike(seed: int, steps: int, outcome: Outcome) -> bool:
    return check(graph(seed, steps), switches(seed), seed).outcome is outcome


def _save(path: Path, run: dict[str, Any]) -> None:
    runs = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    with replacing(path) as staged:
        staged.write_text(f"{json.dumps([*runs, run], indent=1)}\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
