"""Kernel configurations that `mlirfuse-tune --kernels` measured on this machine.

They are kept for one target, one version of Triton and one minor version of IREE each, in a file of
the user's data directory. They join the built-in ones: of two that are as near to a problem, the
user's wins.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mlirfuse.targets.base import MeasuredConfig, Target
from mlirfuse.targets.store import MeasurementFile, iree_version

VARIABLE = "MLIRFUSE_KERNEL_CONFIGS"
"""Environment variable: the file to use instead, or `off` for the built-in configurations."""

OLD_VARIABLE = "MLIRFUSE_TILES"
"""Its name in version 0.1, which goes with version 0.3."""


def path() -> Path | None:
    """Path of the file; None where the user's configurations are off."""
    return _FILE.path()


def version_numbers() -> dict[str, str]:
    """The versions of Triton and of IREE that configurations hold for, by name."""
    try:
        triton = version("triton")
    except PackageNotFoundError:
        triton = "none"
    return {"triton": triton, "iree": iree_version()}


def versions() -> str:
    """The same as one text."""
    return ", ".join(f"{name} {number}" for name, number in version_numbers().items())


def with_measured(target: Target) -> Target:
    """The target with the configurations that the user measured for it.

    Raises:
      UsageError: the file is damaged, or was written by version 0.1.
    """
    entry = _FILE.entry(target)
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
    kept = {_key(e): e for e in (*with_measured(target).measured, *found)}
    entry = {"versions": versions(), "configs": [dataclasses.asdict(e) for e in kept.values()]}
    return _FILE.store(target, entry)


def forget(target: Target) -> bool:
    """Goes back to the built-in configurations; returns whether the target had others.

    Raises:
      UsageError: the user's configurations are off, or the file is damaged.
      MlirfuseError: the file cannot be written.
    """
    return _FILE.forget(target)


def _key(entry: MeasuredConfig) -> tuple[str, tuple[tuple[str, object], ...]]:
    return entry.family, tuple(sorted(entry.problem.items()))


def _is_valid(entry: Any) -> bool:
    return isinstance(entry["versions"], str) and all(map(_is_config, entry["configs"]))


def _is_config(entry: Mapping[str, Any]) -> bool:
    fields = {field.name for field in dataclasses.fields(MeasuredConfig)}
    values = [*entry["problem"].values(), *(entry["config"] or {}).values()]
    return (
        entry.keys() == fields
        and isinstance(entry["family"], str)
        and isinstance(entry["us"], int | float)
        and all(isinstance(value, int | float | str) for value in values)
    )


_FILE = MeasurementFile(
    variable=VARIABLE,
    old_variable=OLD_VARIABLE,
    name="kernel_configs.json",
    content="configurations",
    is_valid=_is_valid,
    invalid="{file} holds no kernel configurations of this version (mlirfuse 0.1 wrote tiles in"
    " another form); remove it or measure again: mlirfuse-tune --kernels",
)
