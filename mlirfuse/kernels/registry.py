"""The kernel families: one line a family, the only registration there is."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from mlirfuse.kernels.family import KernelFamily

_NAMES = (
    "matmul",
    "convolution",
    "attention",
    "reduction",
    "pointwise",
    "pooling",
    "data_movement",
    "scan",
    "scatter",
    "sort",
    "recurrence",
)
"""The families: that of the folder `NAME` is the upper-case `NAME` of its module `family`."""


def _imported(name: str) -> KernelFamily[Any, Any, Any]:
    module = importlib.import_module(f"mlirfuse.kernels.{name}.family")
    found: KernelFamily[Any, Any, Any] = getattr(module, name.upper())
    return found


FAMILIES: Mapping[str, KernelFamily[Any, Any, Any]] = {name: _imported(name) for name in _NAMES}
"""Name of a family -> the family."""

FAMILY_OF_ENTRY: Mapping[str, KernelFamily[Any, Any, Any]] = {
    entry: family for family in FAMILIES.values() for entry in (family.name, *family.entries)
}
"""`Problem.family`, under which configurations are filed -> the family."""
