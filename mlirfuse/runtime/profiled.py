"""Profiles of a program that is called with arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlirfuse.profiling import profiler
from mlirfuse.profiling.iree_capture import Argument
from mlirfuse.profiling.result import Profile
from mlirfuse.runtime import arrays
from mlirfuse.runtime.abi import declaration, scalar_types
from mlirfuse.runtime.devices import chosen_threads
from mlirfuse.runtime.image import Image
from mlirfuse.runtime.manifest import Manifest
from mlirfuse.runtime.parameters import Archives, as_files
from mlirfuse.support.signature import TensorSpec


def profile(
    image: Image,
    manifest: Manifest,
    values: Sequence[Any],
    *,
    call: Callable[[], object],
    parameters: Archives,
    calls: int,
    threads: int | None,
    timeout: float | None,
) -> Profile:
    """Measures the kernels of a program.

    Args:
      image: the program.
      manifest: its function, device and kernels.
      values: checked arguments of every call.
      call: calls the program once in this process, with these arguments, and waits.
      parameters: scope -> archive of its parameters.
      calls: number of calls that are measured.
      threads: number of threads on the CPU; None for this process's, or for IREE's choice.
      timeout: seconds for all calls; None for no limit.

    Raises:
      MlirfuseError: the device has no profiler, or the program failed on it.
    """
    scalars = scalar_types(declaration(image, manifest.function), len(values))
    with as_files(parameters) as files:
        subject = profiler.Subject(
            source=manifest.source,
            program=image.write,
            function=manifest.function,
            device=manifest.device,
            target=manifest.report.target,
            parameters=files,
            kernels=manifest.report.kernels,
            call=call,
        )
        return profiler.profile(
            subject,
            [_argument(*given) for given in zip(values, scalars, manifest.inputs, strict=True)],
            calls=calls,
            threads=chosen_threads(manifest.device) if threads is None else threads,
            timeout=timeout,
        )


def _argument(value: Any, scalar: str | None, spec: TensorSpec) -> Argument:
    """An argument as the profiler takes it: type and array, or `scalar` and the number."""
    if scalar is not None:
        return "scalar", float(value) if scalar.startswith("f") else int(value)
    value = arrays.permuted(value, spec.order)
    array = arrays.numpy_of(value.cpu() if arrays.kind_of(value) == "torch" else value)
    return str(TensorSpec(array.shape, arrays.dtype_name(array))), array
