"""Checks and times programs on a GPU: kernels of a call, by CUPTI."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import mlirfuse
from benchmarks.breadth.comparison import Tensors, compared
from benchmarks.breadth.drawing import Program
from benchmarks.breadth.prepare import Module
from benchmarks.conformance.compare import flat
from benchmarks.gpu import timer
from benchmarks.gpu.worker import check_device, measure_rates, one_line, versions

MIN_ROTATED_BYTES, MAX_COPIES = 256 << 20, 32

ROUNDS, SHORT_ROUNDS = 7, 21
"""Rounds, and those of programs whose kernels take few microseconds."""

SHORT_BYTES = 64 << 20
"""Bytes of the arguments of such programs, at most."""


def about() -> dict[str, Any]:
    """The device, its rates, and versions."""
    rates = measure_rates()
    device = torch.cuda.get_device_name(0)
    return {"rates": rates, "device": device, "cudnn_tf32": False, "versions": versions()}


def clear() -> None:
    """Frees the memory of a program."""
    torch.cuda.empty_cache()


def measure(program: Program, folder: Path) -> dict[str, Any]:
    """Error of our results, and milliseconds of the kernels of a call of each system."""
    # PyTorch computes some convolutions in TF32 by default; f32 is compared with f32.
    torch.backends.cudnn.allow_tf32 = False
    arguments = program.tensors("cuda")
    size = sum(t.nbytes for t in arguments)
    count = min(MAX_COPIES, max(2, math.ceil(MIN_ROTATED_BYTES / max(1, size))))
    copies = [arguments, *([t.clone() for t in arguments] for _ in range(count - 1))]
    exact = flat(program.call(*(t.double() if t.is_floating_point() else t for t in arguments)))
    calls: dict[str, Callable[..., Any]] = {"eager": program.call}
    torch._dynamo.reset()
    calls["compile"] = torch.compile(Module(program), dynamic=False)
    found: dict[str, Any] = {"bytes": size + sum(t.nbytes for t in flat(program.call(*arguments)))}
    path = folder / f"{program.name}.vmfb"
    if path.exists():
        calls["ours"] = mlirfuse.load(path)
    eager = flat(program.call(*arguments))
    for system in [*calls]:
        try:
            results = flat(calls[system](*arguments))
            torch.cuda.synchronize()
            if system == "ours":
                found |= compared(results, eager, exact, program.dtype, factors=program.factors)
        except Exception as error:
            found[f"{system}_said"] = one_line(error)
            del calls[system]
            check_device()
    del exact, eager
    run = {system: _waiting(call, copies) for system, call in calls.items()}
    rounds = SHORT_ROUNDS if size <= SHORT_BYTES else ROUNDS
    times = timer.kernels(run, rounds=rounds, copies=len(copies))
    found["ms"] = {system: 1e3 * statistics.median(seconds) for system, seconds in times.items()}
    return found


def _waiting(call: Callable[..., Any], copies: Sequence[Tensors]) -> Callable[[int], None]:
    def run(copy: int) -> None:
        call(*copies[copy])
        torch.cuda.synchronize()

    return run
