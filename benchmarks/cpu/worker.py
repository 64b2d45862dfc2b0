"""One system of one model in a process of its own: `python -m benchmarks.cpu.worker`.

It reads `{"row", "system", "threads", "target", "folder"}` from standard input, compiles, and
writes a line of JSON: its error, or `said`, the reason why it does not run. Then it answers each
line with the seconds of a burst of calls. The system `export` writes the files that others read.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.cpu import exported, narrow_packages, peers, rows, systems
from benchmarks.models import Inputs
from mlirfuse.benchmarking.environment import limited_to_avx2
from mlirfuse.benchmarking.messages import without_folders
from mlirfuse.benchmarking.process import opened, serve
from mlirfuse.core import MlirfuseError, Reason


def main() -> int:
    """Prepares the system of the request, and calls it until standard input ends."""
    lines, request = opened()
    row, folder = rows.find(request["row"]), Path(request["folder"])
    if request["system"] == systems.EXPORT:
        lines.write(json.dumps(exported.export(row, folder)) + "\n")
        return 0
    with torch.no_grad():
        inputs, expected = exported.read(folder)
        try:
            call, about = prepare(request, row, inputs, folder)
            about["error"] = exported.error(peers.tensors(call()), expected)
        except Exception as error:  # Systems fail with errors of any type.
            lines.write(json.dumps({"said": exported.said(error)}) + "\n")
            return 1
        del expected
        serve(lines, about, call)
    return 0


def prepare(
    request: dict[str, Any], row: rows.Row, inputs: Inputs, folder: Path
) -> tuple[Callable[[], Any], dict[str, Any]]:
    """The call of a system, and what is known of its compilation.

    Raises:
      Exception: of any type, where the system does not take the model.
    """
    from mlirfuse import targets

    system, target = request["system"], targets.parse(request["target"])
    began = time.perf_counter()
    if system in systems.IREE:
        return _iree(system, row, inputs, request["target"], folder)
    narrow = limited_to_avx2(target.arch)
    if narrow and system in systems.FROM_ONNX:
        narrow_packages.use(system)
    path = folder / exported.ONNX
    call = peers.make_call(system, row, inputs, path, request["threads"], narrow)
    call()
    return call, {"compile_s": time.perf_counter() - began}


def _iree(
    system: str, row: rows.Row, inputs: Inputs, target: str, folder: Path
) -> tuple[Callable[[], Any], dict[str, Any]]:
    import mlirfuse

    program, about = folder / f"{system}.vmfb", folder / f"{system}.json"
    if not about.exists():
        model = str(folder / exported.ONNX) if row.dtype == "i8" else row.model()[0]
        about.write_text(json.dumps(compile_program(system, model, inputs, target, program)))
    call = functools.partial(mlirfuse.load(program), *inputs)
    return call, json.loads(about.read_text())


def compile_program(
    system: str, model: Any, inputs: Inputs, target: str, program: Path
) -> dict[str, Any]:
    """Compiles a model into a file; `own_s` is the time of our passes alone.

    Raises:
      MlirfuseError: the compiler refused.
    """
    from benchmarks.suites.compile_time import measure_ours
    from benchmarks.systems import with_data_tiling
    from mlirfuse import compilation, targets

    parsed = targets.parse(target)
    if system == systems.STOCK_BEST:
        parsed = with_data_tiling(parsed)
    options = compilation.resolved(None, {})
    example = None if isinstance(model, str) else inputs
    found: dict[str, Any] = {}
    with (
        compilation.open_model(
            model, example, target=parsed, options=options, stock=system != systems.OURS
        ) as work,
    ):
        began = time.perf_counter()
        image, report = work.build()
        found["compile_s"] = time.perf_counter() - began
        if system == systems.OURS:
            with contextlib.suppress(MlirfuseError):  # A pass failed, and the program has a note.
                found["own_s"] = measure_ours(work.normalized, work.compiler, work.folder).total
        work.module(image, report).save(program)
    kind = "fused" if system == systems.OURS else "stock"
    notes = [
        *report.notes,
        *(f"{d.pass_name}: {d.detail}" for d in report.decisions if d.reason is Reason.FELL_BACK),
    ]
    short = [without_folders(note)[:200] for note in notes]
    return found | {"dispatches": report.dispatches[kind], "notes": short}


if __name__ == "__main__":
    sys.exit(main())
