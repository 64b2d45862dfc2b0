"""The compile cache: programs on disk, by a digest of everything that they were made from."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mlirfuse.support.disk_cache import digest
from mlirfuse.targets.base import Target
from mlirfuse.targets.rates import host_cpu

FORMAT = 1
"""Part of every key: raised when the files or the parts of a key change their meaning."""


def key(module: Path, *, target: Target, options: Mapping[str, Any], **others: Any) -> str:
    """The key of the program that is made from a module.

    Args:
      module: the imported model's file.
      target: all of it counts; for `host` the CPU of this machine too.
      options: the resolved switches.
      **others: further inputs of the program; JSON values.
    """
    from mlirfuse.plugins import registry

    with registry.scope(options.get("load_pass", ())):
        loaded = registry.fingerprint()
    parts = {
        "format": FORMAT,
        "module": digest(module),
        "target": repr(target),
        "host": host_cpu() if target.arch == "host" else "",
        "options": dict(options),
        "iree": version("iree-base-compiler"),
        "mlirfuse": sources(),
        "loaded": loaded,
        "triton": _triton() if target.name in ("cuda", "rocm") else "",
        **others,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _triton() -> str:
    """The version of the package that builds kernels; empty where it is not installed."""
    try:
        return version("triton")
    except PackageNotFoundError:
        return ""


@functools.cache
def sources() -> str:
    """A digest of mlirfuse's own sources: another version of a pass makes another program."""
    root = Path(__file__).parents[1]
    total = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        total.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()
