"""One side of `mlirfuse-bench` as a process: `python -m mlirfuse.benchmarking.sides.worker`.

It reads a `Request` as JSON from standard input, compiles, and writes a line of JSON: facts about
the side, or `said`, the reason why it does not run. Then it answers each line with the seconds of a
burst of calls.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mlirfuse.benchmarking.environment import limited_to_avx2
from mlirfuse.benchmarking.messages import without_folders
from mlirfuse.benchmarking.process import opened, serve
from mlirfuse.benchmarking.sides import (
    CONTROL,
    EAGER,
    INDUCTOR,
    ORT,
    OURS,
    STOCK,
    TORCH,
    XLA,
    models,
    peers,
)
from mlirfuse.benchmarking.sides.models import Model
from mlirfuse.core import MlirfuseError, UsageError
from mlirfuse.runtime import array_files
from mlirfuse.runtime.array_files import Entry
from mlirfuse.runtime.inputs import Array
from mlirfuse.targets.base import Target

MODULE = "mlirfuse.benchmarking.sides.worker"

INPUT, ONNX_FILE, NO_ONNX = "input", "model.onnx", "no-onnx.txt"
"""Files of the folder: the tensors of a call, the export of a model of PyTorch, or the reason why
there is none."""

MESSAGE_CHARS = 300
"""Maximum length of a reason."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One side of one model.

    Attributes:
      side: its name; `ours again` runs the program that `ours` compiled.
      model: MODEL as for `mlirfuse-compile`.
      target: the target of IREE's programs, and the device of the others.
      threads: number of threads.
      folder: folder that the sides of a model share.
      options: the switches of `ours`.
      inputs: the tensors of a call, in the files `INPUT`; None for `ours` to choose them.
      kind: kind of the model, as `ours` found it.
      function: as for `mlirfuse.compile`.
      shapes: as for `mlirfuse-compile`.
      timeout: seconds that one step of IREE's compiler may take; None for no limit.
    """

    side: str
    model: str
    target: str
    threads: int
    folder: str
    options: dict[str, Any]
    inputs: list[Entry] | None
    kind: str | None
    function: str | None
    shapes: str | None
    timeout: float | None


def results_stem(side: str) -> str:
    """Start of the names of the files with a side's results."""
    return f"result-{side.replace(' ', '-')}-"


def main() -> int:
    """Prepares the side of the request, and calls it until standard input ends."""
    lines, fields = opened()
    request = Request(**fields)
    try:
        call, kind, about = _prepared(request)
        tensors = models.tensors_of(kind, call())
        stem = results_stem(request.side)
        about["results"] = array_files.write(Path(request.folder), stem, tensors)
    except Exception as error:  # Systems fail with errors of any type.
        lines.write(json.dumps({"said": said(error)}) + "\n")
        return 1
    del tensors
    serve(lines, about, call)
    return 0


def said(error: BaseException) -> str:
    """The message of a failure on one line, without folders."""
    text = without_folders(str(error))
    if not isinstance(error, MlirfuseError):
        text = f"{type(error).__name__}: {text}"
    return text if len(text) <= MESSAGE_CHARS else f"{text[: MESSAGE_CHARS - 3]}..."


Prepared = tuple[Callable[[], Any], str, dict[str, Any]]
"""A call, the kind of its results, and facts."""


def _prepared(request: Request) -> Prepared:
    """Raises an exception of any type where the side does not take the model."""
    from mlirfuse import targets

    target, folder = targets.parse(request.target), Path(request.folder)
    if request.side == CONTROL:
        assert request.kind is not None
        return _program(request, folder / f"{OURS}.vmfb", request.kind, target), request.kind, {}
    model = models.open_model(request.model, request.shapes)
    if request.side in (OURS, STOCK):
        return _iree(request, model, target)
    assert request.inputs is not None
    flat = array_files.read(folder, INPUT, request.inputs)
    began = time.perf_counter()
    if request.side in (EAGER, INDUCTOR, XLA):
        call, kind = _of_framework(request, model, flat, target), model.kind
    else:
        path = _onnx(model, flat, folder)
        began, kind = time.perf_counter(), "onnx"
        if request.side == ORT:
            cuda = target.name == "cuda"
            call = peers.onnx_runtime(path, flat, request.threads, cuda=cuda)
        else:
            call = peers.openvino(path, flat, request.threads)
    call()
    return call, kind, {"compile_s": time.perf_counter() - began}


def _iree(request: Request, model: Model, target: Target) -> Prepared:
    """Compiles the model with IREE, with or without our passes."""
    from mlirfuse import compilation
    from mlirfuse.runtime.inputs import random_inputs

    folder = Path(request.folder)
    ours = request.side == OURS
    with compilation.open_model(
        model.source,
        model.example,
        target=target,
        options=compilation.resolved(request.options if ours else None, {}),
        dynamic_shapes=model.dynamic_shapes,
        function=request.function,
        stock=not ours,
        timeout=request.timeout,
    ) as work:
        began = time.perf_counter()
        image, report = work.build()
        seconds = time.perf_counter() - began
        program = folder / f"{request.side}.vmfb"
        work.module(image, report).save(program)
        imported = work.imported
    about: dict[str, Any] = {
        "kind": model.kind,
        "compile_s": seconds,
        "dispatches": report.dispatches["fused" if ours else "stock"],
        "notes": [without_folders(note) for note in report.notes],
    }
    if request.inputs is None:
        own = models.own_arguments(model)
        if own is None:
            flat = random_inputs(imported.inputs, models.SEED, imported.sizes)
        else:
            args, kwargs = own
            given = imported.flatten(*args, **kwargs) if imported.flatten else args
            flat = models.tensors_of(model.kind, list(given))
        about["inputs"] = array_files.write(folder, INPUT, flat)
        request = dataclasses.replace(request, inputs=about["inputs"])
    return _program(request, program, model.kind, target), model.kind, about


def _program(request: Request, program: Path, kind: str, target: Target) -> Callable[[], Any]:
    """A call of one of IREE's programs, with tensors of the model's framework on its device."""
    from mlirfuse.runtime.module import load

    assert request.inputs is not None
    flat = array_files.read(Path(request.folder), INPUT, request.inputs)
    values = models.of_kind(kind, flat)
    device = _torch_device(target) if kind == TORCH else "cpu"
    if device != "cpu":
        values = [value.to(device) for value in values]
    return _synchronized(functools.partial(load(program), *values), device)


def _of_framework(
    request: Request, model: Model, flat: Sequence[Array], target: Target
) -> Callable[[], Any]:
    args, kwargs = model.call_arguments(flat)
    if request.side == XLA:
        return functools.partial(peers.xla(model.source, target.name), *args, **kwargs)
    import torch
    from torch.utils import _pytree

    torch.set_num_threads(request.threads)
    device = _torch_device(target)
    args, kwargs = _pytree.tree_map(
        lambda leaf: leaf.to(device) if hasattr(leaf, "shape") else leaf, (args, kwargs)
    )
    module = peers.torch_module(model.source, device)
    if request.side == INDUCTOR:
        module = peers.inductor(module, narrow=limited_to_avx2(target.arch))
    module = torch.inference_mode()(module)
    return _synchronized(functools.partial(module, *args, **kwargs), device)


def _torch_device(target: Target) -> str:
    """PyTorch's device of a target; the CPU where IREE's device is none of PyTorch's.

    Raises:
      UsageError: PyTorch has no such device here.
    """
    import torch

    if target.name not in ("cuda", "rocm"):
        return "cpu"
    if not torch.cuda.is_available():
        raise UsageError(f"this PyTorch has no device of {target.name}; install a build for it")
    return "cuda"


def _synchronized(call: Callable[[], Any], device: str) -> Callable[[], Any]:
    """The call, which returns when the device is done."""
    if device == "cpu":
        return call
    import torch

    def synchronized() -> Any:
        results = call()
        torch.cuda.synchronize()
        return results

    return synchronized


def _onnx(model: Model, flat: Sequence[Array], folder: Path) -> Path:
    """The ONNX file of a model; one of PyTorch is exported once for all sides.

    Raises:
      UsageError: it cannot be exported.
    """
    if model.kind != TORCH:
        return Path(os.fspath(model.source))
    path, failed = folder / ONNX_FILE, folder / NO_ONNX
    if failed.exists():
        raise UsageError(failed.read_text(encoding="utf-8"))
    if not path.exists():
        try:
            peers.export_onnx(model.source, *model.call_arguments(flat), path)
        except Exception as error:  # Exporters fail with errors of any type.
            text = f"the export to ONNX failed: {said(error)}"
            failed.write_text(text, encoding="utf-8")
            raise UsageError(text) from error
    return path


if __name__ == "__main__":
    sys.exit(main())
