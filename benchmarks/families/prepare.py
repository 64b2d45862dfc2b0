"""Compiles model families for their measurement: `python -m benchmarks.families.prepare`.

It reads `{"folder", "target"}` and then names of families from standard input, a line each, and
writes a line of JSON for each: our program is in the folder, torch.compile's in its cache.
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
from benchmarks.families.zoo import BY_NAME, Family
from benchmarks.gpu.worker import one_line
from benchmarks.models import Inputs
from benchmarks.workers import facts
from mlirfuse.benchmarking.messages import without_folders

TIMEOUT = 300.0
"""Seconds for one step of the compiler."""

MODES = {"compile": None, "reduce_overhead": "reduce-overhead"}
"""System -> mode of torch.compile."""

Module = torch.nn.Module


def main() -> int:
    """Compiles until standard input ends."""
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    logging.disable(logging.CRITICAL)
    request = json.loads(sys.stdin.readline())
    for line in sys.stdin:
        family = BY_NAME[line.strip()]
        module, inputs = in_half(*family.made())
        fields = ours(family, module, inputs, Path(request["folder"]), request["target"])
        if torch.cuda.is_available():
            fields |= warmed(module, inputs)
        lines.write(json.dumps(fields) + "\n")
        del module
        gc.collect()
    return 0


def in_half(module: Module, inputs: Inputs) -> tuple[Module, Inputs]:
    """The module and its inputs in f16."""
    return module.half(), tuple(x.half() if x.is_floating_point() else x for x in inputs)


def program_path(folder: Path, family: Family) -> Path:
    """The file of our program."""
    return folder / f"{family.name.replace(' ', '_')}.vmfb"


def ours(
    family: Family, module: Module, inputs: Inputs, folder: Path, target: str
) -> dict[str, Any]:
    """Compiles a model with the default flags."""
    began = time.perf_counter()
    try:
        program = mlirfuse.compile(module, inputs, target=target, timeout=TIMEOUT, cache=False)
        program.save(program_path(folder, family))
    except Exception as error:  # The report shows failures of any type.
        return {"said": without_folders(one_line(error))}
    return facts(program, time.perf_counter() - began)


def warmed(module: Module, inputs: Inputs) -> dict[str, Any]:
    """Fills torch.compile's cache."""
    began = time.perf_counter()
    with contextlib.suppress(Exception), torch.inference_mode():
        torch._dynamo.reset()
        torch.compile(module.cuda(), dynamic=False)(*(x.cuda() for x in inputs))
        torch.cuda.synchronize()
    gc.collect()
    torch.cuda.empty_cache()
    return {"torch_compile_s": time.perf_counter() - began}


if __name__ == "__main__":
    sys.exit(main())
