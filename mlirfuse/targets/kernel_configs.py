"""Kernel configurations that `mlirfuse-tune --kernels` measured on this machine.

They are kept for one target, one version of Triton and one minor version of IREE each, in a file of
the user's data directory. They join the built-in ones: of two that are as near to a problem, the
user's wins.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import platformdirs

from mlirfuse.core import UsageError
from mlirfuse.targets import rates
from mlirfuse.targets.base import MeasuredConfig, Target

VARIABLE = "MLIRFUSE_KERNEL_CONFIGS"
"""Environment variable: the file to use instead, or `off` for the built-in configurations."""

OLD_VARIABLE = "MLIRFUSE_TILES"
"""Its name in version 0.1, which goes with version 0.3."""


def path() -> Path | None:
    """The file; None where the user's configurations are off."""
    given = os.environ.get(VARIABLE, "")
    if not given and (given := os.environ.get(OLD_VARIABLE, "")):
        warnings.warn(
            f"{OLD_VARIABLE} is {VARIABLE} now; the old name goes with mlirfuse 0.3",
            DeprecationWarning,
            stacklevel=2,
        )
    if given.lower() == "off":
        return None
    return Path(given) if given else platformdirs.user_data_path("mlirfuse") / "kernel_configs.json"


def versions() -> str:
    """The versions that configurations hold for: those of Triton and of IREE."""
    try:
        triton = version("triton")
    except PackageNotFoundError:
        triton = "none"
    return f"triton {triton}, iree {rates.iree_version()}"


def with_measured(target: Target) -> Target:
    """The target with the configurations that the user measured for it.

    Raises:
      UsageError: the file is damaged, or was written by version 0.1.
    """
    file = path()
    entry = None if file is None else _read(file).get(str(target))
    if entry is None or entry["versions"] != versions():
        return target
    return dataclasses.replace(
        target, measured=tuple(MeasuredConfig(**e) for e in entry["configs"])
    )


def store(target: Target, found: Iterable[MeasuredConfig]) -> Path:
    """Keeps configurations for later compilations, with those of other problems.

    Raises:
      UsageError: the user's configurations are off, or the file that is there is damaged.
      MlirfuseError: the file cannot be written.
    """
    file = _file()
    kept = {_key(e): e for e in (*with_measured(target).measured, *found)}
    entry = {"versions": versions(), "configs": [dataclasses.asdict(e) for e in kept.values()]}
    rates.write(file, {**_read(file), str(target): entry})
    return file


def forget(target: Target) -> bool:
    """Goes back to the built-in configurations; says whether the target had others.

    Raises:
      UsageError: the user's configurations are off, or the file is damaged.
      MlirfuseError: the file cannot be written.
    """
    file = _file()
    entries = _read(file)
    if entries.pop(str(target), None) is None:
        return False
    rates.write(file, entries)
    return True


def _key(entry: MeasuredConfig) -> tuple[str, tuple[tuple[str, object], ...]]:
    return entry.family, tuple(sorted(entry.problem.items()))


def _file() -> Path:
    file = path()
    if file is None:
        raise UsageError(f"{VARIABLE}=off leaves no place for configurations; unset it")
    return file


def _read(file: Path) -> dict[str, Any]:
    def holds(entry: Any) -> bool:
        return isinstance(entry["versions"], str) and all(map(_is_config, entry["configs"]))

    wrong = (
        f"{file} holds no kernel configurations of this version (mlirfuse 0.1 wrote tiles in"
        " another form); remove it or measure again: mlirfuse-tune --kernels"
    )
    return rates.read(file, holds, wrong)


def _is_config(entry: Mapping[str, Any]) -> bool:
    fields = {field.name for field in dataclasses.fields(MeasuredConfig)}
    values = [*entry["problem"].values(), *entry["config"].values()]
    return (
        entry.keys() == fields
        and isinstance(entry["family"], str)
        and isinstance(entry["us"], int | float)
        and all(isinstance(value, int | float | str) for value in values)
    )
