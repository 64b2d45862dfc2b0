"""Results of a suite with their machine and versions, as `benchmarks/results/SUITE.json`."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks import timing
from mlirfuse.core import MlirfuseError

FOLDER = Path(__file__).parent / "results"

MAX_QUIET_LOAD = 0.5
"""Maximum load average of an otherwise idle machine."""

PACKAGES = ("mlirfuse", "iree-base-compiler", "iree-base-runtime", "torch", "transformers", "numpy")
"""Packages whose versions are recorded."""


@dataclasses.dataclass(kw_only=True)
class Row:
    """One workload, measured with ours and its peers.

    Attributes:
      work: name of the workload, with its sizes.
      dtype: element type.
      ours_ms: our median time, in milliseconds; None when ours failed.
      limit_ms: time at the machine's highest rates, in milliseconds; None when unknown.
      error: our maximum absolute error against float64, relative to the largest magnitude of the
        result; None when nothing was computed.
      peers: peer -> its median time, in milliseconds.
      ratios: peer -> its time over ours: `median`, and the quartiles `low` and `high`, of the
        ratios of the rounds.
      details: fields of this suite alone.
    """

    work: str
    dtype: str
    ours_ms: float | None
    limit_ms: float | None = None
    error: float | None = None
    peers: dict[str, float] = dataclasses.field(default_factory=dict)
    ratios: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)
    details: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(kw_only=True)
class Results:
    """One run of a suite.

    Attributes:
      suite: name of the suite.
      device: name of the CPU or GPU.
      threads: threads of every system.
      load: load average of the minute before the run.
      date: date of the run, ISO 8601.
      quick: whether it had few rounds.
      complete: whether it has all workloads of the suite.
      versions: package -> version.
      rows: one for each workload, in the order of the suite.
      rates: rates of the device, measured in this run, per second; empty if the suite needs none.
    """

    suite: str
    device: str
    threads: int
    load: float
    date: str
    quick: bool
    complete: bool
    versions: dict[str, str]
    rows: list[Row]
    rates: dict[str, float] = dataclasses.field(default_factory=dict)

    def save(self, folder: Path = FOLDER) -> Path:
        """Writes the file and returns its path; a partial run never replaces a whole one."""
        folder.mkdir(parents=True, exist_ok=True)
        kind = "json" if self.complete and not self.quick else "partial.json"
        path = folder / f"{self.suite}.{kind}"
        path.write_text(json.dumps(rounded(dataclasses.asdict(self)), indent=1) + "\n", "utf-8")
        return path


def load(suite: str, folder: Path = FOLDER) -> Results:
    """Reads a file of `Results.save`.

    Raises:
      MlirfuseError: the file is missing or malformed.
    """
    path = folder / f"{suite}.json"
    try:
        entry = json.loads(path.read_text("utf-8"))
        return Results(**{**entry, "rows": [Row(**row) for row in entry["rows"]]})
    except FileNotFoundError:
        raise MlirfuseError(f"no {path.name}; run: python -m benchmarks {suite}") from None
    except (ValueError, TypeError, KeyError) as error:
        raise MlirfuseError(f"{path.name} holds no results of a suite: {error}") from error


def describe(suite: str, rows: list[Row], *, load: float, quick: bool, complete: bool) -> Results:
    """The rows with this machine, today's date and the installed versions."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return Results(
        suite=suite,
        device=cpu_name(),
        threads=timing.THREADS,
        load=load,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        quick=quick,
        complete=complete,
        versions=versions,
        rows=rows,
    )


def machine(measured: Results) -> str:
    """Machine, date and versions, on one line."""
    versions = ", ".join(f"{name} {version}" for name, version in measured.versions.items())
    if measured.rates:
        rates = (f"{name} {rate:.3g}" for name, rate in measured.rates.items())
        where = f"{measured.device}, rates in bytes and operations per second: {', '.join(rates)}"
    else:
        load = f"load {measured.load:.1f} before the run"
        where = f"{measured.device}, {measured.threads} threads, {load}"
    return f"{where}; {measured.date}; {versions}"


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The CPU's name, family and model, its vector width and the number of cores.

    A virtual machine may hide the name; family and model still identify the generation.
    """
    try:
        fields = _fields(cpuinfo.read_text("utf-8"))
    except OSError:
        fields = {}
    name = fields.get("model name") or platform.processor() or platform.machine()
    parts = [" ".join(name.split())]
    if "cpu family" in fields and "model" in fields:
        parts.append(f"family {fields['cpu family']} model {fields['model']}")
    flags = fields.get("flags", "").split()
    parts += [f"AVX-{bits}" for bits, flag in ((512, "avx512f"), (2, "avx2")) if flag in flags][:1]
    return ", ".join([*parts, f"{os.cpu_count()} cores"])


def _fields(cpuinfo: str) -> Mapping[str, str]:
    """The first processor's lines `key : value`."""
    first = cpuinfo.split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def rounded(value: Any) -> Any:
    """The value with floats rounded to four significant digits: the rest is noise."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return value
