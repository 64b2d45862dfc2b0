"""The table of model families, and its file `results/models.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.suites.gpu import mean
from mlirfuse.support.atomic_file import replacing

FILE = "models.json"

PEERS = {"eager": "eager", "compile": "torch.compile", "reduce_overhead": "reduce-overhead"}
"""System -> its column."""

GOAL, MIN_RATIO = 1.1, 0.9

Fields = Mapping[str, Any]

_HEAD = (
    "model",
    "kind",
    "ours ms",
    *PEERS.values(),
    "best over ours",
    "kernels",
    "of the time",
    "MiB",
)


def ratio(fields: Fields) -> float | None:
    """The time of the fastest peer over ours; None where one is missing or ours is wrong."""
    times = fields.get("ms", {})
    others = [times[peer] for peer in PEERS if peer in times]
    if "ours" not in times or not others or "wrong" in fields:
        return None
    return float(min(others) / times["ours"])


def cells(fields: Fields) -> list[str]:
    """A row of the table."""
    times, found = fields.get("ms", {}), ratio(fields)
    shown = [f"{times[s]:.3f}" if s in times else "" for s in ("ours", *PEERS)]
    failed = next((fields[k] for k in ("wrong", "said", "ours_said") if k in fields), "")
    covered = "{} of {}".format(*fields["coverage"]) if fields.get("coverage") else ""
    share = f"{fields['kernel_share']:.0%}" if "kernel_share" in fields else ""
    verdict = failed[:80] if found is None else f"{found:.2f}"
    peak = fields.get("peak", {})
    sides = [peak.get(system) for system in ("ours", "reduce_overhead")]
    memory = " / ".join("" if size is None else f"{size / 2**20:.1f}" for size in sides)
    return [fields["name"], fields["kind"], *shown, verdict, covered, share, memory.strip(" /")]


def summary(record: Fields) -> str:
    """Geometric mean, the share under the goal, and failures."""
    ratios = [found for m in record["models"] if (found := ratio(m)) is not None]
    low = sum(found < MIN_RATIO for found in ratios)
    average = f"{mean(ratios):.2f}" if ratios else "nothing"
    return (
        f"{len(ratios)} of {len(record['models'])} models: {average} over the fastest peer in the"
        f" geometric mean (goal {GOAL}), {low} under {MIN_RATIO}."
    )


def text(record: Fields) -> str:
    """The table and its summary, for a terminal."""
    rows = [_HEAD, *(cells(model) for model in record["models"])]
    widths = [max(len(row[n]) for row in rows) for n in range(len(_HEAD))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]
    return "\n".join([*lines, summary(record)])


def markdown(record: Fields) -> str:
    """The section of docs/performance.md."""
    lines = [
        "## Model families on a GPU",
        "",
        "Models of transformers with the sizes of their configuration classes, two layers and",
        "random weights, f16, batch 1 with 512 tokens (Mamba 64) or 8 images: milliseconds of a",
        "synchronous call, with the default flags; `python -m benchmarks models`. Kernels are",
        "dispatches whose code is ours, and their part of the device's time. MiB is the memory of",
        "a call without the model's, ours / that of reduce-overhead.",
        "",
        f"| {' | '.join(_HEAD)} |",
        "| --- | --- |" + " ---: |" * (len(_HEAD) - 2),
        *(f"| {' | '.join(cells(model))} |" for model in record["models"]),
        "",
        summary(record),
        "",
    ]
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    return "\n".join([*lines, f"Measured on {record['device']}; {versions}", ""])


def save(record: Fields, folder: Path) -> Path:
    """Writes the results; models of the same device and versions that were not run are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    known = json.loads(path.read_text("utf-8")) if path.exists() else {"models": []}
    about = {key: value for key, value in record.items() if key != "models"}
    models = {model["name"]: model for model in record["models"] if _was_reached(model)}
    if {key: value for key, value in known.items() if key != "models"} == about:
        models = {model["name"]: model for model in known["models"]} | models
    with replacing(path) as staged:
        merged = {**about, "models": [*models.values()]}
        staged.write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")
    return path


def _was_reached(model: Fields) -> bool:
    """Whether a model was measured, or could not be."""
    return bool({"ms", "said", "ours_said", "wrong", "skipped"} & model.keys())
