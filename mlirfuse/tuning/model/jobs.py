"""Functions of the tuner's tasks: compile a candidate, make reference results, measure programs."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mlirfuse import targets
from mlirfuse.backend import statistics
from mlirfuse.benchmarking import programs
from mlirfuse.compilation import open_model
from mlirfuse.core import CompileFailedError, MlirfuseError, Numerics, Report
from mlirfuse.debug import compare, float64
from mlirfuse.options import FusionOptions
from mlirfuse.runtime import array_files, isolated
from mlirfuse.runtime.devices import THREADS_VARIABLE
from mlirfuse.runtime.inputs import Array, random_array, random_inputs
from mlirfuse.runtime.isolated import Signature
from mlirfuse.targets.base import Target
from mlirfuse.tuning.execution.task import DeviceFaultError
from mlirfuse.tuning.model import portable, space
from mlirfuse.tuning_profile import application
from mlirfuse.tuning_profile.entry import Setting

PROGRAM = "program.vmfb"
MODEL = "model"
NORMALIZED = "normalized"
REFERENCE = "reference"
INPUT = "input"

INCUMBENT = "incumbent"
"""The program that candidates are measured beside."""

CONTROL = "incumbent again"
"""Another process of the same program, which shows the noise."""

Files = Mapping[str, Path]
Request = Mapping[str, Any]


def compile_candidate(request: Request, files: Files, output: Path) -> dict[str, Any]:
    """Compiles the model with some settings.

    Args:
      request: `model`, `target`, `options`, `settings`, `stock`, `timeout`.
      files: `MODEL`.
      output: gets `PROGRAM`, and for the default settings the module past global optimization.

    Returns:
      Digest, signature, numerics and memory of the program, and without settings the proposals.

    Raises:
      MlirfuseError: a setting does not apply, or the compiler refuses.
    """
    settings = [Setting(**given) for given in request["settings"]]
    options = FusionOptions(**request["options"])
    target = targets.parse(request["target"])
    settled, reasons = application.settle(settings, options, target, "tuner")
    if reasons:
        raise MlirfuseError(next(iter(reasons.values())))
    model = portable.restored(request["model"], files[MODEL])
    with open_model(
        model,
        target=settled.target,
        options=settled.options,
        timeout=request["timeout"],
        stock=request["stock"],
    ) as work:
        work.compiler = dataclasses.replace(work.compiler, keeps_layout=settled.keeps_layout)
        _, report = work.build()
        shutil.copyfile(work.program, output / PROGRAM)
        manifest = work.manifest(report)
        found: dict[str, Any] = {
            "digest": hashlib.sha256(work.program.read_bytes()).hexdigest(),
            "inputs": [dataclasses.asdict(spec) for spec in manifest.inputs],
            "outputs": [dataclasses.asdict(spec) for spec in manifest.outputs],
            "dispatches": report.dispatches["fused"],
            "numerics": str(compare.loosest(report)),
            "bytes": statistics.bytes_held(work.program.with_suffix(".csv")),
        }
        if request["stock"]:
            shutil.copyfile(work.normalized, output / NORMALIZED)
        elif not settings:
            found["proposals"] = _proposals(report, target, options, work.normalized, output)
    return found


def _proposals(
    report: Report, target: Target, options: FusionOptions, normalized: Path, output: Path
) -> list[dict[str, Any]]:
    from mlirfuse.tuning.model import kernel_space

    wide = output / "wide.mlirbc"
    enabled = space.with_everything_on(normalized, wide, target, options)
    wide.unlink(missing_ok=True)
    proposed = space.proposals(report, target, options, enabled)
    kernels = kernel_space.proposals(normalized, output / "kernels.mlirbc", target, options)
    return [
        {"setting": p.setting.to_dict(), "where": p.where, "modelled_us": p.modelled_us}
        for p in space.with_kernels(proposed, kernels)
    ]


def make_reference(request: Request, files: Files, output: Path) -> dict[str, Any]:
    """Results of the unfused program, and in float64 where that can be computed.

    Args:
      request: `inputs`, `outputs`, `function`, `shapes`, `target`, `timeout`, `seed`.
      files: `PROGRAM` of the unfused program, and `NORMALIZED`.
      output: gets the arguments and results of each set of shapes.
    """
    target = targets.parse(request["target"])
    signature = _signature(request)
    sets = []
    for index, shapes in enumerate(request["shapes"]):
        inputs = _inputs(signature, shapes, request)
        try:
            unfused = _called(files[PROGRAM], inputs, signature, target, request["timeout"])
        except CompileFailedError as error:
            raise DeviceFaultError(f"the unfused program fails: {error}") from error
        found = {
            "unfused": array_files.write(output, f"unfused{index}_", unfused),
            "exact": None,
            "note": "",
        }
        compiler = _compiler(target, request["timeout"])
        try:
            exact = float64.results(files[NORMALIZED], inputs, signature, compiler)
            found["exact"] = array_files.write(output, f"exact{index}_", exact)
        except MlirfuseError as error:
            found["note"] = str(error)
        sets.append(found)
    return {"sets": sets}


def measure(request: Request, files: Files, output: Path) -> dict[str, Any]:
    """Times some programs in interleaved rounds, and checks the results of their first calls.

    Args:
      request: `names` of the programs, the first is the incumbent; `verify`: name -> numerics of
        those whose results are compared; `sets` of `make_reference`; `rounds`, `threads`, and the
        fields of its request.
      files: `PROGRAM` by name, and the files of `make_reference`.
      output: an empty folder.

    Returns:
      `wrong`: name -> the difference or failure; `seconds`: name of the others -> for each set of
      shapes the time of a call in each round.

    Raises:
      DeviceFaultError: the incumbent fails.
    """
    target = targets.parse(request["target"])
    signature = _signature(request)
    if request["threads"]:
        os.environ[THREADS_VARIABLE] = str(request["threads"])
    names: list[str] = list(request["names"])
    paths = {name: _named(files[name], output, index) for index, name in enumerate(names)}
    wrong: dict[str, str] = {}
    timed: list[programs.Timed] = []
    while not timed:
        right = {name: paths[name] for name in names if name not in wrong}
        try:
            timed = _timed(right, signature, target, request)
        except CompileFailedError as error:
            failed = next((n for n, path in right.items() if path.name in str(error)), names[0])
            wrong[failed] = str(error)
            _check_incumbent(names[0], wrong)
    for index, entries in enumerate(request["sets"] if request["verify"] else ()):
        reference = _reference(files, index, entries)
        for name, results in timed[index].results.items():
            if name in request["verify"] and name not in wrong:
                numerics = Numerics(request["verify"][name])
                if problem := _checked(results, reference, numerics):
                    wrong[name] = problem
    _check_incumbent(names[0], wrong)
    seconds = {
        name: [list(times.samples.seconds[name]) for times in timed]
        for name in timed[0].samples.seconds
        if name not in wrong
    }
    return {"wrong": wrong, "seconds": seconds}


def _check_incumbent(name: str, wrong: Mapping[str, str]) -> None:
    if name in wrong:
        raise DeviceFaultError(f"a program that ran before fails: {wrong[name]}")


def _timed(
    paths: Mapping[str, Path], signature: Signature, target: Target, request: Request
) -> list[programs.Timed]:
    """The times of the programs and their results, for each set of shapes."""
    first = next(iter(paths))
    again = {**paths, CONTROL: paths[first]}
    return [
        programs.timed(
            again,
            _inputs(signature, shapes, request),
            signature,
            device=target.device,
            timeout=HUNG_PART * request["timeout"],
            seconds=request["rounds"] * len(again) * ROUND_SECONDS,
            results=bool(request["verify"]),
        )
        for shapes in request["shapes"]
    ]


HUNG_PART = 0.3
"""Part of a measurement's time limit after which the first call of a program counts as hung: the
others are measured in the rest of it, and the program is named."""

ROUND_SECONDS = 0.08
"""Approximate time of one program's turn: its burst of calls, and being stopped and continued."""


def _checked(
    ours: list[Array], reference: tuple[list[Array], list[Array] | None], numerics: Numerics
) -> str:
    """The difference of a program's results; empty for right ones."""
    try:
        found = compare.compare(ours, *reference, numerics=numerics)
    except ValueError as error:
        return f"the results cannot be compared: {error}"
    worst = compare.worst(found)
    return "" if worst is None else f"wrong: {worst}"


def _reference(
    files: Files, index: int, entries: Mapping[str, Any]
) -> tuple[list[Array], list[Array] | None]:
    """The results of the unfused program and in float64, of one set of shapes."""
    found: list[list[Array] | None] = []
    for form in ("unfused", "exact"):
        if entries[form] is None:
            found.append(None)
            continue
        stem = f"{form}{index}_"
        found.append(array_files.read(files[f"{stem}0"].parent, stem, entries[form]))
    unfused, exact = found
    assert unfused is not None
    return unfused, exact


def _named(path: Path, folder: Path, index: int) -> Path:
    """The program under a name of its own, by which messages tell programs apart."""
    made = folder / f"candidate{index}.vmfb"
    made.symlink_to(path.resolve())
    return made


def _called(
    program: Path, inputs: Sequence[Array], signature: Signature, target: Target, timeout: float
) -> list[Array]:
    called = isolated.call(
        program, inputs, signature=signature, device=target.device, timeout=timeout
    )
    return called.results


def _signature(request: Request) -> Signature:
    return Signature(
        request["function"], portable.specs(request["inputs"]), portable.specs(request["outputs"])
    )


def _inputs(
    signature: Signature, shapes: Iterable[Sequence[int]] | None, request: Request
) -> list[Array]:
    """Random arguments of some shapes; None for those of the model."""
    from mlirfuse.runtime.arrays import numpy_dtype

    seed = request["seed"]
    if shapes is None:
        model = portable.restored(request["model"], Path())
        return random_inputs(signature.inputs, seed, model.sizes)
    return [
        random_array(tuple(shape), numpy_dtype(spec.dtype), seed=seed, index=index)
        for index, (shape, spec) in enumerate(zip(shapes, signature.inputs, strict=True))
    ]


def _compiler(target: Target, timeout: float) -> Any:
    from mlirfuse.backend.compiler import Compiler

    return Compiler(target, FusionOptions(), timeout)
