"""Checks random programs of every kernel on a GPU: `python -m benchmarks gpu_check`.

    python -m benchmarks gpu_check --make=FOLDER --cases=300     # anywhere; needs Triton
    python -m benchmarks gpu_check --programs=FOLDER             # on the device; needs no compiler

A case is a program of one form with random sizes and variants: odd ones, 1, primes, powers of two
and their neighbors, and those of models; programs of dynamic sizes are called with several. The
program must have the kernel of the form. Results are compared with float64, computed on the
device by the same program in PyTorch; a second call starts with NaN in the memory of the results,
and a third, replayed as a CUDA graph, writes between guards: both must give the same bits. Cases
run in separate processes, so that a kernel that breaks the device does not break other cases.

The results go to results/gpu_check.json, the source of a section of docs/reliability.md. To repeat
a failure:

    python -m benchmarks gpu_check --programs=FOLDER --one=softmax_3
    compute-sanitizer python -m benchmarks gpu_check --programs=FOLDER --one=softmax_3
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import datetime
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.gpu.check import forms, page
from mlirfuse.core import MlirfuseError, UsageError
from mlirfuse.support.atomic_file import replacing

CASES = 300

CASE_SECONDS = 60.0
"""Time after which a case counts as hung."""

START_SECONDS = 120.0
"""Time limit of a process to start."""

_ROOT = Path(__file__).parents[3]


def main(words: Sequence[str] | None = None) -> int:
    """Compiles or checks the selected cases; returns 1 if a case fails."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks gpu_check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="*", metavar="WORD", help="in names of forms and kernels")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--make", type=Path, metavar="FOLDER", help="compile cases into it")
    which.add_argument("--programs", type=Path, metavar="FOLDER", help="check its cases")
    parser.add_argument("--cases", type=int, default=CASES, metavar="N", help="number of cases")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random choices")
    parser.add_argument("--target", default="cuda:sm_90", help="target of the programs")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at a time")
    parser.add_argument("--minutes", type=float, default=30.0, help="no case starts after them")
    parser.add_argument("--one", metavar="NAME", help="check one case, in this process")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--results", type=Path, default=results.FOLDER, metavar="FOLDER")
    given = parser.parse_intermixed_args(words)
    try:
        if given.make is not None:
            return _make(given)
        table = load(given.programs)
        if given.one:
            return _one(given, table)
        entries = [e for e in table["cases"] if _selected(e, given.words)]
        if not entries:
            raise UsageError(f"no case has {' or '.join(given.words)} in its name")
        found = run(
            entries,
            given.programs,
            table,
            device=given.device,
            jobs=given.jobs,
            minutes=given.minutes,
        )
        given.results.mkdir(parents=True, exist_ok=True)
        with replacing(given.results / page.RESULTS) as path:
            path.write_text(f"{json.dumps(found, indent=1)}\n", encoding="utf-8")
        return report(found)
    except MlirfuseError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def _make(given: argparse.Namespace) -> int:
    from benchmarks.gpu.check import make

    names = forms.names(given.cases, given.words)
    if not names:
        raise UsageError(f"no form has {' or '.join(given.words)} in its name")
    made = make.make(names, given.make, given.seed, target=given.target, jobs=given.jobs)
    return 1 if any(one.said for one in made) else 0


def load(folder: Path) -> dict[str, Any]:
    """The table of a folder of programs.

    Raises:
      UsageError: it has none.
    """
    try:
        table: dict[str, Any] = json.loads((folder / forms.TABLE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{folder} has no {forms.TABLE}: {error}; a folder that --make wrote would be accepted"
        ) from error
    return table


def _selected(entry: Mapping[str, str], words: Sequence[str]) -> bool:
    text = f"{entry['name']} {entry['kernel']}"
    return not words or any(word.lower() in text for word in words)


def _one(given: argparse.Namespace, table: Mapping[str, Any]) -> int:
    from benchmarks.gpu.check import worker

    entry = next((e for e in table["cases"] if e["name"] == given.one), None)
    if entry is None or not entry["program"]:
        raise UsageError(f"{given.programs} has no program of a case '{given.one}'")
    print(f"{given.one}: {forms.case(given.one, table['seed']).work.description}")
    # CUPTI, which records calls, and a sanitizer exclude each other.
    found = worker.checked(entry, given.programs, table["seed"], given.device, replayed=False)
    print(found["said"] or f"correct; error {found['error']:.3f} of the tolerance")
    return 1 if found["said"] else 0


def run(
    entries: Sequence[Mapping[str, Any]],
    folder: Path,
    table: Mapping[str, Any],
    *,
    device: str = "cuda",
    jobs: int = 2,
    minutes: float = 30.0,
) -> dict[str, Any]:
    """Checks cases in processes.

    Args:
      entries: entries of the table to check.
      folder: folder of the programs.
      table: table of the folder.
      device: PyTorch's device.
      jobs: number of processes.
      minutes: time after which no case starts.
    """
    began = time.monotonic()
    work: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
    for entry in entries:
        if not entry["said"]:
            work.put(entry)
    request = {"folder": str(folder.resolve()), "seed": table["seed"], "device": device}
    runner = _Runner(work, request, began + 60 * minutes)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(runner.serve) for _ in range(jobs)]:
            done.result()
    return {
        "date": datetime.date.today().isoformat(),
        "seed": table["seed"],
        "target": table["target"],
        "compiled_with": table["versions"],
        "run_with": runner.versions,
        "seconds": round(time.monotonic() - began),
        "cases": [_recorded(entry, runner.found, table["seed"]) for entry in entries],
    }


def _recorded(
    entry: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]], seed: int
) -> dict[str, Any]:
    """The record of a case."""
    case = forms.case(entry["name"], seed)
    kept = {
        "name": case.name,
        "form": case.form,
        "kernel": case.kernel,
        "dtype": case.work.dtype,
        "work": case.work.description,
    }
    if entry["said"]:
        return {**kept, "calls": 0, "said": entry["said"]}
    checked = dict(found.get(case.name, {"calls": 0, "said": "not reached in time"}))
    checked.pop("name", None)
    return {**kept, **checked}


@dataclasses.dataclass
class _Runner:
    """Distributes cases to processes, one at a time.

    Attributes:
      work: remaining entries.
      request: first line for a process.
      end: time after which no case starts.
      found: name -> the result of a case.
      versions: versions of the packages, and the device.
    """

    work: queue.SimpleQueue[Mapping[str, Any]]
    request: Mapping[str, Any]
    end: float
    found: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)

    def serve(self) -> None:
        """Checks cases until none is left; starts a new process after a case that broke one."""
        while time.monotonic() < self.end and not self.work.empty():
            process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.gpu.check.worker"],
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                bufsize=1,
            )
            try:
                self._feed(process)
            finally:
                process.kill()
                process.communicate()

    def _feed(self, process: subprocess.Popen[str]) -> None:
        described = _exchanged(process, self.request, START_SECONDS)
        if described is None:
            raise MlirfuseError("a process for the cases does not start: see `--one`")
        self.versions.update(described)
        while time.monotonic() < self.end:
            try:
                entry = self.work.get_nowait()
            except queue.Empty:
                return
            name = entry["name"]
            result = _exchanged(process, entry, CASE_SECONDS)
            if result is None:
                self.found[name] = {"calls": 0, "said": "its process died or hung"}
                return
            self.found[name] = result
            if process.poll() is not None:
                return


def _exchanged(
    process: subprocess.Popen[str], line: Mapping[str, Any], seconds: float
) -> dict[str, Any] | None:
    """The response of a process to a line; None if it crashes or takes too long."""
    assert process.stdin is not None
    assert process.stdout is not None
    watch = threading.Timer(seconds, process.kill)
    watch.start()
    try:
        process.stdin.write(json.dumps(line) + "\n")
        response = process.stdout.readline()
    except OSError:
        return None
    finally:
        watch.cancel()
    return json.loads(response) if response else None


def report(found: Mapping[str, Any]) -> int:
    """Prints failures and counts; returns 1 if there are failures."""
    cases = found["cases"]
    failed = [case for case in cases if case["said"]]
    for case in failed:
        print(f"{case['name']} {case['dtype']} {case['work']}: {case['said']}")
    calls = sum(case["calls"] for case in cases)
    print(
        f"{len(cases) - len(failed)} of {len(cases)} cases are correct, {calls} calls,"
        f" {found['seconds']} s on {found['run_with'].get('device', 'no device')}"
    )
    return 1 if failed else 0
