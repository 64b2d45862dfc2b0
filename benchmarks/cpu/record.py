"""The record of the benchmark, `results/cpu.json`: results by machine, target and threads."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.cpu import rows, systems
from benchmarks.cpu.peers import versions
from benchmarks.results import Results
from mlirfuse.benchmarking.timing import Samples
from mlirfuse.support.atomic_file import replacing

FILE, PARTIAL_FILE = "cpu.json", "cpu.partial.json"
"""Names of the record, and of one of rows that lack some of the systems."""

SUITE = "cpu"

TOLERANCES = {"f32": 1e-3, "bf16": 1e-1, "i8": 2.5e-1}
"""Error over the largest magnitude of a result up to which a system's times count."""

EAGER_ERRORS = 1.5
"""Errors of eager PyTorch up to which they count all the same, as far as twice the tolerance: the
roundings of ResNet-50 in bf16, with random weights, add up to 0.08 to 0.12 in all systems."""

INSTRUCTIONS = (
    *("avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16"),
    *("amx_tile", "amx_bf16", "amx_int8"),
    *("asimd", "asimddp", "i8mm", "bf16", "sve", "sve2"),
)
"""Linux's names of extensions that matter to the systems."""


def key(arch: str, threads: int) -> str:
    """The name of the results of this machine with a target and a number of threads."""
    return f"{results.cpu_name()}; {arch}; {threads} threads"


def row(about: rows.Row, notes: Mapping[str, dict[str, Any]], samples: Samples) -> results.Row:
    """The result of a row.

    Args:
      about: the row.
      notes: what is known of each system; where its results are wrong, it is told here.
      samples: times of the bursts.
    """
    eager: float = notes.get(systems.EAGER, {}).get("error", 0.0)
    limit = max(TOLERANCES[about.dtype], min(EAGER_ERRORS * eager, 2 * TOLERANCES[about.dtype]))
    for note in notes.values():
        if (wrong := note.get("error", 0.0)) > limit:
            note["said"] = f"wrong: error {wrong:.1e}"
    timed = [name for name in samples.seconds if "said" not in notes[name]]
    ours = systems.OURS if systems.OURS in timed else None
    peers = [name for name in timed if name != systems.OURS]
    return results.Row(
        work=about.work,
        dtype=about.dtype,
        ours_ms=None if ours is None else samples.milliseconds(ours),
        error=notes.get(systems.OURS, {}).get("error"),
        peers={name: samples.milliseconds(name) for name in peers},
        ratios={
            name: dataclasses.asdict(samples.ratio(name, ours))
            for name in peers
            if ours is not None
        },
        details={
            "systems": dict(notes),
            "rounds": max(map(len, samples.seconds.values()), default=0),
            "measured": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        },
    )


def instructions(cpuinfo: Path = Path("/proc/cpuinfo")) -> list[str]:
    """The extensions of this machine's CPU, those of `INSTRUCTIONS`."""
    try:
        words = set(cpuinfo.read_text("utf-8").split("\n\n")[0].split())
    except OSError:
        return []
    return [name for name in INSTRUCTIONS if name in words]


def load_all(folder: Path, file: str = FILE) -> dict[str, dict[str, Any]]:
    """Key -> fields of `Results`, the target and the instructions of the machine."""
    path = folder / file
    if not path.exists():
        return {}
    found: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8"))
    return found


def load(name: str, folder: Path, file: str = FILE) -> list[results.Row]:
    """The rows of a key; none where nothing was measured."""
    entry = load_all(folder, file).get(name, {})
    return [results.Row(**fields) for fields in entry.get("rows", [])]


def save(
    made: results.Row, arch: str, threads: int, load: float, folder: Path, file: str = FILE
) -> Path:
    """Puts a row into the record in place of its earlier result.

    Args:
      made: the row.
      arch: LLVM's name of the CPU, or `host`.
      threads: number of threads.
      load: load average before the run.
      folder: directory of the results.
      file: name of the record.
    """
    everything = load_all(folder, file)
    name = key(arch, threads)
    known = everything.get(name, {}).get("rows", [])
    other = [r for r in known if (r["work"], r["dtype"]) != (made.work, made.dtype)]
    order = {(r.work, r.dtype): n for n, r in enumerate(rows.ROWS)}
    together = sorted(
        [results.Row(**entry) for entry in other] + [made],
        key=lambda r: order.get((r.work, r.dtype), len(order)),
    )
    complete = {(r.work, r.dtype) for r in together} >= order.keys()
    found = results.describe(SUITE, together, load=load, quick=False, complete=complete)
    found.threads = threads
    found.versions |= versions()
    extra = {"target": arch, "instructions": instructions()}
    everything[name] = {**extra, **results.rounded(dataclasses.asdict(found))}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file
    with replacing(path) as staged:
        staged.write_text(json.dumps(everything, indent=1) + "\n", "utf-8")
    return path


def oldest_first(
    chosen: Sequence[rows.Row], known: Collection[Iterable[results.Row]]
) -> list[rows.Row]:
    """The rows that one of the records lacks, then the others, the oldest result first."""
    dates = [{(r.work, r.dtype): r.details["measured"] for r in some} for some in known]

    def measured(about: rows.Row) -> str:
        return min((some.get((about.work, about.dtype), "") for some in dates), default="")

    return sorted(chosen, key=measured)


def as_results(entry: Mapping[str, Any]) -> Results:
    """The results of a key."""
    fields = {k: v for k, v in entry.items() if k not in ("target", "instructions")}
    return Results(**{**fields, "rows": [results.Row(**r) for r in entry["rows"]]})
