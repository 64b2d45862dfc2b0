"""Devices of iree-runtime, opened once in a process and kept to its end."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from mlirfuse.core import MlirfuseError, UsageError
from mlirfuse.support import environment_numbers
from mlirfuse.support.environment_numbers import THREADS_VARIABLE

SPIN_VARIABLE = "MLIRFUSE_SPIN_US"
"""Environment variable with the microseconds that threads of `local-task` wait for the next kernel
before they sleep."""

SPIN_US = 5
"""Microseconds that they wait without it: a thread that sleeps takes several to wake, and a model
has a kernel every 10 to 1000 microseconds."""

_DRIVERS_WITH_POOL = ("local-task", "local-sync", "cuda")
"""Drivers that keep freed buffers in a pool for the next call. Without a pool a call that returns
32 MiB on the CPU spends 80 % of its time on page faults, and one that returns 134 MB on an H100
takes three times as long as its kernel. IREE 3.13's Vulkan driver cannot allocate from a pool."""

_lock = threading.Lock()
_devices: dict[tuple[str, bool], Any] = {}
"""URI and whether calls are recorded -> device."""

_threads: list[int] = []
"""The chosen number of threads of `local-task`; empty while IREE chooses."""


def open_device(uri: str, threads: int | None = None, *, recorded: bool = False) -> Any:
    """The `HalDevice` of a URI.

    Args:
      uri: `local-task`, `local-sync`, `cuda`, `hip`, `vulkan`, or with a path, `cuda://1`.
      threads: number of threads of `local-task`; None for `MLIRFUSE_THREADS`, or for IREE's choice.
      recorded: whether calls are recorded for CUDA graphs. The memory of their programs must stay
        allocated, so they share a device that no other program uses.

    Raises:
      UsageError: the number of threads is not positive, or the process runs another number already:
        IREE starts the threads of a process once.
      MlirfuseError: the device is not available.
    """
    import iree.runtime as rt

    driver = uri.partition(":")[0]
    with _lock:
        if driver == "local-task":
            running = any(u.startswith(driver) for u, _ in _devices)
            if not running:
                spin = environment_numbers.number(
                    SPIN_VARIABLE, "a number of microseconds", least=0
                )
                rt.flags.parse_flags(f"--task_worker_spin_us={SPIN_US if spin is None else spin}")
            _choose_threads(threads, running=running)
        if (uri, recorded) in _devices:
            return _devices[uri, recorded]
        # Results that live until the process ends are not leaks.
        rt._binding.disable_leak_checker()
        try:
            if driver == "cuda":
                rt.flags.parse_flags("--cuda_async_allocations=false")
            pool = ["caching"] if driver in _DRIVERS_WITH_POOL else []
            device = rt.get_driver(uri).create_device_by_uri(uri, allocators=pool)
        except (ValueError, RuntimeError) as error:
            known = ", ".join(sorted(rt.query_available_drivers()))
            raise MlirfuseError(
                f"device '{uri}' is not available: {first_line(error)} (drivers: {known})"
            ) from error
        # IREE frees the memory of all buffers with their device, even if views of them are alive,
        # and the interpreter collects cycles, which may hold results, last. So a device is never
        # freed.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(device))
        _devices[uri, recorded] = device
        return device


def chosen_threads(uri: str) -> int | None:
    """The number of threads that this process, or its environment, chose for a device.

    Raises:
      UsageError: the environment variable holds no number.
    """
    if not uri.startswith("local-task"):
        return None
    return _threads[0] if _threads else environment_numbers.threads()


def _choose_threads(threads: int | None, *, running: bool) -> None:
    import iree.runtime as rt

    wanted = environment_numbers.threads() if threads is None and not running else threads
    if wanted is None or wanted in _threads:
        return
    if wanted < 1:
        raise UsageError(f"threads={wanted} is not a number of threads from 1")
    if running:
        used = str(_threads[0]) if _threads else "IREE's own number of"
        raise UsageError(
            f"threads={wanted} comes too late: this process runs {used} threads already; "
            f"set {THREADS_VARIABLE}={wanted} before it starts"
        )
    rt.flags.parse_flags(f"--task_topology_max_group_count={wanted}")
    _threads[:] = [wanted]


def first_line(error: object) -> str:
    """The first line of IREE's message, without C source lines and attributes, trimmed."""
    line = next((part for part in str(error).splitlines() if part.strip()), type(error).__name__)
    line = line.split("; while ")[0].split(": #hal.")[0]
    text = ": ".join(part for part in line.split(": ") if not part.startswith("c/")).strip()
    return text if len(text) <= 300 else text[:297] + "..."
