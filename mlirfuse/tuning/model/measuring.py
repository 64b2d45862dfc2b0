"""The tuner's task that checks the results of programs and measures their times."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlirfuse.benchmarking import programs, shared_programs
from mlirfuse.benchmarking.shared_programs import Shared
from mlirfuse.core import CompileFailedError, Numerics
from mlirfuse.debug import compare
from mlirfuse.runtime.inputs import Array
from mlirfuse.support import device_lock
from mlirfuse.support.environment_numbers import THREADS_VARIABLE
from mlirfuse.tuning.execution.task import DeviceFaultError
from mlirfuse.tuning.model import reference
from mlirfuse.tuning.model.jobs import CONTROL, Files, Request

HUNG_PART = 0.3
"""Part of a measurement's time limit after which the first call of a program counts as hung: the
others are measured in the rest of it, and the program is named."""

ROUND_SECONDS = 0.08
"""Approximate time of the turn of one program that has a process: its burst of calls, and being
stopped and continued."""


def measure(request: Request, files: Files, output: Path) -> dict[str, Any]:
    """Times some programs in interleaved rounds, and checks the results of their first calls.

    The programs share a process. One that fails or is wrong there is called once more in a process
    of its own, and counts as failed or wrong if it is so there, too. If it is right alone, another
    program has disturbed it, and all are measured in processes of their own.

    Args:
      request: `names` of the programs, the first is the incumbent; `verify`: name -> numerics of
        those whose results are compared; `sets`: the entries of the reference results; `rounds`,
        `threads`, `alone`: whether each program has a process from the start; and the fields of
        the request for the reference results.
      files: the programs by name, and those of the reference results.
      output: an empty folder.

    Returns:
      `wrong`: name -> the difference or failure; `seconds`: name of the others -> for each set of
      shapes the time of a call in each round.

    Raises:
      DeviceFaultError: the incumbent fails.
    """
    if request["threads"]:
        os.environ[THREADS_VARIABLE] = str(request["threads"])
    batch = _Batch(request, files, output)
    names: list[str] = list(request["names"])
    wrong: dict[str, str] = {}
    shared = not request["alone"]
    while True:
        left = [name for name in names if name not in wrong]
        try:
            timed = batch.timed(left, shared=shared)
        except CompileFailedError as error:
            named = batch.named(error, left)
            suspects = {named: str(error)}
            if shared and not shared_programs.hung(error) and batch.is_right_alone(named):
                shared = False
                continue
            timed = []
        else:
            suspects = batch.suspects(timed)
            if shared and any(map(batch.is_right_alone, suspects)):
                shared = False
                continue
        wrong |= suspects
        if names[0] in wrong:
            raise DeviceFaultError(f"a program that ran before fails: {wrong[names[0]]}")
        if timed:
            return {"wrong": wrong, "seconds": _seconds(timed, wrong)}


def _seconds(timed: Sequence[Shared], wrong: Mapping[str, str]) -> dict[str, list[list[float]]]:
    """The times of the programs that are right, with each set of shapes."""
    return {
        name: [list(times.samples.seconds[name]) for times in timed]
        for name in timed[0].samples.seconds
        if name not in wrong
    }


class _Batch:
    """The programs of a measurement; arguments are those of `measure`."""

    def __init__(self, request: Request, files: Files, output: Path) -> None:
        self._request, self._files = request, files
        self._signature = reference.signature_of(request)
        self._paths = {
            name: _named(files[name], output, index) for index, name in enumerate(request["names"])
        }
        self._patience = HUNG_PART * request["timeout"]

    def timed(self, names: Sequence[str], *, shared: bool) -> list[Shared]:
        """Times and results of some programs and the control, for each set of shapes.

        Raises:
          CompileFailedError: a program failed; `named` tells it.
        """
        return [
            self._timed(names, inputs, shared=shared) for inputs in map(self._inputs, self._sets())
        ]

    def _timed(self, names: Sequence[str], inputs: list[Array], *, shared: bool) -> Shared:
        paths = {name: self._paths[name] for name in names}
        again = {**paths, CONTROL: paths[names[0]]}
        rounds, verify = self._request["rounds"], bool(self._request["verify"])
        device = self._request["device"]
        if shared:
            return shared_programs.timed(
                again,
                inputs,
                self._signature,
                device=device,
                timeout=self._patience,
                rounds=rounds,
                results=verify,
            )
        with device_lock.held():
            found = programs.timed(
                again,
                inputs,
                self._signature,
                device=device,
                timeout=self._patience,
                seconds=rounds * len(again) * ROUND_SECONDS,
                results=verify,
            )
        return Shared(found.samples, found.results, {})

    def named(self, error: CompileFailedError, names: Sequence[str]) -> str:
        """The program that an error of `timed` names; else the first."""
        return next((name for name in names if self._paths[name].name in str(error)), names[0])

    def suspects(self, timed: Sequence[Shared]) -> dict[str, str]:
        """The programs that failed or have wrong results, and how."""
        first = self._request["names"][0]
        found: dict[str, str] = {}
        for index, times in enumerate(timed):
            for name, reason in times.failed.items():
                found.setdefault(first if name == CONTROL else name, reason)
            for name, results in times.results.items():
                if name != CONTROL and (problem := self._problem(name, results, index)):
                    found.setdefault(name, problem)
        return found

    def is_right_alone(self, name: str) -> bool:
        """Whether a program can be called in a process of its own, with right results."""
        for index, shapes in enumerate(self._sets()):
            inputs = self._inputs(shapes)
            try:
                results = reference.called(
                    self._paths[name],
                    inputs,
                    self._signature,
                    self._request["device"],
                    self._patience,
                )
            except CompileFailedError:
                return False
            if self._problem(name, results, index):
                return False
        return True

    def _problem(self, name: str, results: list[Array], index: int) -> str:
        """The difference of a program's results with a set of shapes; empty for right ones."""
        numerics = self._request["verify"].get(name)
        if numerics is None:
            return ""
        wanted = reference.read(self._files, index, self._request["sets"][index])
        try:
            found = compare.compare(results, *wanted, numerics=Numerics(numerics))
        except ValueError as error:
            return f"the results cannot be compared: {error}"
        worst = compare.worst(found)
        return "" if worst is None else f"wrong: {worst}"

    def _sets(self) -> Sequence[Any]:
        found: Sequence[Any] = self._request["shapes"]
        return found

    def _inputs(self, shapes: Any) -> list[Array]:
        return reference.inputs_of(self._signature, shapes, self._request)


def _named(path: Path, folder: Path, index: int) -> Path:
    """The program under a name of its own, by which messages tell programs apart."""
    made = folder / f"candidate{index}.vmfb"
    made.symlink_to(path.resolve())
    return made
