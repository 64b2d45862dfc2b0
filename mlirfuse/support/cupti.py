"""CUPTI's library, which PyTorch for CUDA brings."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

from mlirfuse.core import MlirfuseError

LIBRARIES = ("libcupti.so.13", "libcupti.so.12", "libcupti.so")


class CuptiError(MlirfuseError):
    """CUPTI is not installed."""


def library() -> Any:
    """The library, by ctypes.

    Raises:
      CuptiError: it is not installed.
    """
    for name in LIBRARIES:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    raise CuptiError(f"CUPTI is not installed ({', '.join(LIBRARIES)}); PyTorch for CUDA brings it")


def message(library: Any, status: int) -> str:
    """CUPTI's text of an error; its number where it has none."""
    text = ctypes.c_char_p()
    library.cuptiGetResultString(status, ctypes.byref(text))
    return text.value.decode() if text.value else str(status)
