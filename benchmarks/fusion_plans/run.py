"""`python -m benchmarks fusion_plans`: compiles random plans that are one kernel by the rules."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator

from benchmarks.fusion_plans import sample
from mlirfuse import targets
from mlirfuse.core import MlirfuseError
from mlirfuse.fusion_plan import FusionPlan
from mlirfuse.fusion_plan.check import fits
from mlirfuse.fusion_plan.rules import TARGETS

_log = logging.getLogger("benchmarks")

TIMEOUT_S = 300.0
"""Seconds that a step of the compiler may take for one plan."""


def wrong(target: str, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """The plans of a sample that are not one kernel although the rules say so, with the error."""
    machine = targets.parse(target)
    promised = (p for p in sample.plans(seed) if fits(p, machine))
    for _, plan in zip(range(count), promised, strict=False):
        _log.info("%s: %s", target, plan)
        try:
            FusionPlan.of(plan, machine).compile(timeout=TIMEOUT_S)
        except MlirfuseError as error:
            yield str(plan), str(error)


def main(arguments: list[str]) -> int:
    """Prints each wrong plan, and returns 1 if there is one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks fusion_plans", description=__doc__)
    parser.add_argument("--target", default=",".join(TARGETS), metavar="TARGET,...")
    parser.add_argument("--count", type=int, default=125, help="plans for each target")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    _log.setLevel(logging.INFO)
    total = 0
    for target in given.target.split(","):
        found = 0
        for plan, error in wrong(target, given.count, given.seed):
            found += 1
            sys.stdout.write(f"{target}: {plan}\n  {error}\n")
            sys.stdout.flush()
        sys.stdout.write(f"{target}: {given.count - found} of {given.count} are one kernel\n")
        total += found
    return 1 if total else 0
