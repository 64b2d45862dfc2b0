"""Rates that `mlirfuse-tune --calibrate` measured on this machine, in place of the built-in ones.

They are kept for one target, one device and one minor version of IREE each, in a file of the user's
data directory.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import platformdirs

from mlirfuse.core import MlirfuseError, UsageError
from mlirfuse.targets.base import Target

VARIABLE = "MLIRFUSE_RATES"
"""Environment variable: the file to use instead, or `off` for the built-in rates."""

PRODUCTS = "matmul_rate."
"""Before the element type in the name of a rate of products."""


def path() -> Path | None:
    """The file; None where measured rates are off."""
    given = os.environ.get(VARIABLE, "")
    if given.lower() == "off":
        return None
    return Path(given) if given else platformdirs.user_data_path("mlirfuse") / "rates.json"


def calibrated(target: Target) -> Target:
    """The target with the rates that were measured for it; the target itself where there are none.

    Raises:
      UsageError: the file is damaged.
    """
    file = path()
    entry = _read(file).get(str(target)) if file is not None else None
    if (
        file is None
        or entry is None
        or entry["iree"] != iree_version()
        or entry["device"] != _cpu(target)
    ):
        return target
    return applied(target, entry["rates"], f"mlirfuse-tune --calibrate, {file}")


def applied(target: Target, rates: Mapping[str, float], source: str) -> Target:
    """The target with other rates: fields of `Target`, `matmul_rate.f32` for those of a type."""
    plain: dict[str, Any] = {name: rate for name, rate in rates.items() if "." not in name}
    products = {
        name.removeprefix(PRODUCTS): rate
        for name, rate in rates.items()
        if name.startswith(PRODUCTS)
    }
    return dataclasses.replace(
        target, **plain, matmul_rate={**target.matmul_rate, **products}, source=source
    )


def store(target: Target, rates: Mapping[str, float]) -> Path:
    """Keeps the rates of a target for later compilations on this machine.

    Raises:
      UsageError: measured rates are off, or the file that is there is damaged.
      MlirfuseError: the file cannot be written.
    """
    file = _file()
    entry = {"iree": iree_version(), "device": _cpu(target), "rates": dict(rates)}
    write(file, {**_read(file), str(target): entry})
    return file


def forget(target: Target) -> bool:
    """Goes back to the built-in rates of a target; says whether it had others.

    Raises:
      UsageError: measured rates are off, or the file is damaged.
      MlirfuseError: the file cannot be written.
    """
    file = _file()
    entries = _read(file)
    if entries.pop(str(target), None) is None:
        return False
    write(file, entries)
    return True


@functools.cache
def host_cpu() -> str:
    """What tells this machine's CPU from another one."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    kept = {
        name: value
        for name, _, value in (line.partition(":") for line in lines)
        if name.strip() in ("model name", "flags", "Features", "CPU part")
    }
    return f"{platform.machine()} {kept}"


def _cpu(target: Target) -> str:
    """The CPU that the rates are of; GPUs are told apart by the target's architecture."""
    return host_cpu() if target.name == "cpu" else ""


def iree_version() -> str:
    """The minor version of IREE that measurements hold for."""
    return ".".join(version("iree-base-compiler").split(".")[:2])


def _file() -> Path:
    file = path()
    if file is None:
        raise UsageError(f"{VARIABLE}=off leaves no place for measured rates; unset it")
    return file


def _read(file: Path) -> dict[str, Any]:
    def holds(entry: Any) -> bool:
        (entry["iree"], entry["device"])
        numbers = entry["rates"].values()
        return all(isinstance(rate, int | float) and rate > 0 for rate in numbers)

    wrong = f"{file} is no file of rates; remove it, or name another with {VARIABLE}"
    return read(file, holds, wrong)


def read(file: Path, holds: Callable[[Any], bool], wrong: str) -> dict[str, Any]:
    """The entries of a file of measurements; none where there is no file.

    Args:
      file: JSON, an object.
      holds: whether an entry is a sound one; may raise what a wrong type or key does.
      wrong: what is said of another file.

    Raises:
      UsageError: with that message.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:
        return {}
    try:
        entries: dict[str, Any] = json.loads(text)
        sound = all(holds(entry) for entry in entries.values())
    except (ValueError, KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise UsageError(wrong)
    return entries


def write(file: Path, entries: Mapping[str, Any]) -> None:
    """Replaces a file of measurements.

    Raises:
      MlirfuseError: it cannot be written.
    """
    from mlirfuse.support.atomic_file import replacing

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as staged:
            staged.write_text(json.dumps(entries, indent=2, sort_keys=True) + "\n", "utf-8")
    except OSError as error:
        raise MlirfuseError(f"cannot write {file}: {error.strerror or error}") from error
