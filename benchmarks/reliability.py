"""`python -m benchmarks.reliability`: counts survived faults, found mistakes and correct models.

The counts go to benchmarks/results/reliability.json, the source of docs/reliability.md.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import random
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks import results
from benchmarks.fuzz import faults, page
from benchmarks.fuzz.check import Outcome, check_model, switches
from mlirfuse.compilation import open_model
from mlirfuse.debug.bisect import Bisect
from mlirfuse.debug.oracle import Failure
from mlirfuse.options import FusionOptions
from mlirfuse.patterns import PASSES
from mlirfuse.support.atomic_file import replacing

RESULTS = results.FOLDER / "reliability.json"
"""The newest run."""

TESTS = Path(__file__).parents[1] / "tests"
"""Folder of the planted mistakes."""

MODELS = ("bert_block", "llama_block", "mobilenet_v3", "int8_mlp", "moe")
"""Models of the tests that are compiled with random switches: the smallest ones."""

TARGETS = ("cpu", "cpu", "cpu", "cuda", "rocm:gfx942", "vulkan:ampere")
"""Targets in rotation; programs for the CPU are run."""

KIND = {"wrong_constant": "numbers", "dropped_mask": "numbers", "uncompilable": "compile"}
"""Mistake -> the kind of failure to search for."""


def main(arguments: list[str] | None = None) -> int:
    """Runs all checks; returns 1 if a fault is not survived or a mistake is not found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reliability", description=__doc__)
    parser.add_argument("--faults", type=int, default=100, help="faults to inject (default: 100)")
    parser.add_argument("--plants", type=int, default=30, help="mistakes to plant (default: 30)")
    parser.add_argument("--models", type=int, default=60, help="models to compile (default: 60)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--docs", action="store_true", help="only write docs/reliability.md")
    given = parser.parse_args(arguments)
    if given.docs:
        print(page.save())
        return 0
    chance = random.Random(given.seed)
    found = {
        "date": datetime.date.today().isoformat(),
        "versions": {n: metadata.version(n) for n in ("mlirfuse", "iree-base-compiler")},
        "faults": _faults(chance, given.faults),
        "bisect": _bisect(chance, given.plants),
        "models": _models(chance, given.models),
    }
    with replacing(given.results) as path:
        path.write_text(f"{json.dumps(found, indent=1)}\n", encoding="utf-8")
    survived = all(kind["survived"] == kind["injected"] for kind in found["faults"].values())
    correct = all(Outcome(run["outcome"]).ok for run in found["models"])
    return 0 if survived and correct and all(run["found"] for run in found["bisect"]) else 1


def _faults(chance: random.Random, count: int) -> dict[str, dict[str, int]]:
    injected: collections.Counter[str] = collections.Counter()
    survived: collections.Counter[str] = collections.Counter()
    for _ in range(count):
        kind, moment = chance.choice(faults.KINDS), chance.random()
        with tempfile.TemporaryDirectory() as folder:
            damage = faults.inject(Path(folder), kind, moment)
        injected[kind] += 1
        survived[kind] += not damage
        if damage:
            print(f"{kind} at {moment:.3f}: {damage}", file=sys.stderr)
    return {k: {"injected": injected[k], "survived": survived[k]} for k in sorted(injected)}


def _bisect(chance: random.Random, count: int) -> list[dict[str, Any]]:
    sys.path.insert(0, str(TESTS))
    from helpers import planted

    runs = []
    for _ in range(count):
        stages, mistake = chance.choice((2, 4, 8, 16)), chance.choice(sorted(KIND))
        stage = chance.randrange(stages)
        wrong = planted.mistaken(getattr(planted, mistake), stage)
        with (
            mock.patch.dict(PASSES, {planted.GROUPS: wrong}),
            open_model(planted.model(stages), target="cpu", options=FusionOptions()) as work,
        ):
            search = Bisect(work, Failure(kind=KIND[mistake]))
            finding = search.find()
        named = [p for culprit in finding.culprits for p in culprit.decision.ops]
        lines = planted.model(stages).splitlines()
        found = bool(named) and all(f"{stage} = " in lines[_line(p) - 1] for p in named)
        runs.append(
            {
                "mistake": mistake,
                "rewrites": finding.rewrites,
                "compiles": finding.compiles,
                "found": found and len(finding.culprits) == 1,
            }
        )
    return runs


def _models(chance: random.Random, count: int) -> list[dict[str, Any]]:
    """Compiles models with random switches, and compares results with the unfused ones."""
    sys.path.insert(0, str(TESTS))
    from helpers.models import records

    runs = []
    for index in range(count):
        name, target = MODELS[index % len(MODELS)], TARGETS[index // len(MODELS) % len(TARGETS)]
        chosen = _switches(chance) if index >= len(MODELS) else {}
        found = check_model(records.imported(name)[0], chosen, index, target)
        if not found.outcome.ok:
            print(f"{name} for {target} {chosen}: {found}", file=sys.stderr)
        runs.append(
            {
                "model": name,
                "target": target,
                "switches": bool(chosen),
                "groups": found.groups,
                "outcome": str(found.outcome),
            }
        )
    return runs


def _switches(chance: random.Random) -> dict[str, Any]:
    while True:
        chosen = switches(chance.getrandbits(32))
        if chosen:
            return chosen


def _line(location: str) -> int:
    return int(location.split(":")[1])


if __name__ == "__main__":
    raise SystemExit(main())
