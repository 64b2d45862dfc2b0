"""The lock of a device that several processes prepare to measure on.

Starting a process, importing PyTorch and opening a context of a GPU take seconds in which nothing
is measured. Processes do that beside each other, and then hold the device one at a time.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

VARIABLE = "MLIRFUSE_DEVICE_LOCK"
"""Environment variable with the path of the lock file; unset where a process has the device."""


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Waits for the device of this process, and holds it in the block.

    The system frees the lock of a process that dies. Without `VARIABLE` there is nothing to wait
    for.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        yield
        return
    import filelock

    with filelock.FileLock(path):
        yield
