"""Programs called with arrays: a thin layer over iree-runtime."""

from __future__ import annotations

from mlirfuse.runtime.module import FusedModule, load

__all__ = ["FusedModule", "load"]
