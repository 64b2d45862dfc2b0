"""Calls of the systems other than IREE's, each for a model that `worker` has prepared."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.cpu import systems
from benchmarks.cpu.rows import Row
from benchmarks.models import Inputs
from mlirfuse.benchmarking.sides import peers
from mlirfuse.runtime.arrays import numpy_of, torch_of

Call = Callable[[], Any]


def make_call(
    system: str, row: Row, inputs: Inputs, onnx: Path, threads: int, narrow: bool
) -> Call:
    """A call of a system with the inputs; its results are read by `tensors`.

    Args:
      system: a name of `systems.PEERS`.
      row: the row.
      inputs: its inputs.
      onnx: the file of its ONNX export.
      threads: number of threads.
      narrow: whether vectors are limited to AVX2's.

    Raises:
      Exception: of any type, where the system does not take the model.
    """
    if system == systems.ONNX_RUNTIME:
        return peers.onnx_runtime(onnx, [numpy_of(x) for x in inputs], threads)
    if system == systems.OPENVINO:
        return peers.openvino(onnx, [numpy_of(x) for x in inputs], threads)
    torch.set_num_threads(threads)
    if system == systems.EAGER:
        return functools.partial(torch.inference_mode()(_module(row)), *inputs)
    return _compiled(system, row, inputs, narrow)


def tensors(results: Any) -> list[torch.Tensor]:
    """The results of a call of any system, in order."""
    if isinstance(results, torch.Tensor):
        return [results]
    if isinstance(results, Mapping):
        results = list(results.values())
    found = results if isinstance(results, Sequence) else [results]
    if all(isinstance(result, torch.Tensor) for result in found):
        return list(found)
    return [torch_of(np.asarray(result)) for result in found]


def _module(row: Row) -> torch.nn.Module:
    module, _ = row.model()
    if row.dtype != "i8":
        return module
    from torch.ao.quantization import quantize_dynamic

    return quantize_dynamic(module, {torch.nn.Linear}, dtype=torch.qint8)


def _compiled(system: str, row: Row, inputs: Inputs, narrow: bool) -> Call:
    from torch._inductor import config

    mode = None
    if system == systems.MAX_AUTOTUNE:
        mode, config.freezing = "max-autotune", True
    compiled = peers.inductor(_module(row), narrow=narrow, mode=mode)
    return functools.partial(torch.inference_mode()(compiled), *inputs)


def versions() -> dict[str, str]:
    """Versions of the packages of peers that are installed."""
    from importlib import metadata

    found = {}
    for package in ("onnxruntime", "openvino", "onnx", "onnxscript"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found
