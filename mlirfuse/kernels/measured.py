"""Tiles measured on devices."""

from mlirfuse.targets.base import Tuned

MEASURED: dict[str, tuple[Tuned, ...]] = {}
"""Target -> the fastest tiling of each kernel that was measured on one."""
