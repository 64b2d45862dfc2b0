"""The find-db: the fastest way to compile each plan, by measurement on this machine."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from mlirfuse.fusion_plan.description import Description
from mlirfuse.runtime.inputs import random_inputs
from mlirfuse.runtime.module import FusedModule
from mlirfuse.targets.base import Target
from mlirfuse.targets.store import MeasurementFile, iree_version

ROUNDS = 15
"""Rounds in which all candidates are called in turns; the median counts."""

FILE = MeasurementFile(
    variable="MLIRFUSE_FIND_DB",
    name="find_db.json",
    content="the fastest configurations of fusion plans",
    is_valid=lambda entry: all(
        isinstance(e["strategy"], str) and isinstance(e["iree"], str) for e in entry.values()
    ),
    invalid="{file} is damaged; delete it, and compile the plans with find=True again",
)


def winner(plan: Description, target: Target) -> str | None:
    """Name of the strategy that was measured to be the fastest; None where none was measured."""
    entry: Mapping[str, Any] | None = (FILE.entry(target) or {}).get(plan.key())
    if entry is None or entry["iree"] != iree_version():
        return None
    name: str = entry["strategy"]
    return name


def store(plan: Description, target: Target, strategy: str, times: Mapping[str, float]) -> None:
    """Stores a winner with the microseconds of all candidates."""
    if FILE.path() is None:
        return
    entries = dict(FILE.entry(target) or {})
    entries[plan.key()] = {"strategy": strategy, "us": dict(times), "iree": iree_version()}
    FILE.store(target, entries)


def measured(candidates: Mapping[str, FusedModule]) -> dict[str, float]:
    """Microseconds of a call of each candidate, on arguments that are the same for all."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    first = next(iter(candidates.values()))
    values = random_inputs(first.inputs, 0, ())
    for number in range(ROUNDS + 1):
        for name, module in candidates.items():
            start = time.perf_counter()
            module(*values)
            if number:  # the first call opens the device
                times[name].append(time.perf_counter() - start)
    return {name: sorted(taken)[len(taken) // 2] * 1e6 for name, taken in times.items()}
