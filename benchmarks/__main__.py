"""`python -m benchmarks SUITE` measures and prints; `python -m benchmarks docs` writes the page.

The suites of `OWN_MAIN` have switches of their own: `python -m benchmarks breadth --help`.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from pathlib import Path

from benchmarks import page, results, tables
from benchmarks.suites import SUITES
from mlirfuse.core import MlirfuseError, UsageError, nearest

OWN_MAIN = {
    "cpu": "benchmarks.cpu.measure",
    "gpu": "benchmarks.gpu.measure",
    "gpu_check": "benchmarks.gpu.check.run",
    "conformance": "benchmarks.conformance.run",
    "breadth": "benchmarks.breadth.run",
    "models": "benchmarks.families.run",
    "packages": "benchmarks.packages.run",
    "tune": "benchmarks.tune.measure",
    "fusion_plans": "benchmarks.fusion_plans.run",
    "fusion_plan_speed": "benchmarks.fusion_plans.speed",
}
"""Suite with a command line of its own -> the module whose `main` takes it."""

_log = logging.getLogger("benchmarks")


def main(arguments: list[str] | None = None) -> int:
    """Runs one suite, or writes docs/performance.md from the saved results."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] in OWN_MAIN:
        module = importlib.import_module(OWN_MAIN[arguments[0]])
        return int(module.main(arguments[1:]))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "suite",
        choices=[*dict.fromkeys((*SUITES, *OWN_MAIN)), "docs"],
    )
    parser.add_argument("--quick", action="store_true", help="few workloads and rounds")
    parser.add_argument(
        "--only",
        default="",
        metavar="WORD,...",
        help="workloads whose names contain one of the words",
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=results.FOLDER,
        metavar="FOLDER",
        help="folder of the results",
    )
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("benchmarks").setLevel(logging.INFO)
    try:
        if given.suite == "docs":
            print(page.save(given.results))
        else:
            return _measure(given)
    except MlirfuseError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _measure(given: argparse.Namespace) -> int:
    suite, quick = SUITES[given.suite], given.quick
    assert suite.run is not None
    words = [word.lower() for word in given.only.split(",") if word]
    work = suite.quick_work if quick and not words else suite.work
    chosen = [w for w in work if not words or any(word in w.lower() for word in words)]
    if not chosen:
        raise UsageError(f"--only={given.only} names no work{nearest(given.only, work)}")
    load = os.getloadavg()[0]
    if load > results.MAX_QUIET_LOAD:
        _log.warning(
            "other processes are running (load %.1f): the ratios will be wrong, above all those "
            "against PyTorch, whose threads wait for each other by spinning",
            load,
        )
    rows = suite.run(chosen, quick)
    if not rows:
        raise MlirfuseError(f"{given.suite}: nothing could be measured")
    complete = [row.work for row in rows] == list(suite.work)
    measured = results.describe(given.suite, rows, load=load, quick=quick, complete=complete)
    for table in suite.tables(measured):
        tables.show(table)
    print(results.machine(measured))
    print(measured.save(given.results))
    return 0 if len(rows) == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
