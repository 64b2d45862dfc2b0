"""Stock IREE's program of a model beside ours: its dispatches, in the report of ours."""

from __future__ import annotations

from pathlib import Path

from mlirfuse.backend import final_program
from mlirfuse.backend.compiler import Compiler
from mlirfuse.backend.statistics import Statistics
from mlirfuse.core import Report
from mlirfuse.support.contained import described, trace


def count(report: Report, compiler: Compiler, normalized: Path, folder: Path) -> None:
    """Counts and lists the dispatches of a call, without generating code.

    Args:
      report: the report to write into.
      compiler: the compiler of our program.
      normalized: the model at global-optimization level.
      folder: an existing directory for temporary files.
    """
    phases = folder / "stock_phases"
    counted = compiler.count(normalized, folder, phases=phases)
    record(report, compiler, counted, phases, generated=False)


def record(
    report: Report, compiler: Compiler, counted: Statistics, phases: Path, *, generated: bool = True
) -> None:
    """Writes the dispatches of stock IREE's compiled program into a report.

    A list that our own code cannot make is left out with a note; their number is not.
    """
    report.dispatches["stock"] = counted.dispatches
    try:
        found = final_program.read(phases, counted, generated=generated)
    except Exception as error:
        if not compiler.options.feature("fallback"):
            raise
        trace(error)
        report.notes.append(f"the kernels of stock IREE are not listed: {described(error)}")
        return
    report.stock_kernels = list(found.kernels)
