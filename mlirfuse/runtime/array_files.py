"""Arrays as files of bytes, since numpy's own format has no bf16."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlirfuse.runtime.arrays import dtype_name, numpy_dtype
from mlirfuse.runtime.inputs import Array

Entry = dict[str, Any]
"""`{"shape": [...], "dtype": "f32"}` of one array, for JSON."""


def write(folder: Path, stem: str, arrays: Sequence[Array]) -> list[Entry]:
    """Writes arrays into a folder.

    Args:
      folder: an existing folder.
      stem: start of the files' names; the array's index follows.
      arrays: the arrays.

    Returns:
      The entries for `read`.
    """
    entries = []
    for index, array in enumerate(arrays):
        (folder / f"{stem}{index}").write_bytes(np.ascontiguousarray(array).tobytes())
        entries.append({"shape": list(array.shape), "dtype": dtype_name(array)})
    return entries


def read(folder: Path, stem: str, entries: Sequence[Entry]) -> list[Array]:
    """The arrays that `write` wrote."""
    return [
        np.frombuffer(
            (folder / f"{stem}{index}").read_bytes(), numpy_dtype(entry["dtype"])
        ).reshape(entry["shape"])
        for index, entry in enumerate(entries)
    ]
