"""`python -m benchmarks conformance`: checks suites in processes of their own, and saves counts.

    python -m benchmarks conformance --suite=torch --target=cpu
    python -m benchmarks conformance --suite=onnx --only=Attention,Resize --verbose
    python -m benchmarks conformance --suite=torch --target=cuda:sm_90 --programs=FOLDER
    python -m benchmarks conformance --run=FOLDER          # on the machine with the GPU

A process that dies takes no other group along: its group is checked again, case by case.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import json
import logging
import multiprocessing
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.conformance import device
from benchmarks.conformance.suite import Outcome, Suite
from mlirfuse.core import UsageError, nearest

SUITES = {
    "onnx": "benchmarks.conformance.onnx_nodes:OnnxNodes",
    "torch": "benchmarks.conformance.torch_ops:TorchOps",
    "jax": "benchmarks.conformance.jax_functions:JaxFunctions",
}

FILE = "conformance.json"

GROUP_SECONDS = 900.0
"""Most seconds of one group."""


def suite_of(name: str) -> Suite:
    """The suite of this name; importing it imports its framework."""
    module, _, kind = SUITES[name].partition(":")
    found: Suite = getattr(importlib.import_module(module), kind)()
    return found


def main(arguments: Sequence[str]) -> int:
    """Entry point; returns the exit code: 1 where a case is wrong or failed in mlirfuse."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks conformance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--suite", default=",".join(SUITES), metavar="NAME,...")
    parser.add_argument("--target", default="cpu", metavar="TARGET")
    parser.add_argument("--only", default="", metavar="GROUP,...", help="groups of these names")
    parser.add_argument("--sample", type=int, metavar="N", help="N groups, drawn with a fixed seed")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="number of processes")
    parser.add_argument(
        "--seconds", type=float, metavar="S", help="end after S seconds, with the groups done"
    )
    parser.add_argument("--verbose", action="store_true", help="print each case that is not right")
    parser.add_argument(
        "--programs",
        type=Path,
        metavar="FOLDER",
        help="compile only, and keep the programs for --run",
    )
    parser.add_argument(
        "--run", type=Path, metavar="FOLDER", help="run the programs of a folder on this machine"
    )
    parser.add_argument("--docs", action="store_true", help="write docs/conformance.md")
    parser.add_argument("--results", type=Path, default=results.FOLDER, metavar="FOLDER")
    given = parser.parse_args(arguments)
    if given.docs:
        from benchmarks.conformance import page

        print(page.save(given.results))
        return 0
    if given.run is not None:
        return device.run(given.run, given.results)
    bad = 0
    for name in given.suite.split(","):
        if name not in SUITES:
            raise UsageError(f"unknown suite '{name}'{nearest(name, SUITES)}")
        groups = _chosen(name, given.only, given.sample)
        began = time.monotonic()
        found = list(_checked(name, given, groups))
        stopped = given.seconds is not None and time.monotonic() - began > given.seconds
        whole = not given.only and not given.sample and not stopped
        record = summary(found, time.monotonic() - began, whole=whole)
        record["versions"] = _versions(name)
        if given.programs is not None:
            device.keep(given.programs, name, given.target, record)
        elif given.only:
            print(json.dumps(record["counts"], indent=1))
        else:
            save(given.results, name, given.target, record)
        print(f"{name} for {given.target}: {_line(record['counts'])}")
        bad += sum(record["counts"].get(o, 0) for o in (Outcome.WRONG, Outcome.FAILED))
    return 1 if bad else 0


def _chosen(name: str, only: str, sample: int | None) -> list[str]:
    groups = list(suite_of(name).groups())
    if only:
        wanted = only.split(",")
        for word in wanted:
            if word not in groups:
                raise UsageError(f"{name} has no group '{word}'{nearest(word, groups)}")
        return wanted
    if sample:
        return sorted(random.Random(0).sample(groups, min(sample, len(groups))))
    return groups


def _checked(name: str, given: argparse.Namespace, groups: list[str]) -> Iterator[dict[str, Any]]:
    """Results of all groups, as dictionaries, in the order in which they end."""
    context = multiprocessing.get_context("spawn")
    waiting = collections.deque((group, True) for group in groups)
    busy: dict[Connection, tuple[Any, str, bool, float]] = {}
    idle: list[tuple[Connection, Any]] = []
    done = 0

    def start() -> tuple[Connection, Any]:
        ours, theirs = context.Pipe()
        process = context.Process(
            target=_work, args=(theirs, name, given.target, given.programs), daemon=True
        )
        process.start()
        theirs.close()
        return ours, process

    end = time.monotonic() + (given.seconds or float("inf"))
    while waiting or busy:
        if time.monotonic() > end:
            for process, *_ in busy.values():
                process.kill()
            break
        while waiting and len(busy) < given.jobs:
            pipe, process = idle.pop() if idle else start()
            group, merged = waiting.popleft()
            pipe.send((group, merged))
            busy[pipe] = (process, group, merged, time.monotonic())
        for pipe in wait(list(busy), timeout=1.0):
            assert isinstance(pipe, Connection)
            process, group, merged, _ = busy.pop(pipe)
            ended = False
            try:
                kind, answer = pipe.recv()
            except (EOFError, OSError):
                kind, answer = "died", f"the process died: {_exit_code(process)}"
            if kind == "case":
                # One case of a group that killed a process before.
                yield _shown(answer, given.verbose)
                busy[pipe] = (process, group, merged, time.monotonic())
                continue
            if kind == "done":
                for result in answer:
                    yield _shown(result, given.verbose)
                idle.append((pipe, process))
                ended = True
            elif merged:
                waiting.append((group, False))
            else:
                yield _shown(_failed(group, answer), given.verbose)
                ended = True
            done += ended
            if ended and done % 25 == 0:
                print(f"{name}: {done} of {len(groups)} groups", file=sys.stderr, flush=True)
        for pipe, (process, group, _, since) in list(busy.items()):
            if time.monotonic() - since > GROUP_SECONDS:
                process.kill()
                del busy[pipe]
                yield _shown(_failed(group, f"no end after {GROUP_SECONDS:g} s"), given.verbose)
    for pipe, process in idle:
        pipe.close()
        process.join()


def _versions(suite: str) -> dict[str, str]:
    """The packages that the results depend on."""
    return {name: version(name) for name in (suite, "iree-base-compiler")}


def _failed(group: str, message: str) -> dict[str, Any]:
    return {"case": group, "outcome": Outcome.FAILED, "detail": message, "contained": False}


def _exit_code(process: Any) -> int | None:
    process.join(10)
    code: int | None = process.exitcode
    return code


def _work(pipe: Connection, name: str, target: str, programs: Path | None) -> None:
    """The loop of a process: receives groups and sends results."""
    import dataclasses

    from benchmarks.conformance.check import Checker

    logging.getLogger("mlirfuse").setLevel(logging.ERROR)
    suite = suite_of(name)
    checker = Checker(suite, target, programs)
    while True:
        try:
            group, merged = pipe.recv()
        except EOFError:
            return
        if merged:
            pipe.send(("done", [dataclasses.asdict(r) for r in checker.group(group)]))
            continue
        for case in suite.cases(group):
            for result in _alone(checker, case, programs):
                pipe.send(("case", result))
        pipe.send(("done", []))


def _alone(checker: Any, case: Any, programs: Path | None) -> Iterator[dict[str, Any]]:
    """Checks a case in a fork, whose death is the case's failure."""
    import dataclasses
    import os
    import pickle

    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with os.fdopen(write, "wb") as stream:
            found = [dataclasses.asdict(r) for r in checker.check([case])]
            stream.write(pickle.dumps(found))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        data = stream.read()
    _, status = os.waitpid(child, 0)
    if data:
        yield from pickle.loads(data)
    else:
        yield _failed(case.name, f"the process died: status {status}")


def _shown(result: dict[str, Any], verbose: bool) -> dict[str, Any]:
    if verbose and (result["outcome"] != Outcome.RIGHT or result["contained"]):
        contained = " (contained)" if result["contained"] else ""
        print(f"{result['case']}: {result['outcome']}{contained}: {result['detail']}", flush=True)
    return result


def summary(found: Iterable[dict[str, Any]], seconds: float, *, whole: bool) -> dict[str, Any]:
    """Counts of outcomes, in all and by element type, and every case that is not right."""
    counts: collections.Counter[str] = collections.Counter()
    by_type: dict[str, collections.Counter[str]] = {}
    problems = []
    groups = set()
    contained = 0
    for result in found:
        counts[result["outcome"]] += 1
        parts = result["case"].split("/")
        groups.add(parts[0])
        kind = parts[1] if len(parts) > 2 else "-"
        by_type.setdefault(kind, collections.Counter())[result["outcome"]] += 1
        contained += result["contained"]
        if result["outcome"] != Outcome.RIGHT:
            problems.append([result["case"], result["outcome"], result["detail"]])
    return {
        "groups": len(groups),
        "whole": whole,
        "seconds": round(seconds),
        "counts": dict(counts),
        "by_type": {kind: dict(count) for kind, count in sorted(by_type.items())},
        "contained": contained,
        "problems": sorted(problems),
    }


def save(folder: Path, suite: str, target: str, record: dict[str, Any]) -> None:
    """Puts the record of a suite on a target into the results."""
    path = folder / FILE
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    known.setdefault(suite, {})[target] = record
    path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def _line(counts: dict[str, int]) -> str:
    return ", ".join(f"{counts[o]} {o}" for o in Outcome if counts.get(o))
