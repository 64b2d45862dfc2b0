"""Counts of conformance, by group and element type, in results/conformance.json."""

from __future__ import annotations

import collections
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypedDict

from benchmarks.conformance.suite import Outcome

FILE = "conformance.json"


class Group(TypedDict):
    """Counts of a group."""

    types: dict[str, dict[str, int]]
    """Number of cases by element type ("-" without one) and outcome."""

    contained: int
    """Cases in which a rewrite or a part of mlirfuse was left out."""


class Record(TypedDict, total=False):
    """A suite on a target."""

    groups: dict[str, Group]
    all_groups: int
    """Number of groups of the suite."""

    problems: list[tuple[str, str, str]]
    """Name, outcome and details of each case that is not right."""

    seconds: int
    versions: dict[str, str]
    machine: str


def summary(found: Iterable[dict[str, Any]], groups: int) -> Record:
    """Counts of outcomes, and every case that is not right.

    Args:
        found: results of cases, as dictionaries.
        groups: number of groups of the suite.
    """
    counted: dict[str, Group] = {}
    problems = []
    for result in found:
        parts = result["case"].split("/")
        group = counted.setdefault(parts[0], {"types": {}, "contained": 0})
        kind = group["types"].setdefault(parts[1] if len(parts) > 2 else "-", {})
        kind[result["outcome"]] = kind.get(result["outcome"], 0) + 1
        group["contained"] += result["contained"]
        if result["outcome"] != Outcome.RIGHT:
            problems.append((result["case"], result["outcome"], result["detail"]))
    return {
        "groups": dict(sorted(counted.items())),
        "all_groups": groups,
        "problems": sorted(problems),
    }


def counts(record: Record) -> collections.Counter[str]:
    """Number of cases by outcome."""
    found: collections.Counter[str] = collections.Counter()
    for kind in by_type(record).values():
        found.update(kind)
    return found


def by_type(record: Record) -> dict[str, collections.Counter[str]]:
    """Number of cases by element type and outcome."""
    found: dict[str, collections.Counter[str]] = {}
    for group in record["groups"].values():
        for kind, outcomes in group["types"].items():
            found.setdefault(kind, collections.Counter()).update(outcomes)
    return dict(sorted(found.items()))


def contained(record: Record) -> int:
    """Number of cases in which a rewrite or a part of mlirfuse was left out."""
    return sum(group["contained"] for group in record["groups"].values())


def whole(record: Record) -> bool:
    """Whether every group of the suite was counted."""
    return len(record["groups"]) >= record["all_groups"]


def merged(known: Record, found: Record) -> Record:
    """A record with the groups of another one put in place of its own."""
    kept = [p for p in known["problems"] if p[0].split("/")[0] not in found["groups"]]
    together: Record = {
        **known,
        **found,
        "groups": dict(sorted({**known["groups"], **found["groups"]}.items())),
        "problems": sorted((*map(_problem, kept), *map(_problem, found["problems"]))),
    }
    if "seconds" in known and "seconds" in found:
        together["seconds"] = known["seconds"] + found["seconds"]
    return together


def _problem(given: Iterable[str]) -> tuple[str, str, str]:
    case, outcome, detail = given
    return case, outcome, detail


def read(folder: Path, suite: str, target: str) -> Record | None:
    """The record of a suite on a target; None without one."""
    return read_all(folder).get(suite, {}).get(target)


def read_all(folder: Path) -> dict[str, dict[str, Record]]:
    """The records by suite and target."""
    path = folder / FILE
    if not path.exists():
        return {}
    known: dict[str, dict[str, Record]] = json.loads(path.read_text(encoding="utf-8"))
    return known


def save(folder: Path, suite: str, target: str, record: Record) -> None:
    """Puts the groups of a record into the results."""
    known = read_all(folder)
    targets = known.setdefault(suite, {})
    targets[target] = merged(targets[target], record) if target in targets else record
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(_text(known), encoding="utf-8")


def _text(known: dict[str, dict[str, Record]]) -> str:
    """JSON with a group or a problem on each line."""
    return (
        "{"
        + ",".join(
            f"\n{json.dumps(suite)}: {{"
            + ",".join(f"\n {json.dumps(t)}: {_record(r)}" for t, r in targets.items())
            + "}"
            for suite, targets in known.items()
        )
        + "}\n"
    )


def _record(record: Record) -> str:
    rest = {k: v for k, v in record.items() if k not in ("groups", "problems")}
    groups = ",".join(f"\n   {json.dumps(g)}: {json.dumps(c)}" for g, c in record["groups"].items())
    problems = ",".join(f"\n   {json.dumps(p)}" for p in record["problems"])
    return f'{json.dumps(rest)[:-1]},\n  "groups": {{{groups}}},\n  "problems": [{problems}]}}'
