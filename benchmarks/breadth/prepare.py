"""Compiles programs of a seed for their measurement: `python -m benchmarks.breadth.prepare`.

It reads `{"folder", "target"}` and then names of programs from standard input, a line each, and
writes a line of JSON for each program: our program is in the folder, torch.compile's in its cache.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

import mlirfuse
from benchmarks.breadth.classes import named
from benchmarks.breadth.drawing import DTYPES, Argument, Program
from benchmarks.gpu.worker import one_line
from benchmarks.workers import facts
from mlirfuse.benchmarking.messages import without_folders

TIMEOUT = 120.0
"""Seconds for one step of the compiler."""


class Module(torch.nn.Module):  # type: ignore[misc]
    """A program as PyTorch exports it."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Runs the program."""
        return self.program.drawn.call(*tensors)


def main() -> int:
    """Compiles until standard input ends."""
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    logging.disable(logging.CRITICAL)
    request = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        program = named(line.strip())
        fields = ours(program, Path(request["folder"]), request["target"])
        if torch.cuda.is_available():
            fields |= warmed(program)
        lines.write(json.dumps(fields) + "\n")
    return 0


def ours(program: Program, folder: Path, target: str) -> dict[str, Any]:
    """Compiles a program with the default flags, into `NAME.vmfb`."""
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


def _type_of(argument: Argument, dtype: torch.dtype) -> torch.dtype:
    return torch.int64 if argument.kind == "index" else dtype


def warmed(program: Program) -> dict[str, Any]:
    """Fills torch.compile's cache."""
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
