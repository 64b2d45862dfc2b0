"""Random programs beside eager PyTorch and torch.compile: `python -m benchmarks breadth --seed=7`.

Programs of one to six ops and of whole blocks are drawn from all classes of operators, in f16, bf16
and f32, with sizes that are log-uniform and often odd. Processes compile them, with the default
flags of mlirfuse and with torch.compile; a process for each GPU compares each result with float64
and times the kernels of a call. The same seed gives the same programs. Those for a CPU are smaller,
mostly f32, have their weights as parameters, and are timed beside IREE without our passes, too.

  python -m benchmarks breadth --seed=7 --programs=100
  python -m benchmarks breadth --seed=7 --compile-only --target=cuda:sm_90     without a GPU
  python -m benchmarks breadth --seed=7 --target=cpu
  python -m benchmarks breadth --again=0.9     those of the record that were under 0.9
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.breadth import report
from benchmarks.breadth.classes import named
from benchmarks.breadth.drawing import CPU_SUFFIX
from benchmarks.workers import Pipeline
from mlirfuse import targets
from mlirfuse.core import MlirfuseError


def main(words: list[str] | None = None) -> int:
    """Compiles and measures the programs of a seed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks breadth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--seed", type=int, default=None, metavar="N", help="new each run if left out"
    )
    parser.add_argument("--programs", type=int, default=100, metavar="N")
    parser.add_argument("--only", default="", metavar="NAME,...", help="classes of programs")
    parser.add_argument("--target", default="cuda", help="as for mlirfuse-compile")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--gpus", type=int, default=1, metavar="N")
    parser.add_argument("--minutes", type=float, default=30.0, help="no program starts after them")
    parser.add_argument("--compile-only", action="store_true", help="no GPU: coverage and failures")
    parser.add_argument("--results", type=Path, default=results.FOLDER, metavar="FOLDER")
    parser.add_argument(
        "--again",
        type=float,
        metavar="RATIO",
        help="programs of the file of results under a ratio, or not right; shown, not recorded",
    )
    given = parser.parse_args(words)
    seed = int(time.time()) % 1_000_000 if given.seed is None else given.seed
    try:
        names = chosen(seed, given)
        with tempfile.TemporaryDirectory(prefix="mlirfuse-breadth-") as folder:
            request = {"folder": folder, "target": given.target}
            run = Pipeline("benchmarks.breadth", names, request, 60 * given.minutes, _line)
            run.prepare(given.jobs, given.gpus)
            if _is_cpu(given):  # Compilers would take the cores of what is timed.
                run.wait_for_compilers()
            if not given.compile_only:
                run.measure(given.gpus)
            run.wait()
    except MlirfuseError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    record = _record(seed, run)
    if not given.compile_only and given.again is None:
        report.save(record, given.results)
    print(report.text(record))
    return 0


def chosen(seed: int, given: argparse.Namespace) -> list[str]:
    """Names of programs."""
    if given.again is not None:
        file = report.CPU_FILE if _is_cpu(given) else report.FILE
        records = report.load(given.results / file).values()
        programs = [p for record in records for p in record["programs"]]
        names = [p["name"] for p in programs if (report.ratio(p) or 0.0) < given.again]
    else:
        suffix = CPU_SUFFIX if _is_cpu(given) else ""
        names = [f"{seed}-{index}{suffix}" for index in range(given.programs)]
    classes = {name for name in given.only.split(",") if name}
    names = [name for name in names if not classes or named(name).family in classes]
    if not names:
        raise MlirfuseError(f"no program to run: --only={given.only}, --again={given.again}")
    return names


def _is_cpu(given: argparse.Namespace) -> bool:
    return targets.parse(given.target).name == "cpu"


def _line(name: str, fields: dict[str, Any]) -> str:
    return report.line(named(name), fields)


def _record(seed: int, run: Pipeline) -> dict[str, Any]:
    """The results, by program."""
    programs = []
    for name, fields in run.results():
        program = named(name)
        about = {"name": name, "class": program.family, "dtype": program.dtype}
        about |= {"text": program.text, "flops": program.drawn.flops}
        programs.append({**about, **fields})
    return {"seed": seed, **run.about, "programs": programs}
