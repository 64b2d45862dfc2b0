"""Checks and times programs: `python -m benchmarks.breadth.measure`.

It reads `{"folder", "target"}` and then names of programs from standard input, a line each, and
writes a line of JSON about the device, and one for each program. A program that breaks the device
ends the process.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from benchmarks.breadth.classes import named
from benchmarks.gpu.worker import BROKEN, Broken, one_line
from mlirfuse import targets


def main() -> int:
    """Measures until standard input ends."""
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline())
    if targets.parse(request["target"]).name == "cpu":
        from benchmarks.breadth import on_cpu as device
    else:
        from benchmarks.breadth import on_gpu as device
    lines.write(json.dumps(device.about()) + "\n")
    for line in sys.stdin:
        program = named(line.strip())
        try:
            with torch.inference_mode():
                measured: dict[str, Any] = device.measure(program, Path(request["folder"]))
        except Broken:
            return BROKEN
        except Exception as error:  # A reference that PyTorch cannot compute, for example.
            measured = {"skipped": one_line(error)}
        lines.write(json.dumps(measured) + "\n")
        gc.collect()
        device.clear()
    return 0


if __name__ == "__main__":
    sys.exit(main())
