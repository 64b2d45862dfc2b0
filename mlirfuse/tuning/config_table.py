"""Writes the tables of built-in configurations, `mlirfuse/kernels/configs/TARGET.json`.

config_table.problems(file)          the problems of its entries, to be measured again
config_table.update(file, jobs)      entries of measured problems replaced, others kept
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlirfuse.core import UsageError
from mlirfuse.kernels.problem import Problem
from mlirfuse.kernels.registry import FAMILY_OF_ENTRY
from mlirfuse.support import json_file
from mlirfuse.tuning import kernel_search

_LISTS = ("configs", "baselines")


def problems(file: Path) -> list[Problem]:
    """The problems of a table's configurations, each once.

    Raises:
      UsageError: the file is no such table.
    """
    try:
        found = [
            FAMILY_OF_ENTRY[entry["family"]].problem_type.from_dict(entry["problem"])
            for entry in _read(file)["configs"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{file} is not a table of configurations: {error}") from error
    return list(dict.fromkeys(found))


def update(file: Path, jobs: Sequence[Mapping[str, Any]]) -> int:
    """Replaces the entries of all measured problems, and returns the number of entries.

    The entry of a problem for which no configuration beats the default has no configuration.
    Further entries of a problem are for regions whose kernel cannot have the fastest configuration:
    they stay with their new times, if these beat the default.

    Args:
      file: the table; a new one is made where there is none.
      jobs: measured candidates.

    Raises:
      UsageError: there is another file, or the jobs are of several devices or versions.
    """
    table = _read(file) if file.exists() else {"configs": [], "baselines": []}
    origins = {json.dumps([job.get("device"), job.get("versions")]) for job in jobs}
    if len(origins) != 1:
        raise UsageError(f"the measurements are of {len(origins)} devices or versions, not of one")
    device, versions = json.loads(origins.pop())
    measured = kernel_search.by_problem(jobs)
    best = [dataclasses.asdict(entry) for entry in kernel_search.best(jobs)]
    fastest = {kernel_search.key_of(entry): entry for entry in best}
    entries: list[dict[str, Any]] = []
    seen: set[str] = set()
    for entry in table["configs"]:
        key = kernel_search.key_of(entry)
        if key not in measured:
            entries.append(entry)
        elif key not in seen:
            entries.append(fastest[key])
        else:
            entries += _again(entry, measured[key], fastest[key])
        seen.add(key)
    entries += [entry for key, entry in fastest.items() if key not in seen]
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    origin = {"device": device, "versions": versions, "date": today}
    write(file, {**origin, "configs": entries, "baselines": table["baselines"]})
    return len(entries)


def _again(
    entry: Mapping[str, Any], found: Sequence[Mapping[str, Any]], fastest: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """A further entry of a measured problem with its new time, if it stays."""
    if fastest["config"] == entry["config"]:
        return []
    same = [job for job in found if job["config"] == entry["config"]]
    if not same:
        return [dict(entry)]
    kept = kernel_search.gains(same[0], found)
    return [dataclasses.asdict(kernel_search.entry_of(same[0]))] if kept else []


def _read(file: Path) -> dict[str, Any]:
    def is_table(value: Any) -> bool:
        return isinstance(value, dict) and all(isinstance(value.get(n), list) for n in _LISTS)

    table: dict[str, Any] = json_file.read(file, is_table, "a table of configurations")
    return table


def write(file: Path, table: Mapping[str, Any]) -> None:
    """Writes a table with one entry per line."""
    parts = []
    for name, value in table.items():
        text = json.dumps(value)
        if name in _LISTS:
            lines = ",\n".join(f"  {json.dumps(entry)}" for entry in value)
            text = f"[\n{lines}\n ]" if value else "[]"
        parts.append(f" {json.dumps(name)}: {text}")
    file.write_text("{\n" + ",\n".join(parts) + "\n}\n", "utf-8")
