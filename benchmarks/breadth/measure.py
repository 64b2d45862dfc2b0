"""Checks and times programs on a GPU: `python -m benchmarks.breadth.measure`.

It reads `{"folder"}` and then names of programs from standard input, a line each, and writes a line
of JSON for each program. A program that breaks the device ends the process.
"""

from __future__ import annotations

import gc
import json
import math
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import mlirfuse
from benchmarks.breadth.classes import named
from benchmarks.breadth.drawing import Program
from benchmarks.breadth.prepare import Module
from benchmarks.conformance.compare import flat
from benchmarks.gpu import timer
from benchmarks.gpu.worker import BROKEN, Broken, check_device, measure_rates, one_line, versions

TOLERANCES = {"f16": 4e-3, "bf16": 3e-2, "f32": 2e-5}
"""Error that is always accepted, over the largest magnitude of a result."""

OF_EAGER = 4.0
"""Error that is accepted, over eager PyTorch's."""

MAX_OTHER_INDICES = 0.02
"""Share of indices that may differ: values that are equal in the element type."""

MIN_ROTATED_BYTES, MAX_COPIES = 256 << 20, 32

ROUNDS = 7

Tensors = list[torch.Tensor]


def main() -> int:
    """Measures until standard input ends."""
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline())
    rates = measure_rates()
    about = {"rates": rates, "device": torch.cuda.get_device_name(0), "versions": versions()}
    lines.write(json.dumps(about) + "\n")
    for line in sys.stdin:
        program = named(line.strip())
        try:
            with torch.inference_mode():
                measured = measure(program, Path(request["folder"]))
        except Broken:
            return BROKEN
        except Exception as error:  # A reference that PyTorch cannot compute, for example.
            measured = {"skipped": one_line(error)}
        lines.write(json.dumps(measured) + "\n")
        gc.collect()
        torch.cuda.empty_cache()
    return 0


def measure(program: Program, folder: Path) -> dict[str, Any]:
    """Error of our results, and milliseconds of the kernels of a call of each system."""
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
                found |= compared(results, eager, exact, program.dtype)
        except Exception as error:
            found[f"{system}_said"] = one_line(error)
            del calls[system]
            check_device()
    del exact, eager
    run = {system: _waiting(call, copies) for system, call in calls.items()}
    times = timer.kernels(run, rounds=ROUNDS, copies=len(copies))
    found["ms"] = {system: 1e3 * statistics.median(seconds) for system, seconds in times.items()}
    return found


def _waiting(call: Callable[..., Any], copies: Sequence[Tensors]) -> Callable[[int], None]:
    def run(copy: int) -> None:
        call(*copies[copy])
        torch.cuda.synchronize()

    return run


def compared(ours: Tensors, eager: Tensors, exact: Tensors, dtype: str) -> dict[str, Any]:
    """The largest error, and a message if it is not accepted.

    Elements that the element type or eager PyTorch cannot represent do not count.
    """
    worst = 0.0
    for mine, theirs, right in zip(ours, eager, exact, strict=True):
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return {"error": 1e30, "wrong": f"{mine.dtype} {tuple(mine.shape)} for {theirs.dtype}"}
        if not theirs.is_floating_point():
            other = float(((mine != theirs) & (mine != right)).double().mean())
            if other > MAX_OTHER_INDICES:
                return {"error": other, "wrong": f"{other:.1%} of the elements differ"}
            continue
        finite = torch.isfinite(theirs) & (right.abs() <= torch.finfo(theirs.dtype).max)
        if not finite.any():
            continue
        if not torch.isfinite(mine[finite]).all():
            return {"error": 1e30, "wrong": "values that are not finite"}
        scale = right[finite].abs().max().clamp(min=torch.finfo(torch.float32).tiny)
        error, of_eager = (
            float((t.double() - right)[finite].abs().max() / scale) for t in (mine, theirs)
        )
        worst = max(worst, error)
        if error > max(TOLERANCES[dtype], OF_EAGER * of_eager):
            return {"error": error, "wrong": f"error {error:.1e}, eager {of_eager:.1e}"}
    return {"error": worst}


if __name__ == "__main__":
    sys.exit(main())
