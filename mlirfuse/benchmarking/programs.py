"""Times of one function of several programs, each in a process of its own.

As a process, `python -m mlirfuse.benchmarking.programs` calls a function of a program.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlirfuse.benchmarking import verdict
from mlirfuse.benchmarking.process import Process, opened, serve, started
from mlirfuse.benchmarking.rounds import MAX_ROUNDS, bursts
from mlirfuse.benchmarking.timing import Samples
from mlirfuse.core import CompileFailedError, MlirfuseError
from mlirfuse.runtime import array_files, isolated
from mlirfuse.runtime.arrays import torch_of
from mlirfuse.runtime.inputs import Array
from mlirfuse.runtime.isolated import Signature
from mlirfuse.support import stages, temporary

MODULE = "mlirfuse.benchmarking.programs"

PATIENCE_SECONDS = 600.0
"""Seconds that the first calls of a program may take where no limit is given."""

CPU_DRIVERS = "local-"
"""Start of the names of IREE's drivers whose programs take the cores of this machine."""

INPUT = "input"


@dataclasses.dataclass(frozen=True, slots=True)
class Timed:
    """Programs that were called.

    Attributes:
      samples: times of a call in each round.
      results: name -> results of the first call; empty where they were not asked for.
    """

    samples: Samples
    results: Mapping[str, list[Array]]


def timed(
    programs: Mapping[str, Path],
    inputs: Sequence[Array],
    signature: Signature,
    *,
    device: str,
    timeout: float | None,
    seconds: float,
    results: bool = False,
) -> Timed:
    """Times of a function in interleaved rounds, and its results.

    Args:
      programs: name -> a `.vmfb` that has the function.
      inputs: arguments of the calls.
      signature: the function.
      device: URI of iree-runtime's device.
      timeout: seconds for the first calls of a program; None for `PATIENCE_SECONDS`.
      seconds: approximate time of all rounds.
      results: whether the results of the first calls are wanted.

    Raises:
      CompileFailedError: in stage `run`: a program failed, crashed or ran out of time.
    """
    with temporary.folder("mlirfuse-") as name, contextlib.ExitStack() as processes:
        request = {
            "device": device,
            "folder": str(name),
            "signature": dataclasses.asdict(signature),
            "inputs": array_files.write(Path(name), INPUT, inputs),
        }
        stems = {key: f"result{index}_" for index, key in enumerate(programs)}
        written: dict[str, list[Array]] = {}
        ready: dict[str, Process] = {}
        notes: dict[str, dict[str, Any]] = {key: {} for key in programs}

        def start(key: str) -> Process:
            stem = stems[key] if results else None
            given = {**request, "program": str(programs[key].resolve()), "results": stem}
            return processes.enter_context(started(MODULE, given, {}))

        if not device.startswith(CPU_DRIVERS):
            # Programs of another device are opened and warmed up beside each other.
            ready = {key: start(key) for key in programs}
        for key, program in programs.items():
            process = ready[key] if key in ready else start(key)
            found = process.line(timeout or PATIENCE_SECONDS)
            if found is None or "said" in found:
                raise failure(program, process.end() if found is None else found["said"])
            process.stop()
            ready[key] = process
            if results:
                written[key] = array_files.read(Path(name), stems[key], found["results"])
        samples = bursts(
            ready,
            notes,
            seconds,
            lambda done: stages.show("measuring: round", done, MAX_ROUNDS),
            time_of=min,
            min_rounds=verdict.MIN_ROUNDS,
        )
        for key, program in programs.items():
            if "said" in notes[key]:
                raise failure(program, notes[key]["said"])
        return Timed(samples, written)


GPU_DRIVERS = ("cuda", "hip")
"""IREE's drivers whose devices PyTorch has, too."""


def on_device(inputs: Sequence[Array], device: str) -> tuple[list[Any], Callable[[], object]]:
    """The arguments where a program reads them, and a function that waits for its device.

    On a GPU these are PyTorch's tensors: the time of a call is not that of copies from and to the
    host. Without PyTorch, or a build of it for the device, the arrays stay as they are.

    Args:
      inputs: arguments of the calls.
      device: URI of iree-runtime's device.
    """
    driver, _, index = device.partition("://")
    if driver in GPU_DRIVERS and importlib.util.find_spec("torch") is not None:
        import torch

        if torch.cuda.is_available():
            place = f"cuda:{index}" if index.isdecimal() else "cuda"
            return [torch_of(array).to(place) for array in inputs], torch.cuda.synchronize
    return list(inputs), lambda: None


def failure(program: Path, reason: str) -> CompileFailedError:
    """The error of a program that fails, which has the file's name and the reason."""
    return CompileFailedError(f"{program.name}: calling it failed: {reason}", stage="run")


def main() -> int:
    """Entry point of a process: calls a function until standard input ends."""
    from mlirfuse.runtime.image import Image

    lines, request = opened()
    inputs = array_files.read(Path(request["folder"]), INPUT, request["inputs"])
    try:
        image = Image(Path(request["program"]))
        program = isolated.opened(image, request["device"], request["signature"])
        about = {}
        if request["results"] is not None:
            first = [np.array(result) for result in program(*inputs)]
            folder = Path(request["folder"])
            about["results"] = array_files.write(folder, request["results"], first)
        given, wait = on_device(inputs, request["device"])

        def call() -> None:
            program(*given)
            wait()

        serve(lines, about, call)
    except MlirfuseError as error:
        lines.write(json.dumps({"said": str(error)}) + "\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
