"""Has all processes of a test run share their kernels, and the server that builds them."""

from __future__ import annotations

import os
from collections.abc import Callable

from mlirfuse.kernels import build_server
from mlirfuse.support.disk_cache import KERNELS_VARIABLE


def share(folder: str | os.PathLike[str], server: Callable[[], str] | None = None) -> None:
    """Keeps kernels in a folder, also those of the processes that this one starts.

    Args:
      folder: an existing one for object code.
      server: returns the socket of a running server; None to start one when it is needed.
    """
    os.environ[KERNELS_VARIABLE] = os.fspath(folder)
    if server is not None:
        build_server.use(server())
