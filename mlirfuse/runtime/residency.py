"""Whether a device runs all workgroups at a time that wait for each other.

Where it does not, as a slice of a GPU (MIG) with few multiprocessors, their kernel never ends.
"""

from __future__ import annotations

import ctypes
import functools

from mlirfuse.core import MlirfuseError

_MULTIPROCESSORS = 16
"""`CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`."""


def check_resident(uri: str, workgroups: int, source: str) -> None:
    """Makes sure that each of these workgroups has a multiprocessor.

    Args:
      uri: of an open device; devices without CUDA are not asked.
      workgroups: workgroups that wait for each other.
      source: the program, for the message.

    Raises:
      MlirfuseError: the device has fewer multiprocessors.
    """
    driver, _, path = uri.partition("://")
    if not workgroups or driver != "cuda":
        return
    found = multiprocessors(int(path) if path.isdecimal() else 0)
    if found is not None and found < workgroups:
        raise MlirfuseError(
            f"{source} cannot be loaded on device '{uri}': {workgroups} workgroups of a recurrence"
            f" wait for each other, and it has {found} multiprocessors; compile with"
            " --disable-pass=recurrence_triton_kernel"
        )


@functools.cache
def multiprocessors(ordinal: int) -> int | None:
    """Number of multiprocessors of a CUDA device; None where the driver does not tell."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, count = ctypes.c_int(), ctypes.c_int()
    refused: bool = (
        library.cuInit(0)
        or library.cuDeviceGet(ctypes.byref(device), ordinal)
        or library.cuDeviceGetAttribute(ctypes.byref(count), _MULTIPROCESSORS, device)
    )
    return None if refused else count.value
