"""Memory of arrays on the host, as buffers of iree-runtime, and back."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, TypeAlias

import numpy as np

from mlirfuse.runtime.arrays import ALIGNMENT

Shared: TypeAlias = list[tuple[int, int]]
"""First byte and size in bytes of memory that the caller owns: of arguments and results."""

_BYTE = np.dtype(np.uint8)

_ONE_BYTE = np.zeros(1, np.uint8)
"""Backs an array of no elements: CUDA's allocator refuses a buffer of no bytes."""


def bytes_in_order(array: Any) -> Any:
    """The bytes of an array of numpy in C order, as an array of one axis."""
    return array.reshape(-1).view(_BYTE)


def imported(raw: Any, device: Any, shared: Shared, owners: list[Any]) -> Any:
    """A buffer that shares the bytes of the host; None where iree-runtime cannot use them.

    It needs writable memory that is aligned to `ALIGNMENT`.

    Args:
      raw: bytes, an array of one axis.
      device: the `HalDevice`, which runs on the host.
      shared: the memory is added.
      owners: what has to live as long as the buffer is used is added.
    """
    if not (raw.flags.writeable and raw.size) or (address := address_of(raw)) % ALIGNMENT:
        return None
    shared.append((address, raw.nbytes))
    buffer = device.allocator.import_host_allocation(raw, *_imported_flags())
    owners.append((raw, buffer))
    return buffer


def uploaded(raw: Any, device: Any) -> Any:
    """A buffer of the device with a copy of the bytes of the host."""
    memory_type, usage = _copied_flags()
    return device.allocator.allocate_buffer_copy(
        memory_type=memory_type,
        allowed_usage=usage,
        device=device,
        buffer=raw if raw.size else _ONE_BYTE,
    )


def mapped(buffer: Any) -> Any:
    """The bytes of a buffer that the host can map, as an array of one axis that shares them.

    With several axes `asarray` of iree-runtime 3.13 returns a view that alone owns the memory;
    numpy drops it from the bases of slices, which then read freed memory.
    """
    return buffer.map().asarray([buffer.byte_length()], _BYTE)


def address_of(raw: Any) -> int:
    """Address of the first byte of a writable array of bytes that are contiguous, and not none.

    `array.ctypes` and `array.__array_interface__` take twice as long.
    """
    return ctypes.addressof(ctypes.c_char.from_buffer(raw))


def is_shared(address: int, size: int, shared: Shared) -> bool:
    """Whether memory overlaps that of `shared`; it is added there where it does not.

    Args:
      address: its first byte.
      size: its bytes.
      shared: the memory of arguments and of earlier results.
    """
    end = address + size
    for first, count in shared:
        if first < end and address < first + count:
            return True
    shared.append((address, size))
    return False


@functools.cache
def _imported_flags() -> tuple[int, int]:
    """Memory type and buffer usage of imported memory."""
    import iree.runtime as rt

    return (
        int(rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE),
        int(rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING),
    )


@functools.cache
def _copied_flags() -> tuple[int, int]:
    """Memory type and buffer usage of copies."""
    import iree.runtime as rt

    return int(rt.MemoryType.DEVICE_LOCAL), int(rt.BufferUsage.DEFAULT)
