"""`python -m benchmarks conformance`: checks suites in processes of their own, and saves counts.

    python -m benchmarks conformance --suite=torch --target=cpu
    python -m benchmarks conformance --suite=onnx --only=Attention,Resize --verbose
    python -m benchmarks conformance --suite=torch --target=cuda:sm_90 --programs=FOLDER
    python -m benchmarks conformance --run=FOLDER          # on the machine with the GPU
    python -m benchmarks conformance --seconds=480 --resume

Results are kept by group: a run replaces the groups that it ended. A process that dies or breaks
its device takes no other group along: its group is checked again, case by case.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import importlib
import logging
import multiprocessing
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.conformance import device, records
from benchmarks.conformance.suite import Outcome, Suite
from mlirfuse.core import UsageError, nearest

SUITES = {
    "onnx": "benchmarks.conformance.onnx_nodes:OnnxNodes",
    "torch": "benchmarks.conformance.torch_ops:TorchOps",
    "torch-modules": "benchmarks.conformance.torch_modules:TorchModules",
    "jax": "benchmarks.conformance.jax_functions:JaxFunctions",
}

GROUP_SECONDS = 900.0
"""Most seconds of one group."""


def suite_of(name: str) -> Suite:
    """The suite of this name; importing it imports its framework."""
    return _made(SUITES[name])


def _made(place: str) -> Suite:
    """The suite of a class, `module:Class`."""
    module, _, kind = place.partition(":")
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
    parser.add_argument(
        "--resume", action="store_true", help="only groups that the results do not hold yet"
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
        groups = list(suite_of(name).groups())
        known = records.read(given.results, name, given.target) if given.resume else None
        chosen = _chosen(name, groups, given, known)
        began = time.monotonic()
        found = records.summary(_checked(name, given, chosen), groups=len(groups))
        found["seconds"] = round(time.monotonic() - began)
        found["versions"] = _versions(name)
        if given.programs is not None:
            device.keep(given.programs, name, given.target, found)
        else:
            records.save(given.results, name, given.target, found)
        counts = records.counts(found)
        print(f"{name} for {given.target}: {_line(counts)}")
        bad += sum(counts[o] for o in (Outcome.WRONG, Outcome.FAILED))
    return 1 if bad else 0


def _chosen(
    name: str,
    groups: Sequence[str],
    given: argparse.Namespace,
    known: records.Record | None,
) -> list[str]:
    """The groups to check; in a fixed random order, so that the first ones are a fair sample."""
    if given.only:
        wanted = given.only.split(",")
        for word in wanted:
            if word not in groups:
                raise UsageError(f"{name} has no group '{word}'{nearest(word, groups)}")
        return wanted
    mixed: list[str] = random.Random(0).sample(groups, len(groups))[: given.sample]
    return [group for group in mixed if known is None or group not in known["groups"]]


def _checked(name: str, given: argparse.Namespace, groups: list[str]) -> Iterator[dict[str, Any]]:
    """Results of all groups, as dictionaries, in the order in which they end."""
    context = multiprocessing.get_context("spawn")
    # Cases that are programs of their own have a time limit of their own, too.
    first = None if suite_of(name).merges else 0
    waiting = collections.deque(_Task(group, first) for group in groups)
    busy: dict[Connection, tuple[Any, _Task]] = {}
    idle: list[tuple[Connection, Any]] = []
    done = 0

    def start() -> tuple[Connection, Any]:
        ours, theirs = context.Pipe()
        process = context.Process(
            target=_work, args=(theirs, SUITES[name], given.target, given.programs), daemon=True
        )
        process.start()
        theirs.close()
        return ours, process

    end = time.monotonic() + (given.seconds or float("inf"))
    while waiting or busy:
        if time.monotonic() > end:
            for process, _ in busy.values():
                process.kill()
            break
        while waiting and len(busy) < given.jobs:
            pipe, process = idle.pop() if idle else start()
            task = waiting.popleft()
            task.since = time.monotonic()
            pipe.send((task.group, task.next_case))
            busy[pipe] = (process, task)
        for ready in wait(list(busy), timeout=1.0):
            assert isinstance(ready, Connection)
            pipe = ready
            process, task = busy[pipe]
            try:
                kind, answer = pipe.recv()
            except (EOFError, OSError):
                kind, answer = "died", f"the process died: {_exit_code(process)}"
            if kind == "case":
                task.case, task.since = answer, time.monotonic()
                continue
            if kind == "result":
                task.add(answer)
                continue
            del busy[pipe]
            if kind in ("died", "broken"):
                # Again, each case alone, without those that are known.
                waiting.append(task.after_death(answer) if kind == "died" else task.alone())
                continue
            idle.append((pipe, process))
            done += 1
            for result in [*task.results, *answer]:
                yield _shown(result, given.verbose)
            if done % 25 == 0:
                print(f"{name}: {done} of {len(groups)} groups", file=sys.stderr, flush=True)
        for process, task in busy.values():
            if time.monotonic() - task.since > GROUP_SECONDS:
                process.kill()
    for pipe, process in idle:
        pipe.close()
        process.join()


@dataclasses.dataclass(slots=True)
class _Task:
    """A group for a process, and the results of its cases where they run one by one."""

    group: str
    next_case: int | None = None
    """Index of the first case to check alone; None for all cases together."""

    since: float = 0.0
    """Time in seconds when a process began with it, or with its case."""

    case: str = ""
    """The case that the process checks, where each one is checked alone."""

    results: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def add(self, results: list[dict[str, Any]]) -> None:
        """Keeps the results of one more case."""
        assert self.next_case is not None
        self.results += results
        self.next_case += 1

    def alone(self) -> _Task:
        """The task for another process, each case alone."""
        return dataclasses.replace(self, next_case=0) if self.next_case is None else self

    def after_death(self, message: str) -> _Task:
        """The task for another process; the case in which this one died has failed."""
        if self.next_case is not None:
            self.add([_failed(self.case or self.group, message)])
        return self.alone()


def _versions(suite: str) -> dict[str, str]:
    """The packages that the results depend on."""
    framework = suite.partition("-")[0]
    return {name: version(name) for name in (framework, "iree-base-compiler")}


def _failed(group: str, message: str) -> dict[str, Any]:
    return {"case": group, "outcome": Outcome.FAILED, "detail": message, "contained": False}


def _exit_code(process: Any) -> int | None:
    process.join(10)
    code: int | None = process.exitcode
    return code


def _work(pipe: Connection, place: str, target: str, programs: Path | None) -> None:
    """The loop of a process: receives groups and sends results, as long as it has a device."""
    from benchmarks.conformance.check import Checker, breaks_device

    logging.getLogger("mlirfuse").setLevel(logging.ERROR)
    suite = _made(place)
    checker = Checker(suite, target, programs)
    while True:
        try:
            group, first = pipe.recv()
        except EOFError:
            return
        if first is None:
            found = checker.group(group)
            broken, known = breaks_device(found), [dataclasses.asdict(r) for r in found]
        else:
            broken, known = False, []
            for case in suite.cases(group)[first:]:
                pipe.send(("case", case.name))
                found = checker.check([case])
                pipe.send(("result", [dataclasses.asdict(r) for r in found]))
                if broken := breaks_device(found):
                    break
        if broken:
            pipe.send(("broken", ""))
            return
        pipe.send(("done", known))


def _shown(result: dict[str, Any], verbose: bool) -> dict[str, Any]:
    if verbose and (result["outcome"] != Outcome.RIGHT or result["contained"]):
        contained = " (contained)" if result["contained"] else ""
        print(f"{result['case']}: {result['outcome']}{contained}: {result['detail']}", flush=True)
    return result


def _line(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[o]} {o}" for o in Outcome if counts.get(o))
