"""Checks and times model families on a GPU: `python -m benchmarks.families.measure`.

It reads `{"folder"}` and then names of families from standard input, a line each, and writes a line
of JSON for each. A model that breaks the device ends the process.
"""

from __future__ import annotations

import copy
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

import mlirfuse
from benchmarks.breadth.comparison import compared
from benchmarks.families.prepare import MODES, in_half, program_path
from benchmarks.families.zoo import BY_NAME, Family
from benchmarks.gpu import timer
from benchmarks.gpu.worker import BROKEN, Broken, check_device, one_line, versions
from mlirfuse.final_kernels import IREE

ROUNDS = 15

PROFILED = 3

Call = Callable[..., Any]


def main() -> int:
    """Measures until standard input ends."""
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline())
    about = {"device": torch.cuda.get_device_name(0), "versions": versions()}
    lines.write(json.dumps(about) + "\n")
    for line in sys.stdin:
        try:
            with torch.inference_mode():
                measured = measure(BY_NAME[line.strip()], Path(request["folder"]))
        except Broken:
            return BROKEN
        except Exception as error:  # A model that PyTorch cannot run, for example.
            measured = {"skipped": one_line(error)}
        lines.write(json.dumps(measured) + "\n")
        gc.collect()
        torch.cuda.empty_cache()
    return 0


def measure(family: Family, folder: Path) -> dict[str, Any]:
    """Error of our result; milliseconds of a call and peak memory of each system.

    Memory, in bytes, is PyTorch's without the model and what other systems keep: intermediate
    values, results, and pools of graphs.
    """
    module, inputs = in_half(*family.made())
    module, tensors = module.cuda(), tuple(x.cuda() for x in inputs)
    exact = _exact(module, tensors)
    eager = module(*tensors)
    calls: dict[str, Call] = {"eager": module}
    torch._dynamo.reset()  # It stops to compile a function after eight models.
    for system, mode in MODES.items():
        calls[system] = torch.compile(module, dynamic=False, mode=mode)
    found: dict[str, Any] = {"peak": {}}
    path = program_path(folder, family)
    program = mlirfuse.load(path) if path.exists() else None
    if program is not None:
        calls["ours"] = program
    for system in [*calls]:
        before = torch.cuda.memory_allocated()
        try:
            for _ in range(3):  # The third call of a mode with graphs replays one.
                result = calls[system](*tensors)
            torch.cuda.synchronize()
            if system == "ours":
                result = result[0] if isinstance(result, tuple | list) else result
                found |= compared([result], [eager], [exact], "f16")
            del result
            found["peak"][system] = _peak(calls[system], tensors) - before
        except Exception as error:
            found[f"{system}_said"] = one_line(error)
            del calls[system]
            check_device()
    run = {system: _waiting(call, tensors) for system, call in calls.items()}
    times = timer.latencies(run, rounds=ROUNDS, copies=1)
    found["ms"] = {system: 1e3 * statistics.median(seconds) for system, seconds in times.items()}
    profiled = timer.profiled(run, rounds=PROFILED, copies=1)
    found["kernels_ms"] = {
        name: 1e3 * statistics.median(map(timer.busy, calls)) for name, calls in profiled.items()
    }
    if program is not None and "ours" in run:
        found["kernel_share"] = _share(profiled["ours"][-1], program)
        found["host_ms"] = _host_ms(calls["ours"], tensors)
    return found


def _exact(module: torch.nn.Module, tensors: tuple[torch.Tensor, ...]) -> torch.Tensor:
    wide = copy.deepcopy(module).double()
    for part in wide.modules():
        if isinstance(part, transformers.PreTrainedModel):
            # PyTorch's grouped matrix product takes no f64.
            part.set_experts_implementation("eager")
    return wide(*(x.double() if x.is_floating_point() else x for x in tensors))


def _peak(call: Call, tensors: tuple[torch.Tensor, ...]) -> int:
    """Bytes that PyTorch's allocator holds at most during a call."""
    torch.cuda.reset_peak_memory_stats()
    call(*tensors)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def _waiting(call: Call, tensors: tuple[torch.Tensor, ...]) -> Callable[[int], None]:
    def run(_: int) -> None:
        call(*tensors)
        torch.cuda.synchronize()

    return run


def _host_ms(call: Call, tensors: tuple[torch.Tensor, ...]) -> float:
    """Milliseconds until a call returns, without a wait for the device."""
    found = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        call(*tensors)
        found.append(time.perf_counter() - began)
    return 1e3 * statistics.median(found)


def _share(events: Sequence[timer.Event], program: mlirfuse.FusedModule) -> float:
    """Part of the device's time in a call that is not spent in code of IREE."""
    code = {kernel.name: kernel.code for kernel in program.kernels}
    total = sum(event.duration for event in events)
    ours = sum(e.duration for e in events if code.get(e.name, IREE) != IREE)
    return ours / total if total else 0.0


if __name__ == "__main__":
    sys.exit(main())
