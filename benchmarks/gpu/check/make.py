"""Compiles cases, some to a program, and writes down which kernels the programs hold."""

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

TOGETHER = 8
"""Cases of a program: what a program costs beside them is paid once."""

SECONDS = 600.0
"""That a step of the compiler may take."""

EXAMPLES = (7, 11, 13, 17)
"""What dynamic sizes are when a case is exported."""

MOST_DYNAMIC = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Made:
    """What became of a case.

    Attributes:
      name: of the case.
      kernel: the pass that has to take it.
      program: file that has it as a function of its name; empty when there is none.
      said: why its kernel is not there; empty when it is.
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
    """Compiles cases into a folder, with a table of what is there.

    Args:
      names: of the cases.
      folder: for programs; its table is written anew.
      seed: of the random choices.
      target: what is compiled for.
      jobs: processes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    groups = [names[n : n + TOGETHER] for n in range(0, len(names), TOGETHER)]
    made: list[Made] = []
    # New processes: those that are forked would share the threads of PyTorch and IREE.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        waiting = [
            pool.submit(_make, group, folder / f"{number:03}.vmfb", seed, target)
            for number, group in enumerate(groups)
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
    versions = {n: metadata.version(n) for n in ("mlirfuse", "iree-base-compiler", "triton")}
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
    """Compiles cases together, or apart where that fails."""
    if not cases:
        return []
    try:
        with every_kernel_pays():
            program = mlirfuse.compile(
                joined([texts[case.name] for case in cases]),
                target=target,
                function=cases[0].name,
                enable_feature=["kernels"],
                timeout=SECONDS,
                cache=False,
            )
    except MlirfuseError as error:
        if len(cases) == 1:
            return [Made(cases[0].name, cases[0].kernel, said=_line(error))]
        made = []
        for number, case in enumerate(cases):
            beside = path.with_name(f"{path.stem}_{number}{path.suffix}")
            made += _compiled([case], texts, beside, target)
        return made
    program.save(path)
    return [
        Made(case.name, case.kernel, path.name, refusal(program.report, case)) for case in cases
    ]


@contextlib.contextmanager
def every_kernel_pays() -> Iterator[None]:
    """Has kernels built of sizes, too, for which IREE's code is as fast."""
    faster = lookup.Baseline("", {}, iree_us=2.0, kernel_us=1.0)
    with mock.patch.object(lookup, "baseline", return_value=faster):
        yield


def refusal(report: Report, case: Case) -> str:
    """Why a case has not the kernel that it is to check; empty when it has."""
    own = [d for d in report.decisions if d.function == case.name]
    if any(d.taken and d.pass_name == case.kernel for d in own):
        return ""
    refused = [f"{d.pass_name}: {d.reason} {d.detail}" for d in own if not d.taken]
    taken = [f"{d.pass_name} took it" for d in own if d.taken and d.pass_name.endswith("_kernel")]
    return "; ".join([f"no {case.kernel}", *taken, *refused])[:400]


def written(case: Case) -> str:
    """A case as the text of a function of its name."""
    work = case.work
    if work.text:
        return work.text.replace("@main", f"@{case.name}")
    dynamic = sorted({s for given in work.inputs for s in given.shape if isinstance(s, str)})
    sizes = dict(zip(dynamic, EXAMPLES, strict=False))
    arguments = tuple(
        torch.zeros(resolved(given.shape, sizes), dtype=DTYPES[work.dtype_of(number)])
        for number, given in enumerate(work.inputs)
    )
    known = {name: torch.export.Dim(name, min=1, max=MOST_DYNAMIC) for name in dynamic}
    shapes = tuple(
        {axis: known[s] for axis, s in enumerate(given.shape) if isinstance(s, str)}
        for given in work.inputs
    )
    imported = frontends.import_model(
        Program(case).eval(),
        arguments,
        dynamic_shapes={"arguments": shapes} if dynamic else None,
        function=case.name,
        timeout=SECONDS,
    )
    with imported.workdir or contextlib.nullcontext(), ir.Context():
        text = str(ir.Module.parse(imported.path.read_bytes()))
    if any(given.dtype == "i4" for given in work.inputs):
        # PyTorch has no i4: where it is meant, all integers of a program that was given as i8 are.
        text = re.sub(r"(?<![\w.])i8\b|(?<=x)i8(?=>)", "i4", text)
    return text


def joined(texts: Sequence[str]) -> str:
    """One module with the functions of several."""
    with ir.Context(), ir.Location.unknown():
        whole = ir.Module.create()
        for text in texts:
            for op in ir.Module.parse(text).body.operations:
                whole.body.append(op.operation.clone())
        return str(whole)


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [repr(error)])[0][:400]
