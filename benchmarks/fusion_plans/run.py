"""`python -m benchmarks fusion_plans`: compiles random plans that are one kernel by the rules.

Those for a target that runs on this machine are called, too, and compared with the ops one by one
in float64.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime
import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import results
from benchmarks.fusion_plans import sample
from mlirfuse import targets
from mlirfuse.core import MlirfuseError
from mlirfuse.fusion_plan import Description, FusionPlan
from mlirfuse.fusion_plan.check import fits
from mlirfuse.fusion_plan.rules import TARGETS
from mlirfuse.support.atomic_file import replacing
from mlirfuse.targets.base import Target

_log = logging.getLogger("benchmarks")

TESTS = Path(__file__).parents[2] / "tests"
"""The tests, whose helpers have the ops in float64."""

RESULTS = results.FOLDER / "fusion_plans.json"
"""One entry for each target."""

PACKAGES = ("mlirfuse", "iree-base-compiler", "triton")
"""Packages whose versions are recorded."""

TIMEOUT_S = 300.0
"""Seconds that a step of the compiler may take for one plan."""

TOLERANCE = {"f32": 2e-5, "f16": 2e-3, "bf16": 1.6e-2}
"""Largest error over the largest result: a rounding of the output, and f32 sums."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """One plan of a sample.

    Attributes:
      plan: the plan.
      strategy: the way in which it was compiled; empty where it is not one kernel.
      error: the largest error over the tolerance; None where it was not called.
      failure: the reason why it is not one kernel, or cannot be called.
    """

    plan: Description
    strategy: str = ""
    error: float | None = None
    failure: str = ""

    @property
    def ok(self) -> bool:
        """Whether it is one kernel with the right results."""
        return not self.failure and (self.error is None or self.error <= 1.0)

    def __str__(self) -> str:
        """The plan and what is wrong with it."""
        wrong = self.failure or f"the error is {self.error:.3g} times the tolerance"
        return f"{self.plan}\n  {wrong}"


def outcomes(target: str, count: int, seed: int, *, call: bool) -> Iterator[Outcome]:
    """Compiles the plans of a sample that are one kernel by the rules.

    Args:
      target: the machine.
      count: how many plans.
      seed: seed of the sample.
      call: whether to call them on this machine's device, and compare.
    """
    machine = targets.parse(target)
    promised = (p for p in sample.plans(seed) if fits(p, machine))
    for _, plan in zip(range(count), promised, strict=False):
        _log.info("%s: %s", target, plan)
        try:
            made = FusionPlan.of(plan, machine).compile(timeout=TIMEOUT_S)
            error = largest_error(made) if call else None
        except MlirfuseError as failure:
            yield Outcome(plan, failure=str(failure))
        else:
            yield Outcome(plan, made.strategy, error)


def largest_error(plan: FusionPlan) -> float:
    """The largest error of a compiled plan's results over the tolerance of its type."""
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    from helpers import plan_reference

    x, values = plan_reference.random_values(plan.description)
    args = plan.args()
    for (index, name), value in values.items():
        args.set(index, **{name: value})
    made = plan.execute(x, args=args)
    made = made if isinstance(made, tuple) else (made,)
    wanted = plan_reference.run(plan.description, x, values)
    pairs = zip(made, wanted, strict=True)
    return max(_error(plan, np.asarray(got, np.float64), np.asarray(want)) for got, want in pairs)


def _error(plan: FusionPlan, got: np.ndarray, want: np.ndarray) -> float:
    """The largest error over the tolerance; integers may be rounded to the next one."""
    with np.errstate(invalid="ignore"):
        wrong = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0.0, np.abs(got - want))
    if plan.output.dtype == "i8":
        return float(np.max(wrong))
    finite = np.abs(want[np.isfinite(want)])
    scale = max(1.0, float(np.max(finite, initial=0.0)))
    largest = float(np.max(wrong)) / (TOLERANCE[plan.input.dtype] * scale)
    return largest if np.isfinite(largest) else float("inf")


def summary(target: str, seed: int, found: list[Outcome]) -> dict[str, Any]:
    """The entry of a target in the record."""
    called = [o.error for o in found if o.error is not None]
    return {
        "target": target,
        "date": datetime.date.today().isoformat(),
        "versions": {package: metadata.version(package) for package in PACKAGES},
        "seed": seed,
        "plans": len(found),
        "one_kernel": sum(not o.failure for o in found),
        "called": len(called),
        "right": sum(error <= 1.0 for error in called),
        "largest_error": round(max(called, default=0.0), 3),
        "device": _device(targets.parse(target)) if called else "",
        "strategies": dict(collections.Counter(o.strategy for o in found if o.strategy)),
    }


def _device(target: Target) -> str:
    """The name of this machine's device for a target."""
    if target.name == "cpu":
        return results.cpu_name()
    from iree.runtime import get_driver

    (first, *_) = get_driver(target.device.partition("://")[0]).query_available_devices()
    return str(first["name"])


def table(entries: Iterable[Mapping[str, Any]]) -> str:
    """The record as a table of Markdown."""
    lines = [
        "| target | plans | one kernel | called on | right | largest error, of the tolerance |",
        "| --- | ---: | ---: | --- | ---: | ---: |",
    ]
    for e in entries:
        device = e.get("device") or e["target"]
        if e["called"] < e["plans"]:
            device += f" ({e['called']})"
        called = (device, e["right"], e["largest_error"])
        cells = called if e["called"] else ("", "", "")
        row = (e["target"], e["plans"], e["one_kernel"], *cells)
        lines.append(f"| {' | '.join(map(str, row))} |")
    return "\n".join(lines)


def recorded() -> str:
    """The table of the record."""
    return table(json.loads(RESULTS.read_text(encoding="utf-8")))


def main(arguments: list[str]) -> int:
    """Prints each wrong plan, and returns 1 if there is one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks fusion_plans", description=__doc__)
    parser.add_argument("--target", default=",".join(TARGETS), metavar="TARGET,...")
    parser.add_argument("--count", type=int, default=125, help="plans for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--call", default="cpu", metavar="TARGET,...", help="those that this machine runs"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    _log.setLevel(logging.INFO)
    wrong = 0
    for target in given.target.split(","):
        found = []
        for outcome in outcomes(
            target, given.count, given.seed, call=target in given.call.split(",")
        ):
            found.append(outcome)
            if not outcome.ok:
                sys.stdout.write(f"{target}: {outcome}\n")
                sys.stdout.flush()
        entry = summary(target, given.seed, found)
        sys.stdout.write(f"{json.dumps(entry)}\n")
        _save(given.results, entry)
        wrong += sum(not outcome.ok for outcome in found)
    return 1 if wrong else 0


def _save(file: Path, entry: dict[str, Any]) -> None:
    """Puts the entry of a target into the record, in place of the one before."""
    entries = json.loads(file.read_text()) if file.exists() else []
    entries = [e for e in entries if e["target"] != entry["target"]] + [entry]
    entries.sort(key=lambda e: e["target"])
    with replacing(file) as temporary:
        temporary.write_text(json.dumps(entries, indent=1) + "\n")
