"""Calls of systems other than IREE's; each runs in a process of its own."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mlirfuse.core import UsageError
from mlirfuse.runtime.arrays import numpy_dtype
from mlirfuse.runtime.inputs import Array

Call = Callable[[], Any]

CUDA_PROVIDER = "CUDAExecutionProvider"

AVX2_BITS = 256


def torch_module(source: Any, device: str) -> Any:
    """A module, a function or an exported program as a callable on a device of PyTorch."""
    import torch

    if isinstance(source, torch.export.ExportedProgram):
        from torch.export.passes import move_to_device_pass

        return (source if device == "cpu" else move_to_device_pass(source, device)).module()
    if isinstance(source, torch.nn.Module):
        return source.to(device)
    return source


def inductor(module: Any, *, narrow: bool, mode: str | None = None) -> Any:
    """The module compiled by torch.compile.

    Args:
      module: a callable of PyTorch.
      narrow: whether vectors are limited to AVX2's.
      mode: as `torch.compile` takes it.
    """
    import torch
    from torch._inductor import config

    if narrow:
        config.cpp.simdlen = AVX2_BITS
    return torch.compile(module, mode=mode, dynamic=False)


def export_onnx(source: Any, args: tuple[Any, ...], kwargs: dict[str, Any], path: Path) -> None:
    """Writes a model of PyTorch as ONNX.

    Raises:
      UsageError: `onnxscript` is not installed.
      Exception: of any type, where the exporter fails.
    """
    import torch

    try:
        import onnxscript  # noqa: F401
    except ImportError:
        raise UsageError(
            "the export to ONNX needs onnxscript: pip install 'mlirfuse[bench]'"
        ) from None
    logging.disable(logging.CRITICAL)
    if isinstance(source, torch.export.ExportedProgram):
        program = torch.onnx.export(source, dynamo=True, verbose=False)
    else:
        from mlirfuse.frontends.torch import as_module

        module = source if isinstance(source, torch.nn.Module) else as_module(source)
        program = torch.onnx.export(module, args, kwargs=kwargs, dynamo=True, verbose=False)
    assert program is not None
    program.save(path)


def onnx_runtime(path: Path, inputs: Sequence[Array], threads: int, *, cuda: bool = False) -> Call:
    """A call of ONNX Runtime.

    Args:
      path: an `.onnx` file.
      inputs: its inputs, in order.
      threads: number of threads.
      cuda: whether to run on a GPU of CUDA.

    Raises:
      UsageError: this build of ONNX Runtime has no CUDA.
    """
    import onnxruntime as ort

    if cuda and CUDA_PROVIDER not in ort.get_available_providers():
        raise UsageError(f"this build has no {CUDA_PROVIDER}: pip install onnxruntime-gpu")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    providers = [CUDA_PROVIDER] if cuda else ["CPUExecutionProvider"]
    session = ort.InferenceSession(path, options, providers=providers)
    names = [argument.name for argument in session.get_inputs()]
    return functools.partial(session.run, None, dict(zip(names, inputs, strict=True)))


def openvino(path: Path, inputs: Sequence[Array], threads: int) -> Call:
    """A call of OpenVINO on the CPU.

    Args:
      path: an `.onnx` file.
      inputs: its inputs, in order.
      threads: number of threads.
    """
    import openvino as ov

    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": threads,
    }
    if not any(x.dtype.name == "bfloat16" for x in inputs):
        settings["INFERENCE_PRECISION_HINT"] = "f32"
    compiled = ov.Core().compile_model(path, "CPU", settings)
    request = compiled.create_infer_request()
    feeds = [_openvino_tensor(x) for x in inputs]

    def call() -> list[Any]:
        found = request.infer(feeds, share_inputs=True, share_outputs=True)
        return [found[port] for port in compiled.outputs]

    def call_bf16() -> list[Any]:
        return [bits.view(numpy_dtype("bf16")) for bits in call()]

    # NumPy has no bf16 of its own: the arrays hold its bits.
    has_bf16 = any(port.get_element_type() == ov.Type.bf16 for port in compiled.outputs)
    return call_bf16 if has_bf16 else call


def _openvino_tensor(x: Array) -> Any:
    import numpy as np
    import openvino as ov

    x = np.array(x, order="C")
    if x.dtype.name != "bfloat16":
        return ov.Tensor(x, shared_memory=True)
    return ov.Tensor(x.view(np.int16), list(x.shape), ov.Type.bf16)


def xla(function: Any, platform: str) -> Callable[..., Any]:
    """A function of JAX, or an exported one, compiled by XLA for a device.

    Args:
      function: the function, jitted or not, or a `jax.export.Exported`.
      platform: JAX's name of the platform, `cpu` or `cuda`.

    Raises:
      UsageError: JAX has no such device here.
    """
    import jax

    try:
        device = jax.devices(platform)[0]
    except RuntimeError:
        raise UsageError(f"JAX has no device '{platform}': pip install 'jax[cuda12]'") from None
    jitted = jax.jit(getattr(function, "call", function))

    def call(*args: Any, **kwargs: Any) -> Any:
        with jax.default_device(device):
            return jax.block_until_ready(jitted(*args, **kwargs))

    return call
