"""The tuner's tasks that make the results which those of candidates are compared with.

`make_unfused` needs the device, for one call; `make_exact` computes in float64 on the cores, beside
compilations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mlirfuse import targets
from mlirfuse.backend.compiler import Compiler
from mlirfuse.compilation import open_model
from mlirfuse.core import CompileFailedError, MlirfuseError
from mlirfuse.debug import float64
from mlirfuse.options import FusionOptions
from mlirfuse.runtime import array_files, isolated
from mlirfuse.runtime.inputs import Array, random_array, random_inputs
from mlirfuse.runtime.isolated import Signature
from mlirfuse.support import device_lock
from mlirfuse.tuning.execution.task import DeviceFaultError
from mlirfuse.tuning.model import portable
from mlirfuse.tuning.model.jobs import MODEL, PROGRAM, Files, Request

UNFUSED, EXACT = "unfused", "exact"
"""Start of the names of the files of results, and key of their entries."""


def make_unfused(request: Request, files: Files, output: Path) -> dict[str, Any]:
    """Results of the unfused program.

    Args:
      request: `inputs`, `outputs`, `function`, `shapes`, `target`, `device`, `timeout`,
        `seed`.
      files: `PROGRAM` of the unfused program.
      output: gets the results of each set of shapes.

    Returns:
      `sets`: the entries of the files of each set of shapes.

    Raises:
      DeviceFaultError: the call fails.
    """
    signature = signature_of(request)
    sets = []
    for index, shapes in enumerate(request["shapes"]):
        inputs = inputs_of(signature, shapes, request)
        try:
            results = called(
                files[PROGRAM], inputs, signature, request["device"], request["timeout"]
            )
        except CompileFailedError as error:
            raise DeviceFaultError(f"the unfused program fails: {error}") from error
        sets.append(array_files.write(output, f"{UNFUSED}{index}_", results))
    return {"sets": sets}


def make_exact(request: Request, files: Files, output: Path) -> dict[str, Any]:
    """Results in float64, where they can be computed.

    Args:
      request: that of `make_unfused`.
      files: `MODEL`, as it was imported: it is compiled for the CPU.
      output: gets the results of each set of shapes.

    Returns:
      `sets`: the entries of the files of each set of shapes, or None; `note`: why there are none.
    """
    signature = signature_of(request)
    model = portable.restored(request["model"], files[MODEL])
    sets: list[list[array_files.Entry] | None] = []
    note = ""
    try:
        if model.normalized and targets.parse(request["target"]).name != "cpu":
            raise MlirfuseError("the model is normalized for another target than the CPU")
        with open_model(
            model, target="cpu", options=FusionOptions(), timeout=request["timeout"], stock=True
        ) as work:
            compiler = Compiler(targets.parse("cpu"), FusionOptions(), request["timeout"])
            for index, shapes in enumerate(request["shapes"]):
                inputs = inputs_of(signature, shapes, request)
                results = float64.results(work.normalized, inputs, signature, compiler)
                sets.append(array_files.write(output, f"{EXACT}{index}_", results))
    except MlirfuseError as error:
        note = str(error)
    sets += [None] * (len(request["shapes"]) - len(sets))
    return {"sets": sets, "note": note}


def read(
    files: Files, index: int, entries: Mapping[str, Any]
) -> tuple[list[Array], list[Array] | None]:
    """The results of the unfused program and in float64, of one set of shapes.

    Args:
      files: those of both tasks.
      index: of the set of shapes.
      entries: `UNFUSED` and `EXACT`, of that set.
    """
    found = {}
    for form in (UNFUSED, EXACT):
        if entries[form] is not None:
            stem = f"{form}{index}_"
            found[form] = array_files.read(files[f"{stem}0"].parent, stem, entries[form])
    return found[UNFUSED], found.get(EXACT)


def called(
    program: Path, inputs: Sequence[Array], signature: Signature, device: str, timeout: float
) -> list[Array]:
    """The results of a program that is called in a process of its own.

    Raises:
      CompileFailedError: in stage `run`: it failed, crashed or ran out of time.
    """
    with device_lock.held():
        return isolated.call(
            program, inputs, signature=signature, device=device, timeout=timeout
        ).results


def signature_of(request: Request) -> Signature:
    """The function that a task calls."""
    return Signature(
        request["function"], portable.specs(request["inputs"]), portable.specs(request["outputs"])
    )


def inputs_of(
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
