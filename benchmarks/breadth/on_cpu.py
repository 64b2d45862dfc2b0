"""Checks and times programs on the CPU, beside PyTorch and IREE without our passes.

All systems run in one process, in turns that start when the threads of the one before are asleep.
"""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import mlirfuse
from benchmarks import results
from benchmarks.breadth.comparison import compared
from benchmarks.breadth.drawing import Program
from benchmarks.breadth.prepare import Module
from benchmarks.conformance.compare import flat
from benchmarks.gpu.worker import one_line
from mlirfuse.benchmarking import timing

MIN_ROUNDS, MAX_ROUNDS = 3, 9

ROUNDS_SECONDS = 1.5
"""Approximate time of all rounds of a program."""

COPY_BYTES = 256 << 20
"""Bytes of the tensor whose copy measures the rate of memory."""


def about() -> dict[str, Any]:
    """The device, its rates, and versions."""
    source = torch.ones(COPY_BYTES // 4)
    result = torch.empty_like(source)
    seconds = min(timing.turn_times(lambda: result.copy_(source), 5))
    packages = ("torch", "iree-base-runtime")
    return {
        "rates": {"copy": 2 * COPY_BYTES / seconds},
        "device": f"{results.cpu_name()}, {torch.get_num_threads()} threads",
        "versions": {name: metadata.version(name) for name in packages}
        | {"python": platform.python_version()},
    }


def clear() -> None:
    """Frees the memory of a program."""


def measure(program: Program, folder: Path) -> dict[str, Any]:
    """Error of our results, and milliseconds of a call of each system."""
    arguments = program.tensors("cpu")
    module = Module(program, arguments)
    inputs = module.inputs(arguments)
    exact = flat(program.call(*(t.double() if t.is_floating_point() else t for t in arguments)))
    torch._dynamo.reset()
    calls: dict[str, Callable[..., Any]] = {
        "eager": module,
        "compile": torch.compile(module, dynamic=False),
    }
    for system, name in (("ours", program.name), ("stock", f"{program.name}.stock")):
        if (path := folder / f"{name}.vmfb").exists():
            calls[system] = mlirfuse.load(path)
    eager = flat(module(*inputs))
    found: dict[str, Any] = {"bytes": sum(t.nbytes for t in (*arguments, *eager))}
    for system in [*calls]:
        try:
            made = flat(calls[system](*inputs))
            if system == "ours":
                found |= compared(made, eager, exact, program.dtype, factors=program.factors)
        except Exception as error:
            found[f"{system}_said"] = one_line(error)
            del calls[system]
    del exact, eager
    runs = {system: _run(call, inputs) for system, call in calls.items()}
    found["ms"] = {system: 1e3 * seconds for system, seconds in _times(runs).items()}
    return found


def _run(call: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> Callable[[], Any]:
    return lambda: call(*inputs)


def _times(runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds of a call: the median over rounds of the medians of turns."""
    counts = {system: timing.warm(run) for system, run in runs.items()}
    rounds: dict[str, list[float]] = {system: [] for system in runs}
    end, names = time.monotonic() + ROUNDS_SECONDS, [*runs]
    for index in range(MAX_ROUNDS):
        if index >= MIN_ROUNDS and time.monotonic() > end:
            break
        first = index % len(names)
        for system in names[first:] + names[:first]:
            time.sleep(timing.PAUSE_SECONDS)
            times = timing.turn_times(runs[system], counts[system])
            rounds[system].append(statistics.median(times))
    return {system: statistics.median(times) for system, times in rounds.items()}
