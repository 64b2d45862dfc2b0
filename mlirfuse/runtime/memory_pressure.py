"""A second attempt where a device is out of memory that other allocators of the process keep."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

_EXHAUSTED = ("RESOURCE_EXHAUSTED", "OUT_OF_MEMORY")
"""Parts of IREE's messages where an allocation failed."""

T = TypeVar("T")


def with_room(device: Any, call: Callable[[], T]) -> T:
    """The result of a call; where memory ran out, of a second one after caches were emptied.

    Args:
      device: the `HalDevice`, whose pool is emptied.
      call: allocates on the device.
    """
    try:
        return call()
    except RuntimeError as error:
        make_room(device, error)
    return call()


def make_room(device: Any, error: RuntimeError) -> None:
    """Empties caches where memory ran out, and raises any other error.

    Args:
      device: the `HalDevice`, whose pool is emptied.
      error: of an allocation on the device.
    """
    if not any(word in str(error) for word in _EXHAUSTED):
        raise error
    device.allocator.trim()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
