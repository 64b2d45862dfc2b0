"""Checks cases on a device in a separate process, so that a broken kernel does not end the run.

Standard input has lines of JSON, `{"name", "program"}`, after a first one with the folder of the
programs; standard output has a line for each case. A case that breaks the device ends the process
after its line.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.check import forms, program

BROKEN = 70
"""Exit code after a case that broke the device."""


def main() -> int:
    """Checks the cases of standard input."""
    # Output of libraries goes to standard error.
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    request = json.loads(sys.stdin.readline())
    folder, seed, device = Path(request["folder"]), request["seed"], request["device"]
    lines.write(json.dumps(_described(device)) + "\n")
    for line in sys.stdin:
        found = checked(json.loads(line), folder, seed, device)
        lines.write(json.dumps(found) + "\n")
        if not _works(device):
            return BROKEN
    return 0


def checked(
    entry: Mapping[str, Any], folder: Path, seed: int, device: str, *, replayed: bool = True
) -> dict[str, Any]:
    """The result of the check of a case.

    Args:
      entry: entry of the table of programs.
      folder: folder of the programs.
      seed: seed of the random choices.
      device: PyTorch's device, `cuda` or `cpu`.
      replayed: whether calls are also replayed as CUDA graphs, between guards.
    """
    began = time.monotonic()
    case = forms.case(entry["name"], seed)
    try:
        uri = "cuda" if device == "cuda" else "local-task"
        loaded = program.load(case, folder / entry["program"], uri)
        found = program.check(case, loaded, device, replayed=replayed)
    except Exception as error:  # Cases fail with errors of any type.
        found = {"calls": 0, "said": _one_line(error)}
    gc.collect()
    return {"name": case.name, **found, "seconds": round(time.monotonic() - began, 3)}


def _described(device: str) -> dict[str, str]:
    from benchmarks.gpu.worker import versions

    name = torch.cuda.get_device_name(0) if device == "cuda" else "CPU"
    return {"device": name, **versions()}


def _works(device: str) -> bool:
    if device != "cuda":
        return True
    try:
        torch.cuda.synchronize()
        torch.zeros(1, device=device).item()
    except RuntimeError:
        return False
    return True


def _one_line(error: BaseException) -> str:
    text = next((line for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text.strip()}"[:300]


if __name__ == "__main__":
    sys.exit(main())
