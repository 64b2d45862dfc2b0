"""Times of one function of several programs in one process, with one context of the device.

A process for each program starts a Python, a PyTorch and a context of the GPU for each of them,
which takes longer than the calls. Here one process opens all programs and calls them in turns.

As a process, `python -m mlirfuse.benchmarking.shared_programs` calls the function of the program
whose number it reads.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from mlirfuse.benchmarking.process import BURST_SECONDS, NO_ANSWER, Process, opened, started
from mlirfuse.benchmarking.programs import (
    CPU_DRIVERS,
    INPUT,
    PATIENCE_SECONDS,
    failure,
    on_device,
)
from mlirfuse.benchmarking.rounds import MAX_ROUNDS, bursts
from mlirfuse.benchmarking.timing import Samples, turn_times, warm
from mlirfuse.core import MlirfuseError
from mlirfuse.runtime import array_files, isolated
from mlirfuse.runtime.arrays import numpy_of
from mlirfuse.runtime.inputs import Array
from mlirfuse.runtime.isolated import Signature
from mlirfuse.support import device_lock, stages, temporary

MODULE = "mlirfuse.benchmarking.shared_programs"

TURN_SECONDS = 0.01
"""Approximate time of the timed calls of a turn on another device than the CPU: no process is
stopped and continued, and no other work takes the device."""

MIN_CALLS = 3
"""Smallest number of timed calls of a turn on another device than the CPU: a single call may be
delayed by other work of the host."""

CPU_ROUND_SECONDS = 0.08
"""Time of one program's round on a CPU: other work of the machine disturbs it, and a short program
has more rounds than it is asked for."""


@dataclasses.dataclass(frozen=True, slots=True)
class Shared:
    """Programs that were called in one process.

    Attributes:
      samples: times of a call in each round, of the programs that did not fail.
      results: name -> results of the first call; empty where they were not asked for.
      failed: name -> why its first call failed.
    """

    samples: Samples
    results: Mapping[str, list[Array]]
    failed: Mapping[str, str]


def timed(
    programs: Mapping[str, Path],
    inputs: Sequence[Array],
    signature: Signature,
    *,
    device: str,
    timeout: float | None,
    rounds: int,
    results: bool = False,
) -> Shared:
    """Times of a function in interleaved rounds, and its results.

    A program that fails at its first call is left out, where the first program can still be called.

    Args:
      programs: name -> a `.vmfb` that has the function.
      inputs: arguments of the calls.
      signature: the function.
      device: URI of iree-runtime's device.
      timeout: seconds for the first calls of a program; None for `PATIENCE_SECONDS`. They begin
        when the process holds the device, where it is locked.
      rounds: number of rounds; on a CPU at least so many.
      results: whether the results of the first calls are wanted.

    Raises:
      CompileFailedError: in stage `run`: the process ended or hung, and the named program had its
        turn. Another one may be the cause.
    """
    on_cpu = device.startswith(CPU_DRIVERS)
    names = list(programs)
    with temporary.folder("mlirfuse-") as name:
        folder = Path(name)
        request = {
            "device": device,
            "folder": str(folder),
            "signature": dataclasses.asdict(signature),
            "inputs": array_files.write(folder, INPUT, inputs),
            "programs": [str(path.resolve()) for path in programs.values()],
            "results": results,
            "turn_seconds": BURST_SECONDS if on_cpu else TURN_SECONDS,
            "min_calls": 1 if on_cpu else MIN_CALLS,
        }
        with started(MODULE, request, {}) as process:
            written: dict[str, list[Array]] = {}
            failed: dict[str, str] = {}
            if process.line(PATIENCE_SECONDS) is None:
                raise failure(programs[names[0]], process.end())
            for index, key in enumerate(names):
                found = process.line(timeout or PATIENCE_SECONDS)
                if found is None:
                    raise failure(programs[key], process.end())
                if "said" in found:
                    failed[key] = str(failure(programs[key], found["said"]))
                elif results:
                    written[key] = array_files.read(folder, stem(index), found["results"])
            ready = {k: _Turns(process, i) for i, k in enumerate(names) if k not in failed}
            notes: dict[str, dict[str, Any]] = {key: {} for key in programs}
            samples = bursts(
                ready,
                notes,
                rounds * len(ready) * CPU_ROUND_SECONDS if on_cpu else 0.0,
                lambda done: stages.show("measuring: round", done, MAX_ROUNDS),
                time_of=min,
                min_rounds=rounds,
            )
        for key, note in notes.items():
            if said := note.get("said"):
                raise failure(programs[key], said)
        return Shared(samples, written, failed)


def hung(error: MlirfuseError) -> bool:
    """Whether the error of `timed` is that of a process without an answer."""
    return str(error).endswith(NO_ANSWER)


def stem(index: int) -> str:
    """Start of the names of a program's files of results."""
    return f"result{index}_"


@dataclasses.dataclass(slots=True)
class _Turns:
    """The turns of one program of a process; the first that fails ends the process for all."""

    process: Process
    index: int

    def burst(self) -> list[float] | None:
        if self.process.ended:
            return None
        return self.process.ask(str(self.index))

    def end(self) -> str:
        return "" if self.process.ended else self.process.end()


@dataclasses.dataclass(frozen=True, slots=True)
class _Ready:
    """A program that was called.

    Attributes:
      call: calls it, and waits for the device.
      calls: number of the timed calls of a turn.
      results: of its first call. They stay alive until all programs were called: a program that
        does not write its results would else find those of another one in the freed memory.
    """

    call: Callable[[], object]
    calls: int
    results: Sequence[Any]


def main() -> int:
    """Entry point of a process: calls functions until standard input ends."""
    lines, request = opened()
    arrays = array_files.read(Path(request["folder"]), INPUT, request["inputs"])
    given, wait = on_device(arrays, request["device"])
    with device_lock.held():
        _say(lines, {"holds": request["device"]})
        return _serve(lines, request, given, wait)


def _serve(
    lines: TextIO, request: Mapping[str, Any], given: Sequence[Any], wait: Callable[[], object]
) -> int:
    """Calls each program for the first time, and then those that are asked for."""
    ready: dict[int, _Ready] = {}
    for index, found in _called(request, given, wait):
        if isinstance(found, _Ready):
            ready[index] = found
            about = {}
            if request["results"]:
                arrays = [numpy_of(result) for result in found.results]
                about["results"] = array_files.write(Path(request["folder"]), stem(index), arrays)
            _say(lines, about)
            continue
        if ready:
            ready[min(ready)].call()  # an error here shows that the device is lost
        _say(lines, {"said": found})
    turns = {index: (program.call, program.calls) for index, program in ready.items()}
    ready.clear()
    for line in sys.stdin:
        call, calls = turns[int(line)]
        try:
            _say(lines, {"seconds": turn_times(call, calls)})
        except MlirfuseError as error:
            _say(lines, {"said": str(error)})
            return 1
    return 0


def _called(
    request: Mapping[str, Any], given: Sequence[Any], wait: Callable[[], object]
) -> Iterator[tuple[int, _Ready | str]]:
    """Each program after its first calls, or the reason why they fail."""
    from mlirfuse.runtime.image import Image

    for index, path in enumerate(request["programs"]):
        try:
            program = isolated.opened(Image(Path(path)), request["device"], request["signature"])

            def call(program: Any = program) -> None:
                program(*given)
                wait()

            results = program(*given)
            wait()
            calls = max(request["min_calls"], warm(call, turn_seconds=request["turn_seconds"]))
            yield index, _Ready(call, calls, results)
        except MlirfuseError as error:
            yield index, str(error)


def _say(lines: TextIO, about: Mapping[str, Any]) -> None:
    lines.write(json.dumps(about) + "\n")


if __name__ == "__main__":
    sys.exit(main())
