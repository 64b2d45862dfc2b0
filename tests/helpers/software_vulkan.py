"""Frees the Vulkan devices of this process.

Two threads of IREE 3.13.0 wait for any of a device's semaphores as long as it is open. Mesa's
software device, llvmpipe, polls for that: from the first call on, two cores are busy until the
device is freed or the process ends.
"""

import ctypes
import gc

from mlirfuse.runtime import devices


def free() -> None:
    """Frees the Vulkan devices that `open_device` keeps; results in their memory must be gone."""
    for key in [key for key in devices._devices if key[0].startswith("vulkan")]:
        device = devices._devices.pop(key)
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(device))
        del device
        gc.collect()
