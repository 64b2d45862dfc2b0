"""Compiles the programs, without a GPU: `python -m benchmarks.gpu.make FOLDER [NAME...]`.

The folder then holds all that a machine with a GPU needs: `python measure.py` runs there.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import mlirfuse
from benchmarks.gpu.programs import PROGRAMS
from mlirfuse.core import MlirfuseError

TARGET = "cuda:sm_90"

VARIANTS: dict[str, dict[str, Any]] = {
    "fused": {},
    "kernels": {"enable_feature": ["kernels"]},
}


class _Module(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: torch.Tensor) -> Any:
        return self.function(*arguments)


def main(words: Sequence[str]) -> int:
    """Writes NAME.VARIANT.vmfb for each program, and the scripts that measure them."""
    if not words:
        print("usage: python -m benchmarks.gpu.make FOLDER [NAME...]", file=sys.stderr)
        return 2
    folder = Path(words[0])
    folder.mkdir(parents=True, exist_ok=True)
    for script in ("programs.py", "measure.py"):
        shutil.copy(Path(__file__).with_name(script), folder)
    failed = 0
    for name in words[1:] or PROGRAMS:
        function, shapes, dtype, _ = PROGRAMS[name]
        inputs = tuple(torch.empty(s, dtype=getattr(torch, dtype)) for s in shapes)
        for variant, switches in VARIANTS.items():
            try:
                program = mlirfuse.compile(
                    _Module(function).eval(), inputs, target=TARGET, **switches
                )
                program.save(folder / f"{name}.{variant}.vmfb")
                print(name, variant, program.report.counts(), flush=True)
            except MlirfuseError as error:
                failed += 1
                print(name, variant, "failed:", error, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
