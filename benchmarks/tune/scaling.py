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
    for compilers, devices in WORKERS:
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
    return {
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
    return "\n".join(lines)


def _time(seconds: float) -> str:
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.0f} s"
