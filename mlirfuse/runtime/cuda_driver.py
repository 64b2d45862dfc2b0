"""Calls of the CUDA driver's functions through `cuda.bindings`."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from typing import Any

from mlirfuse.runtime.cupti_trace import NotRecorded


@functools.cache
def driver() -> Any:
    """The module `cuda.bindings.driver`.

    Raises:
      NotRecorded: it is not installed.
    """
    try:
        from cuda.bindings import driver
    except ImportError:
        raise NotRecorded("cuda-bindings is not installed: pip install 'mlirfuse[cuda]'") from None
    return driver


@functools.cache
def has_bindings() -> bool:
    """Whether `cuda.bindings` is installed."""
    try:
        return importlib.util.find_spec("cuda.bindings") is not None
    except ImportError:
        return False


def current_context() -> Any:
    """The CUDA context of this thread."""
    return unwrap(driver().cuCtxGetCurrent())


def unwrap(returned: Sequence[Any]) -> Any:
    """The value that a function of the driver returned next to its status; several as a list.

    Raises:
      NotRecorded: the status is an error.
    """
    status, *values = returned
    if status:
        text = driver().cuGetErrorName(status)[1]
        name = text.decode() if isinstance(text, bytes) else str(status)
        raise NotRecorded(f"the driver refuses a graph: {name}")
    return values[0] if len(values) == 1 else values


def check_on_device(address: int) -> None:
    """Makes sure that an address is memory of the device.

    Raises:
      NotRecorded: it is memory of the host: the program's commands may depend on values in it.
    """
    api = driver()
    attribute = api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    status, found = api.cuPointerGetAttribute(attribute, address)
    device = int(api.CUmemorytype.CU_MEMORYTYPE_DEVICE)
    if status != api.CUresult.CUDA_SUCCESS or int(found) != device:
        raise NotRecorded("the program passes values between host and device")
