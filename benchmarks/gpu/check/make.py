"""Compiles cases, several to a program, and records the kernels that the programs have."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import json
import multiprocessing
import re
import time
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from iree.compiler import ir

import mlirfuse
from benchmarks.gpu.check import forms
from benchmarks.gpu.check.case import DTYPES, Case, resolved
from mlirfuse import frontends
from mlirfuse.core import MlirfuseError, Report
from mlirfuse.kernels.configs import lookup
from mlirfuse.support.atomic_file import replacing

TARGET = "cuda:sm_90"

CASES_PER_PROGRAM = 8
"""Cases of a program, which share its fixed costs."""

TIMEOUT_SECONDS = 600.0
"""Time limit of each step of the compiler."""

EXAMPLES = (7, 11, 13, 17)
"""Values of dynamic sizes in the export of a case."""

MAX_DYNAMIC_SIZE = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Made:
    """The outcome of a case's compilation.

    Attributes:
      name: name of the case.
      kernel: name of the pass that must take it.
      program: file name of the program with its function; empty if there is none.
      said: reason why its kernel is missing; empty if it is there.
    """

    name: str
    kernel: str
    program: str = ""
    said: str = ""


class Program(torch.nn.Module):  # type: ignore[misc]
    """A case as a module without weights."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case

    def forward(self, *arguments: torch.Tensor) -> Any:
        """Runs the case."""
        return self.case.work.program(*arguments)


def make(
    names: Sequence[str], folder: Path, seed: int, *, target: str = TARGET, jobs: int = 1
) -> list[Made]:
    """Compiles cases into a folder, with a table of its cases.

    Args:
      names: names of the cases.
      folder: folder of the programs; its table is replaced.
      seed: seed of the random choices.
      target: target of the programs.
      jobs: number of processes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    groups = [names[n : n + CASES_PER_PROGRAM] for n in range(0, len(names), CASES_PER_PROGRAM)]
    made: list[Made] = []
    # Spawned processes: forked ones would share the threads of PyTorch and IREE.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        waiting = [
            pool.submit(_make, group, folder / f"{index:03}.vmfb", seed, target)
            for index, group in enumerate(groups)
        ]
        for done in concurrent.futures.as_completed(waiting):
            found, seconds = done.result()
            made += found
            print(f"{len(made)} of {len(names)} cases: {seconds:.0f} s", flush=True)
            for case in found:
                if case.said:
                    print(f"  {case.name}: {case.said}", flush=True)
            made.sort(key=lambda one: names.index(one.name))
            _write_table(made, folder, seed, target)
    return made


def _write_table(made: Sequence[Made], folder: Path, seed: int, target: str) -> None:
    versions = {n: metadata.version(n) for n in ("iree-base-compiler", "triton")}
    with contextlib.suppress(metadata.PackageNotFoundError):  # A checkout may not be installed.
        versions["mlirfuse"] = metadata.version("mlirfuse")
    table = {
        "seed": seed,
        "target": target,
        "versions": versions,
        "cases": [dataclasses.asdict(one) for one in made],
    }
    with replacing(folder / forms.TABLE) as path:
        path.write_text(f"{json.dumps(table, indent=1)}\n", encoding="utf-8")


def _make(names: Sequence[str], path: Path, seed: int, target: str) -> tuple[list[Made], float]:
    began = time.monotonic()
    cases = [forms.case(name, seed) for name in names]
    texts, failed = {}, []
    for case in cases:
        try:
            texts[case.name] = written(case)
        except (MlirfuseError, ir.MLIRError) as error:
            failed.append(Made(case.name, case.kernel, said=f"no import: {_line(error)}"))
    chosen = [case for case in cases if case.name in texts]
    made = _compiled(chosen, texts, path, target)
    return [*made, *failed], time.monotonic() - began


def _compiled(cases: Sequence[Case], texts: dict[str, str], path: Path, target: str) -> list[Made]:
    """Compiles cases in one program, or in separate ones if that fails."""
    if not cases:
        return []
    try:
        with every_kernel_pays():
            program = mlirfuse.compile(
                merged_module([texts[case.name] for case in cases]),
                target=target,
                function=cases[0].name,
                enable_feature=["kernels"],
                timeout=TIMEOUT_SECONDS,
                cache=False,
            )
    except MlirfuseError as error:
        if len(cases) == 1:
            return [Made(cases[0].name, cases[0].kernel, said=_line(error))]
        made = []
        for index, case in enumerate(cases):
            own_path = path.with_name(f"{path.stem}_{index}{path.suffix}")
            made += _compiled([case], texts, own_path, target)
        return made
    program.save(path)
    return [
        Made(case.name, case.kernel, path.name, refusal(program.report, case)) for case in cases
    ]


@contextlib.contextmanager
def every_kernel_pays() -> Iterator[None]:
    """Builds kernels also for sizes for which IREE's code is as fast."""
    faster = lookup.Baseline("", {}, iree_us=2.0, kernel_us=1.0, device="")
    with mock.patch.object(lookup, "baseline", return_value=faster):
        yield


def refusal(report: Report, case: Case) -> str:
    """Reason why a case lacks its kernel; empty if it has it."""
    own = [d for d in report.decisions if d.function == case.name]
    if any(d.taken and d.pass_name == case.kernel for d in own):
        return ""
    refused = [f"{d.pass_name}: {d.reason} {d.detail}" for d in own if not d.taken]
    taken = [f"{d.pass_name} took it" for d in own if d.taken and d.pass_name.endswith("_kernel")]
    return "; ".join([f"no {case.kernel}", *taken, *refused])[:400]


def written(case: Case) -> str:
    """MLIR text of a case, a function of its name."""
    work = case.work
    if work.text:
        return work.text.replace("@main", f"@{case.name}")
    dynamic = sorted({s for given in work.inputs for s in given.shape if isinstance(s, str)})
    sizes = dict(zip(dynamic, EXAMPLES, strict=False))
    arguments = tuple(
        torch.zeros(resolved(given.shape, sizes), dtype=DTYPES[work.dtype_of(index)])
        for index, given in enumerate(work.inputs)
    )
    known = {name: torch.export.Dim(name, min=1, max=MAX_DYNAMIC_SIZE) for name in dynamic}
    shapes = tuple(
        {axis: known[s] for axis, s in enumerate(given.shape) if isinstance(s, str)}
        for given in work.inputs
    )
    imported = frontends.import_model(
        Program(case).eval(),
        arguments,
        dynamic_shapes={"arguments": shapes} if dynamic else None,
        function=case.name,
        timeout=TIMEOUT_SECONDS,
    )
    with imported.workdir or contextlib.nullcontext(), ir.Context():
        text = str(ir.Module.parse(imported.path.read_bytes()))
    if any(given.dtype == "i4" for given in work.inputs):
        # PyTorch has no i4: in such a program all i8 stand for i4.
        text = re.sub(r"(?<![\w.])i8\b|(?<=x)i8(?=>)", "i4", text)
    return text


def merged_module(texts: Sequence[str]) -> str:
    """One module with the functions of several texts."""
    with ir.Context(), ir.Location.unknown():
        whole = ir.Module.create()
        for text in texts:
            for op in ir.Module.parse(text).body.operations:
                whole.body.append(op.operation.clone())
        return str(whole)


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [repr(error)])[0][:400]
