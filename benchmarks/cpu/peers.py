"""Calls of the systems other than IREE's, each for a model that `worker` has prepared."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.cpu import systems
from benchmarks.cpu.rows import Row
from benchmarks.models import Inputs

Call = Callable[[], Any]

AVX2_BITS = 256


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
        return _onnx_runtime(onnx, inputs, threads)
    if system == systems.OPENVINO:
        return _openvino(onnx, inputs, threads)
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
    return [torch.as_tensor(result) for result in found]


def _module(row: Row) -> torch.nn.Module:
    module, _ = row.model()
    if row.dtype != "i8":
        return module
    from torch.ao.quantization import quantize_dynamic

    return quantize_dynamic(module, {torch.nn.Linear}, dtype=torch.qint8)


def _compiled(system: str, row: Row, inputs: Inputs, narrow: bool) -> Call:
    from torch._inductor import config

    if narrow:
        config.cpp.simdlen = AVX2_BITS
    mode = None
    if system == systems.MAX_AUTOTUNE:
        mode, config.freezing = "max-autotune", True
    compiled = torch.compile(_module(row), mode=mode, dynamic=False)
    return functools.partial(torch.inference_mode()(compiled), *inputs)


def _onnx_runtime(path: Path, inputs: Inputs, threads: int) -> Call:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [argument.name for argument in session.get_inputs()]
    feeds = {name: x.numpy() for name, x in zip(names, inputs, strict=True)}
    return functools.partial(session.run, None, feeds)


def _openvino(path: Path, inputs: Inputs, threads: int) -> Call:
    import openvino as ov

    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": threads,
    }
    if not any(x.dtype == torch.bfloat16 for x in inputs):
        settings["INFERENCE_PRECISION_HINT"] = "f32"
    compiled = ov.Core().compile_model(path, "CPU", settings)
    request = compiled.create_infer_request()
    feeds = [_openvino_tensor(x) for x in inputs]

    def call() -> list[Any]:
        found = request.infer(feeds, share_inputs=True, share_outputs=True)
        return [found[port] for port in compiled.outputs]

    def call_bf16() -> list[Any]:
        return [torch.from_numpy(bits.view("int16")).view(torch.bfloat16) for bits in call()]

    # NumPy has no bf16: the arrays hold its bits.
    has_bf16 = any(port.get_element_type() == ov.Type.bf16 for port in compiled.outputs)
    return call_bf16 if has_bf16 else call


def _openvino_tensor(x: torch.Tensor) -> Any:
    import openvino as ov

    if x.dtype != torch.bfloat16:
        return ov.Tensor(x.contiguous().numpy(), shared_memory=True)
    bits = x.contiguous().view(torch.int16).numpy()
    return ov.Tensor(bits, list(x.shape), ov.Type.bf16)


def versions() -> dict[str, str]:
    """Versions of the packages of peers that are installed."""
    from importlib import metadata

    found = {}
    for package in ("onnxruntime", "openvino", "onnx", "onnxscript"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found
