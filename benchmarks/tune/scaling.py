"""The search on simulated machines, with recorded times of compilations and measurements."""

from __future__ import annotations

import json
import math
import random
import tempfile
from pathlib import Path
from typing import Any

from mlirfuse.tuning.execution.simulated import SimulatedExecutor
from mlirfuse.tuning.execution.task import COMPILE, MEASURE
from mlirfuse.tuning.model.modelled import ModelledModel
from mlirfuse.tuning.model.search import Search

RECORD = "tune_scaling.json"

CANDIDATES = 2000
"""Single settings: the kernel configurations of a large model."""

SAME = 0.4
"""Part of the settings that do not change the program, as of the recorded models."""

SPREAD = 0.06
"""Standard deviation of the logarithm of a setting's effect on the time of a call."""

WORKERS = ((1, 1), (4, 1), (16, 2), (64, 8), (125, 16), (250, 32), (500, 64), (900, 100))
"""Numbers of compile workers and of devices; the last are 1,000 together."""

UNBOUNDED = 10 * CANDIDATES
"""A number of workers for which no task waits."""


def simulate(record: Path) -> dict[str, Any]:
    """The rows of the table.

    Args:
      record: of `python -m benchmarks tune`.
    """
    recorded = json.loads(record.read_text(encoding="utf-8"))
    generator = random.Random(0)
    effects = {
        f"setting{i}": math.exp(generator.gauss(0.03, SPREAD))
        for i in range(round(CANDIDATES * (1 - SAME)))
    }
    rows: list[dict[str, Any]] = []
    for compilers, devices in (*WORKERS, (UNBOUNDED, UNBOUNDED)):
        with tempfile.TemporaryDirectory() as folder:
            model = ModelledModel(
                Path(folder),
                effects,
                idle=tuple(f"idle{i}" for i in range(round(CANDIDATES * SAME))),
                compile_seconds=recorded["seconds"]["compile"],
                measure_seconds=recorded["seconds"]["measure"],
            )
            executor = SimulatedExecutor(compilers, devices, model.answer, recorded["head_seconds"])
            found = Search(model.problem(), executor, max_candidates=CANDIDATES).run()
            rows.append(
                {
                    "compilers": compilers,
                    "devices": devices,
                    "seconds": round(executor.now(), 1),
                    "compile_busy": round(executor.utilisation(COMPILE), 4),
                    "measure_busy": round(executor.utilisation(MEASURE), 4),
                    "tasks": executor.count(COMPILE) + executor.count(MEASURE),
                    "speedup": round(found.whole.ratio.median, 3) if found.whole else 1.0,
                }
            )
    unbounded = rows.pop()
    return {
        "unbounded_seconds": unbounded["seconds"],
        "candidates": CANDIDATES,
        "device": recorded["device"],
        "head_seconds": recorded["head_seconds"],
        "rows": rows,
    }


def table(found: dict[str, Any]) -> str:
    """The rows as a table of Markdown."""
    first = found["rows"][0]["seconds"]
    lines = [
        "| compile workers | devices | wall time | faster than one | compile workers busy"
        " | devices busy | tasks |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in found["rows"]:
        lines.append(
            f"| {row['compilers']} | {row['devices']} | {_time(row['seconds'])}"
            f" | {first / row['seconds']:.1f} | {row['compile_busy']:.0%}"
            f" | {row['measure_busy']:.0%} | {row['tasks']} |"
        )
    return "\n".join([*lines, "", _saturation(found)])


def _saturation(found: dict[str, Any]) -> str:
    """Where more workers save little, in a sentence."""
    least = found["unbounded_seconds"]
    near = next((r for r in found["rows"] if r["seconds"] < 2 * least), None)
    text = (
        f"It saturates at {_time(least)}, the time with a worker for each task, in which steps of"
        " the search wait for each other"
    )
    if near is None:
        return f"{text}; these workers take more than twice as long."
    workers = f"{near['compilers']} compile workers and {near['devices']} devices"
    return f"{text}; {workers} take less than twice as long."


def _time(seconds: float) -> str:
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.0f} s"
