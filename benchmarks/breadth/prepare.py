"""Compiles programs of a seed for their measurement: `python -m benchmarks.breadth.prepare`.

It reads `{"folder", "target"}` and then names of programs from standard input, a line each, and
writes a line of JSON for each program: our program is in the folder, for a CPU with that of IREE
alone, and torch.compile's in its cache for a GPU.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import mlirfuse
from benchmarks.breadth.classes import named
from benchmarks.breadth.drawing import DTYPES, Argument, Program
from benchmarks.gpu.worker import one_line
from benchmarks.workers import facts
from mlirfuse import compilation, targets
from mlirfuse.benchmarking.messages import without_folders

TIMEOUT = 120.0
"""Seconds for one step of the compiler."""


PARAMETERS = ("weight", "uniform")
"""Kinds of arguments that are parameters of a model."""


class Module(torch.nn.Module):  # type: ignore[misc]
    """A program as PyTorch exports it.

    Args:
      program: the program.
      tensors: its arguments, of which those of `PARAMETERS` become parameters; empty to leave all
        of them arguments.
    """

    def __init__(self, program: Program, tensors: Sequence[torch.Tensor] = ()) -> None:
        super().__init__()
        self.program, self.bound = program, {}
        for n, (argument, tensor) in enumerate(zip(program.drawn.arguments, tensors, strict=False)):
            if argument.kind in PARAMETERS:
                self.register_buffer(f"parameter{n}", tensor)
                self.bound[n] = f"parameter{n}"

    def inputs(self, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Those of the program's arguments that are no parameters."""
        return tuple(tensor for n, tensor in enumerate(tensors) if n not in self.bound)

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Runs the program."""
        given = iter(tensors)
        count = len(self.program.drawn.arguments)
        bound = self.bound
        arguments = [getattr(self, bound[n]) if n in bound else next(given) for n in range(count)]
        return self.program.drawn.call(*arguments)


def main() -> int:
    """Compiles until standard input ends."""
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    logging.disable(logging.CRITICAL)
    request = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        program = named(line.strip())
        on_cpu = targets.parse(request["target"]).name == "cpu"
        work = both if on_cpu else ours
        fields = work(program, Path(request["folder"]), request["target"])
        if not on_cpu and torch.cuda.is_available():
            fields |= warmed(program)
        lines.write(json.dumps(fields) + "\n")
    return 0


def ours(program: Program, folder: Path, target: str) -> dict[str, Any]:
    """Compiles a program for a GPU with the default flags, into `NAME.vmfb`."""
    arguments = [
        a.of_stored(torch.empty(a.stored, dtype=_type_of(a, DTYPES[program.dtype])))
        for a in program.drawn.arguments
    ]
    began = time.perf_counter()
    try:
        module = mlirfuse.compile(
            Module(program), tuple(arguments), target=target, timeout=TIMEOUT, cache=False
        )
        module.save(folder / f"{program.name}.vmfb")
    except Exception as error:  # The report shows failures of any type.
        return {"said": without_folders(one_line(error))}
    return facts(module, time.perf_counter() - began)


def both(program: Program, folder: Path, target: str) -> dict[str, Any]:
    """Compiles a program with its parameters, into `NAME.vmfb` and, by IREE, `NAME.stock.vmfb`."""
    tensors = program.tensors("cpu")
    module = Module(program, tensors)
    inputs = module.inputs(tensors)
    fields: dict[str, Any] = {}
    parsed = targets.parse(target)
    options = compilation.resolved(None, {})
    for stock in (False, True):
        began = time.perf_counter()
        name = f"{program.name}.stock" if stock else program.name
        try:
            with compilation.open_model(
                module, inputs, target=parsed, options=options, stock=stock, timeout=TIMEOUT
            ) as work:
                image, report = work.build()
                made = work.module(image, report)
                made.save(folder / f"{name}.vmfb")
        except Exception as error:  # The report shows failures of any type.
            fields["stock_said" if stock else "said"] = without_folders(one_line(error))
            continue
        seconds = time.perf_counter() - began
        fields |= {"stock_compile_s": seconds} if stock else facts(made, seconds)
    return fields


def _type_of(argument: Argument, dtype: torch.dtype) -> torch.dtype:
    return torch.int64 if argument.kind == "index" else dtype


def warmed(program: Program) -> dict[str, Any]:
    """Fills torch.compile's cache."""
    torch.backends.cudnn.allow_tf32 = False  # as in measurements
    began = time.perf_counter()
    with contextlib.suppress(Exception), torch.inference_mode():
        torch._dynamo.reset()
        torch.compile(Module(program), dynamic=False)(*program.tensors("cuda"))
        torch.cuda.synchronize()
    gc.collect()
    torch.cuda.empty_cache()
    return {"torch_compile_s": time.perf_counter() - began}


if __name__ == "__main__":
    sys.exit(main())
