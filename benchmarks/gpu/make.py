"""Compiles the rows, without a GPU: `python -m benchmarks.gpu.make FOLDER [WORD...]`.

A word selects the rows with it in their name. Programs that are in the folder already are kept,
unless `--again=VARIANT,...` names their variant: kernels change more often than the rest. Programs
have no weights, those of blocks are parameters: all programs together take some megabytes.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from iree.compiler import ir

import mlirfuse
from benchmarks.gpu import parameters, with_torch
from benchmarks.gpu.rows import CHANNELS_LAST, DTYPES, Row, select
from benchmarks.gpu.systems import CHANNELS_LAST_PROGRAMS
from mlirfuse import frontends, targets
from mlirfuse.core import MlirfuseError
from mlirfuse.targets.base import Target

TARGET = "cuda:sm_90"

BEST_STOCK_FLAG = "--iree-opt-level=O3"
"""IREE's highest level, which enables its more aggressive fusion."""

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "stock": {"stock": True},
    "stock_best": {"stock": True},
    "default": {},
    "kernels": {"enable_feature": ["kernels"]},
}

TIMEOUT_SECONDS = 600.0
"""Time limit of each step of the compiler."""


class Program(torch.nn.Module):  # type: ignore[misc]
    """A row as a module without weights of its own.

    Attributes:
      row: the row.
      axes: layout -> order of PyTorch's axes in memory, for arguments and results.
    """

    def __init__(self, row: Row, axes: Mapping[str, Sequence[int]]) -> None:
        super().__init__()
        self.row = row
        self.axes = axes

    def forward(self, *arguments: torch.Tensor) -> Any:
        """Runs the row's program."""
        given = [
            with_torch.restored(x, self.axes.get(a.layout))
            for x, a in zip(arguments, self.row.arguments, strict=True)
        ]
        found = self.row.program(with_torch, *given)
        if not isinstance(found, tuple):
            return with_torch.moved(found, self.axes.get(self.row.layout(0)))
        return tuple(
            with_torch.moved(x, self.axes.get(self.row.layout(n))) for n, x in enumerate(found)
        )


def file_of(row: Row, variant: str) -> str:
    """Name of a program's file."""
    return f"{row.name}.{variant}.vmfb"


def make(
    row: Row, folder: Path, variants: Iterable[str] = tuple(VARIANTS), again: Sequence[str] = ()
) -> dict[str, str]:
    """Compiles a row's variants into the folder.

    Returns:
      variant -> message of its failure, on one line; empty when all compile.
    """
    wanted = [v for v in variants if v in again or not (folder / file_of(row, v)).exists()]
    dtype = getattr(torch, DTYPES[row.dtype])
    failed = {}
    for variant in wanted:
        axes = CHANNELS_LAST if variant in CHANNELS_LAST_PROGRAMS else {}
        inputs = tuple(
            torch.empty([a.shape[n] for n in axes.get(a.layout, range(len(a.shape)))], dtype=dtype)
            for a in row.arguments
        )
        try:
            program = mlirfuse.compile(
                _model(row, axes, inputs),
                None if row.block else inputs,
                target=_target(variant),
                timeout=TIMEOUT_SECONDS,
                cache=False,
                **VARIANTS[variant],
            )
            program.save(folder / file_of(row, variant))
        except MlirfuseError as error:
            failed[variant] = (str(error).splitlines() or [repr(error)])[0]
    return failed


def _model(row: Row, axes: Mapping[str, Sequence[int]], inputs: Sequence[torch.Tensor]) -> Any:
    """A module, or the MLIR of a block whose weights are parameters."""
    program = Program(row, axes).eval()
    if not row.block:
        return program
    imported = frontends.import_model(program, inputs)
    with imported.workdir or contextlib.nullcontext(), ir.Context():
        module = ir.Module.parse(imported.path.read_bytes())
    parameters.weights_to_parameters(module, row.inputs)
    return module


def _target(variant: str) -> Target:
    target = targets.parse(TARGET)
    if variant != "stock_best":
        return target
    return dataclasses.replace(target, flags=(*target.flags, BEST_STOCK_FLAG))


def main(words: Sequence[str] | None = None) -> int:
    """Compiles the selected rows, and prints failures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.make",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--variants", default=",".join(VARIANTS), metavar="NAME,...")
    parser.add_argument("--again", default="", metavar="NAME,...", help="compile these again")
    given = parser.parse_intermixed_args(words)
    given.folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for row in select(given.words):
        began = time.monotonic()
        failures = make(row, given.folder, given.variants.split(","), given.again.split(","))
        failed += len(failures)
        seconds = time.monotonic() - began
        print(f"{row.work} {row.dtype}: {seconds:.0f} s {failures or ''}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
