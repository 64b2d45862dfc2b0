"""Rates that `mlirfuse-tune --calibrate` measured on this machine, in place of the built-in ones.

They are valid for one target, one device and one minor version of IREE.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlirfuse.targets.base import Target
from mlirfuse.targets.store import MeasurementFile, iree_version

VARIABLE = "MLIRFUSE_RATES"
"""Environment variable: another file, or `off` for the built-in rates."""

MATMUL_RATE_PREFIX = "matmul_rate."
"""Prefix of the element type in the name of a matmul's rate."""


def path() -> Path | None:
    """Path of the file; None where measured rates are off."""
    return _FILE.path()


def calibrated(target: Target) -> Target:
    """The target with its measured rates; the target itself where there are none.

    Raises:
      UsageError: the file is damaged.
    """
    entry = _FILE.entry(target)
    if entry is None or entry["iree"] != iree_version() or entry["device"] != _cpu(target):
        return target
    return with_rates(target, entry["rates"], f"mlirfuse-tune --calibrate, {_FILE.path()}")


def with_rates(target: Target, rates: Mapping[str, float], source: str) -> Target:
    """The target with rates that were measured on this machine.

    Args:
      target: the target.
      rates: field of `Target` -> its value; `matmul_rate.f32` for the rate of an element type.
      source: origin of the rates.
    """
    fields: dict[str, Any] = {name: rate for name, rate in rates.items() if "." not in name}
    matmul_rates = {
        name.removeprefix(MATMUL_RATE_PREFIX): rate
        for name, rate in rates.items()
        if name.startswith(MATMUL_RATE_PREFIX)
    }
    return dataclasses.replace(
        target,
        **fields,
        matmul_rate={**target.matmul_rate, **matmul_rates},
        source=source,
        calibrated=True,
    )


def described(target: Target) -> str:
    """Where the rates of a target come from, and whether they are this machine's."""
    if target.calibrated:
        return f"measured on this machine ({target.source})"
    if target.name == "cpu" and target.arch in ("", "host"):
        return f"of this machine, {target.source}"
    return f"of another machine: {target.source}; mlirfuse-tune --calibrate measures this one's"


def store(target: Target, rates: Mapping[str, float]) -> Path:
    """Stores the rates of a target for later compilations on this machine.

    Raises:
      UsageError: measured rates are off, or the present file is damaged.
      MlirfuseError: the file cannot be written.
    """
    entry = {"iree": iree_version(), "device": _cpu(target), "rates": dict(rates)}
    return _FILE.store(target, entry)


def forget(target: Target) -> bool:
    """Returns to the built-in rates of a target; returns whether it had others.

    Raises:
      UsageError: measured rates are off, or the file is damaged.
      MlirfuseError: the file cannot be written.
    """
    return _FILE.forget(target)


@functools.cache
def host_cpu() -> str:
    """Identity of this machine's CPU: its model and instruction sets."""
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


@functools.cache
def cpu_name() -> str:
    """The name of this machine's CPU, with a digest of `host_cpu`."""
    identity = host_cpu()
    found = re.search(r"'model name\s*': '\s*([^']+)'", identity)
    name = found[1].strip() if found else platform.machine()
    return f"{name} [{hashlib.sha256(identity.encode()).hexdigest()[:8]}]"


def _cpu(target: Target) -> str:
    """The CPU that rates are valid for; empty for GPUs, which the target's name identifies."""
    return host_cpu() if target.name == "cpu" else ""


def _is_valid(entry: Any) -> bool:
    (entry["iree"], entry["device"])
    return all(isinstance(rate, int | float) and rate > 0 for rate in entry["rates"].values())


_FILE = MeasurementFile(
    variable=VARIABLE,
    name="rates.json",
    content="measured rates",
    is_valid=_is_valid,
    invalid=f"{{file}} is no file of rates; remove it, or name another with {VARIABLE}",
)
