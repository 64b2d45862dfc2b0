"""Tiles of kernels that `mlirfuse-tune --kernels` measured on this machine.

They are kept for one target, one version of Triton and one minor version of IREE each, in a file of
the user's data directory.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import platformdirs

from mlirfuse.core import UsageError
from mlirfuse.targets import rates
from mlirfuse.targets.base import Target, Tuned

VARIABLE = "MLIRFUSE_TILES"
"""Environment variable: the file to use instead, or `off` for the built-in tiles."""


def path() -> Path | None:
    """The file; None where measured tiles are off."""
    given = os.environ.get(VARIABLE, "")
    if given.lower() == "off":
        return None
    return Path(given) if given else platformdirs.user_data_path("mlirfuse") / "tiles.json"


def versions() -> str:
    """What the tiles hold for: the versions of Triton and of IREE."""
    try:
        triton = version("triton")
    except PackageNotFoundError:
        triton = "none"
    return f"triton {triton}, iree {rates.iree_version()}"


def tuned(target: Target) -> Target:
    """The target with the tiles that were measured for it.

    Raises:
      UsageError: the file is damaged.
    """
    file = path()
    entry = None if file is None else _read(file).get(str(target))
    if entry is None or entry["versions"] != versions():
        return target
    found = tuple(
        Tuned(e["kind"], e["form"], tuple(e["sizes"]), tuple(e["tiling"]), e["us"])
        for e in entry["tiles"]
    )
    return dataclasses.replace(target, tuned=found)


def store(target: Target, found: Iterable[Tuned]) -> Path:
    """Keeps tiles for later compilations, beside those of other kernels.

    Raises:
      UsageError: measured tiles are off, or the file that is there is damaged.
      MlirfuseError: the file cannot be written.
    """
    file = _file()
    kept = {(e.kind, e.form, e.sizes): e for e in (*tuned(target).tuned, *found)}
    entry = {"versions": versions(), "tiles": [dataclasses.asdict(e) for e in kept.values()]}
    rates.write(file, {**_read(file), str(target): entry})
    return file


def forget(target: Target) -> bool:
    """Goes back to the built-in tiles; says whether the target had others.

    Raises:
      UsageError: measured tiles are off, or the file is damaged.
      MlirfuseError: the file cannot be written.
    """
    file = _file()
    entries = _read(file)
    if entries.pop(str(target), None) is None:
        return False
    rates.write(file, entries)
    return True


def _file() -> Path:
    file = path()
    if file is None:
        raise UsageError(f"{VARIABLE}=off leaves no place for measured tiles; unset it")
    return file


def _read(file: Path) -> dict[str, Any]:
    def holds(entry: Any) -> bool:
        numbers = [n for e in entry["tiles"] for n in (*e["sizes"], *e["tiling"], e["us"])]
        for e in entry["tiles"]:
            (e["kind"], e["form"])
        return isinstance(entry["versions"], str) and all(
            isinstance(n, int | float) for n in numbers
        )

    wrong = f"{file} holds no measured tiles; remove it or measure again: mlirfuse-tune --kernels"
    return rates.read(file, holds, wrong)
