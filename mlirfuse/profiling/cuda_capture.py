"""Profiled calls on CUDA, by the activity records of CUPTI.

IREE 3.13's CUDA driver has no profiler. CUPTI's activity API gives the start and end of each kernel
on the device, with its launch parameters, for the calls of this process. The first 112 bytes of its
records are the same from CUDA 12.9 (`CUpti_ActivityKernel9`) to 13.5 (`CUpti_ActivityKernel13`).
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

from mlirfuse.profiling.capture import Capture, Launch, ProfileError, split
from mlirfuse.support import cupti

_MEMCPY, _MEMSET, _KERNEL = 1, 2, 10
"""Kinds of records: copies, fills, and kernels that may run at the same time."""

_NAMES = {_MEMCPY: "copy", _MEMSET: "fill"}

_BUFFER_BYTES = 1 << 22
_ALIGNMENT = 8
"""Alignment of a buffer of records, in bytes (`ACTIVITY_RECORD_ALIGNMENT`)."""

_NO_MORE = 12
"""`CUPTI_ERROR_MAX_LIMIT_REACHED`: the buffer has no further record."""

_kept: list[Any] = []
"""Every recorder: CUPTI may call the registered functions until the process ends."""

CLOCK = "CUPTI's activity records, timestamps of the device"


class KernelRecord(ctypes.Structure):
    """The first fields of `CUpti_ActivityKernel9` to `CUpti_ActivityKernel13`."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("cache_config", ctypes.c_uint8),
        ("shared_memory_config", ctypes.c_uint8),
        ("registers", ctypes.c_uint16),
        ("partitioned_requested", ctypes.c_uint32),
        ("partitioned_executed", ctypes.c_uint32),
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("completed", ctypes.c_uint64),
        ("device", ctypes.c_uint32),
        ("context", ctypes.c_uint32),
        ("stream", ctypes.c_uint32),
        ("grid", ctypes.c_int32 * 3),
        ("block", ctypes.c_int32 * 3),
        ("static_shared_memory", ctypes.c_int32),
        ("dynamic_shared_memory", ctypes.c_int32),
        ("local_memory_per_thread", ctypes.c_uint32),
        ("local_memory_total", ctypes.c_uint32),
        ("correlation", ctypes.c_uint32),
        ("grid_id", ctypes.c_int64),
        ("name", ctypes.c_char_p),
    )


class TransferRecord(ctypes.Structure):
    """The first fields of `CUpti_ActivityMemcpy6`, `CUpti_ActivityMemset4` and later ones."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("detail", ctypes.c_uint32),
        ("bytes", ctypes.c_uint64),
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
    )


_REQUESTED = ctypes.CFUNCTYPE(
    None,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(ctypes.c_size_t),
)
_COMPLETED = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)


class _Recorder:
    """Takes buffers of records; CUPTI's thread calls it."""

    def __init__(self, library: Any) -> None:
        self.launches: list[Launch] = []
        self.failure: Exception | None = None
        self._library = library
        self._buffers: dict[int, Any] = {}
        # CUPTI keeps the addresses, not the objects.
        self.requested = _REQUESTED(self._give)
        self.completed = _COMPLETED(self._take)

    def _give(self, buffer: Any, size: Any, limit: Any) -> None:
        held = ctypes.create_string_buffer(_BUFFER_BYTES + _ALIGNMENT)
        address = -(-ctypes.addressof(held) // _ALIGNMENT) * _ALIGNMENT
        self._buffers[address] = held
        buffer[0], size[0], limit[0] = address, _BUFFER_BYTES, 0

    def _take(self, _context: Any, _stream: int, buffer: int, _size: int, valid: int) -> None:
        try:
            record = ctypes.c_void_p()
            while True:
                status = self._library.cuptiActivityGetNextRecord(
                    ctypes.c_void_p(buffer), ctypes.c_size_t(valid), ctypes.byref(record)
                )
                if status:
                    if status != _NO_MORE:
                        raise ProfileError(f"CUPTI cannot read its records: error {status}")
                    break
                assert record.value is not None
                self._read(record.value)
        except Exception as error:  # It must not propagate through CUPTI's frames.
            self.failure = self.failure or error
        finally:
            self._buffers.pop(buffer, None)

    def _read(self, address: int) -> None:
        kind = ctypes.c_uint32.from_address(address).value
        if kind in _NAMES:
            moved = TransferRecord.from_address(address)
            self.launches.append(Launch(_NAMES[kind], moved.start, moved.end))
        elif kind == _KERNEL:
            found = KernelRecord.from_address(address)
            self.launches.append(
                Launch(
                    found.name.decode(),
                    found.start,
                    found.end,
                    workgroups=tuple(found.grid),
                    workgroup_size=tuple(found.block),
                    registers=found.registers,
                    shared_memory=found.static_shared_memory + found.dynamic_shared_memory,
                    local_memory=found.local_memory_per_thread,
                )
            )


def capture(call: Callable[[], object], device: str, *, calls: int, warmup: int) -> Capture:
    """Calls a program, and records its launches.

    Args:
      call: calls the program once, and waits.
      device: URI of its device, for the result.
      calls: calls that are kept.
      warmup: calls before them.

    Raises:
      ProfileError: CUPTI is not installed, in use elsewhere, or failed.
    """
    try:
        library = cupti.library()
    except cupti.CuptiError as error:
        raise ProfileError(str(error)) from error
    # The first call loads the program, whose initializers launch kernels of their own.
    call()
    recorder = _Recorder(library)
    _kept.append(recorder)
    _checked(library, "cuptiActivityRegisterCallbacks", recorder.requested, recorder.completed)
    enabled = []
    walls = []
    try:
        for kind in (_KERNEL, _MEMCPY, _MEMSET):
            _checked(library, "cuptiActivityEnable", kind)
            enabled.append(kind)
        for _ in range(warmup + calls):
            began = time.perf_counter_ns()
            call()
            walls.append(time.perf_counter_ns() - began)
    finally:
        for kind in enabled:
            library.cuptiActivityDisable(kind)
        library.cuptiActivityFlushAll(1)
    if recorder.failure is not None:
        raise ProfileError(f"CUPTI: {recorder.failure}") from recorder.failure
    if not recorder.launches:
        raise ProfileError("CUPTI recorded no kernel: another profiler may be using it")
    return Capture(device, None, CLOCK, split(recorder.launches, walls, warmup))


def _checked(library: Any, function: str, *given: Any) -> None:
    status = getattr(library, function)(*given)
    if status:
        raise ProfileError(f"{function} failed: {cupti.message(library, status)}")
