"""Runs programs that `--programs` compiled, on a machine that needs no compiler."""

from __future__ import annotations

import collections
import io
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.conformance.records import Record

CHUNK = 40
"""Programs of one process; one that dies makes the others of its process start again."""


_COMPILED = "compiled.json"
"""File of a folder of programs: the record of their compilation, by suite."""


def keep(folder: Path, suite: str, target: str, record: Record) -> None:
    """Writes the record of a compilation next to its programs, for `run`."""
    path = folder / _COMPILED
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    known[suite] = {"target": target, **record}
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known), encoding="utf-8")


def run(folder: Path, results: Path) -> int:
    """Runs all programs of a folder in processes of their own, and saves the counts."""
    from benchmarks.conformance import records
    from benchmarks.conformance.suite import Outcome

    programs = sorted(folder.glob("*.vmfb"))
    began = time.monotonic()
    found: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    compiled = json.loads((folder / _COMPILED).read_text(encoding="utf-8"))
    for suite, record in compiled.items():
        # The cases without a program.
        found[suite] += [
            {"case": case, "outcome": outcome, "detail": detail, "contained": False}
            for case, outcome, detail in record["problems"]
        ]
    while programs:
        chunk = programs[:CHUNK]
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.conformance.device", *map(str, chunk)],
            stdout=subprocess.PIPE,
        )
        data, _ = process.communicate()
        answers = _pickles(data)
        for path, outcome in zip(chunk, answers, strict=False):
            found[_suite_of(path, compiled)] += outcome
        if len(answers) < len(chunk) and (process.returncode or not answers):
            path = chunk[len(answers)]
            cases = pickle.loads(path.with_suffix(".pickle").read_bytes())["cases"]
            found[_suite_of(path, compiled)] += [
                {
                    "case": case["name"],
                    "outcome": Outcome.FAILED,
                    "detail": f"the process ended with {process.returncode} in {path.name}",
                    "contained": False,
                }
                for case in cases
            ]
            answers.append([])
        programs = programs[len(answers) :]
    bad = 0
    for suite, outcomes in found.items():
        kept = compiled[suite]
        record = records.summary(outcomes, kept["all_groups"])
        record["seconds"] = round(time.monotonic() - began)
        record["versions"] = kept["versions"]
        records.save(results, suite, kept["target"], record)
        print(suite, dict(records.counts(record)), flush=True)
        for problem in record["problems"][:200]:
            print(*problem, flush=True)
        bad += len(record["problems"])
    return 1 if bad else 0


def _suite_of(program: Path, suites: Collection[str]) -> str:
    """The suite of a program's file, `SUITE-CASE.vmfb`; a name may begin with another's."""
    return max((name for name in suites if program.name.startswith(f"{name}-")), key=len)


def _pickles(data: bytes) -> list[list[dict[str, Any]]]:
    """The answers of a process, one for each program that it ended."""
    stream, found = io.BytesIO(data), []
    while True:
        try:
            found.append(pickle.load(stream))
        except (EOFError, pickle.UnpicklingError):
            return found


def main(paths: list[str]) -> int:
    """Runs programs in this process; writes an answer for each one to stdout.

    It ends before the others after one that breaks the device.
    """
    import dataclasses

    import mlirfuse
    from benchmarks.conformance.check import Result, breaks_device, judged, message
    from benchmarks.conformance.compare import flat
    from benchmarks.conformance.suite import Case, Outcome

    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for path in map(Path, paths):
        kept = pickle.loads(path.with_suffix(".pickle").read_bytes())
        cases = [
            Case(
                name=c["name"],
                arguments=(),
                expected=tuple(c["expected"]),
                rtol=c["rtol"],
                atol=c["atol"],
            )
            for c in kept["cases"]
        ]
        try:
            results = flat(mlirfuse.load(path)(*kept["arguments"]))
            found = judged(cases, results, False)
        except Exception as error:
            found = [Result(case.name, Outcome.FAILED, message(error)) for case in cases]
        pickle.dump([dataclasses.asdict(r) for r in found], out)
        out.flush()
        if breaks_device(found):
            break
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
