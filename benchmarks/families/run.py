"""Model families beside eager PyTorch and torch.compile: `python -m benchmarks models`.

Each model of `benchmarks.families.zoo` has the sizes of its configuration class, two layers and
random weights. Processes compile all of them, with the default flags of mlirfuse and with
torch.compile; then one process compares the results with float64 and times synchronous calls.

  python -m benchmarks models
  python -m benchmarks models --only=Llama,BERT
  python -m benchmarks models --compile-only --target=cuda:sm_90     without a GPU
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.families import report
from benchmarks.families.zoo import BY_NAME
from benchmarks.workers import Pipeline
from mlirfuse.core import MlirfuseError, UsageError, nearest


def main(words: list[str] | None = None) -> int:
    """Compiles and measures the families."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks models",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", metavar="NAME,...", help="families of these names")
    parser.add_argument("--target", default="cuda", help="as for mlirfuse-compile")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--minutes", type=float, default=30.0, help="no model starts after them")
    parser.add_argument("--compile-only", action="store_true", help="no GPU: coverage and failures")
    parser.add_argument("--results", type=Path, default=results.FOLDER, metavar="FOLDER")
    given = parser.parse_args(words)
    try:
        names = _names(given.only)
        with tempfile.TemporaryDirectory(prefix="mlirfuse-models-") as folder:
            request = {"folder": folder, "target": given.target}
            run = Pipeline("benchmarks.families", names, request, 60 * given.minutes, _line)
            run.prepare(given.jobs, 1)
            # Wall times need the processor's cores, but one slow program must not take all time.
            run.wait_for_compilers(None if given.compile_only else 30 * given.minutes)
            if not given.compile_only:
                run.measure(1)
            run.wait()
    except MlirfuseError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    models = [
        {"name": name, "kind": BY_NAME[name].kind, **fields} for name, fields in run.results()
    ]
    record = {**run.about, "models": models}
    if not given.compile_only:
        report.save(record, given.results)
    print(report.text(record))
    return 0


def _names(only: str) -> list[str]:
    """The families that were asked for.

    Raises:
      UsageError: a name is none.
    """
    known = {name.lower(): name for name in BY_NAME}
    chosen = [word.strip().lower() for word in only.split(",") if word.strip()]
    for word in chosen:
        if word not in known:
            raise UsageError(f"--only: no family {word!r}{nearest(word, [*known])}")
    return [known[word] for word in chosen] or [*BY_NAME]


def _line(name: str, fields: dict[str, Any]) -> str:
    return " | ".join(report.cells({"name": name, "kind": BY_NAME[name].kind, **fields}))


if __name__ == "__main__":
    sys.exit(main())
