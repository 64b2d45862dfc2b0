"""`python -m benchmarks SUITE` measures and prints; `python -m benchmarks docs` writes the page.

`python -m benchmarks cpu`, `gpu`, `gpu_check`, `conformance`, `breadth` and `fusion_plans` have
switches of their own.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

from benchmarks import page, results, tables
from benchmarks.suites import SUITES
from mlirfuse.core import MlirfuseError, UsageError, nearest

GPU = "gpu"

GPU_CHECK = "gpu_check"

CONFORMANCE = "conformance"

BREADTH = "breadth"

CPU = "cpu"

FUSION_PLANS = "fusion_plans"

_log = logging.getLogger("benchmarks")


def main(arguments: list[str] | None = None) -> int:
    """Runs one suite, or writes docs/performance.md from the saved results."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == [GPU]:
        from benchmarks.gpu import measure

        return measure.main(arguments[1:])
    if arguments[:1] == [GPU_CHECK]:
        from benchmarks.gpu.check import run

        return run.main(arguments[1:])
    if arguments[:1] == [CONFORMANCE]:
        from benchmarks.conformance import run as conformance

        return conformance.main(arguments[1:])
    if arguments[:1] == [BREADTH]:
        from benchmarks.breadth import run as breadth

        return breadth.main(arguments[1:])
    if arguments[:1] == [CPU]:
        from benchmarks.cpu import measure as cpu

        return cpu.main(arguments[1:])
    if arguments[:1] == [FUSION_PLANS]:
        from benchmarks.fusion_plans import run as fusion_plans

        return fusion_plans.main(arguments[1:])
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "suite",
        choices=[
            *dict.fromkeys((*SUITES, CPU, GPU, GPU_CHECK, CONFORMANCE, BREADTH, FUSION_PLANS)),
            "docs",
        ],
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
