"""The summary of the breadth of a seed, and its file, `breadth.json` or `breadth_cpu.json`."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.breadth.drawing import CPU_SUFFIX, Program
from benchmarks.suites.gpu import mean
from mlirfuse.support.atomic_file import replacing

FILE, CPU_FILE = "breadth.json", "breadth_cpu.json"

GOAL, MIN_RATIO, WORST = 0.9, 0.5, 20

FLOPS_PER_BYTE = 20.0
"""Operations of contractions up to which a program counts as bound by memory."""

MIN_BYTES = 32 << 20
"""Bytes of arguments and results from which a share of the copy rate is counted."""

Fields = Mapping[str, Any]


def ratio(fields: Fields) -> float | None:
    """The time of the faster of eager and torch.compile over ours; None where one is missing."""
    times = fields.get("ms", {})
    others = [times[system] for system in ("eager", "compile") if system in times]
    if "ours" not in times or not others or not min(others) or "wrong" in fields:
        return None  # Without a time: a view, for which there is no kernel.
    return float(min(others) / max(times["ours"], 1e-6))


def stock_ratio(fields: Fields) -> float | None:
    """The time of IREE without our passes over ours; None where one is missing."""
    times = fields.get("ms", {})
    if "ours" not in times or "stock" not in times or "wrong" in fields:
        return None
    return float(times["stock"] / max(times["ours"], 1e-6))


def line(program: Program, fields: Fields) -> str:
    """One program, as the run shows it."""
    found = ratio(fields)
    said = fields.get("wrong") or fields.get("said") or fields.get("ours_said") or ""
    times = " ".join(f"{name} {ms:.3f}" for name, ms in fields.get("ms", {}).items())
    shown = "  -  " if found is None else f"{found:5.2f}"
    return f"{shown} {program.name} {program.family} {program.dtype} {program.text}: {times} {said}"


def text(record: Fields) -> str:
    """Geometric mean, share at the goal, classes, the worst programs, failures."""
    programs = record["programs"]
    rated = [(found, p) for p in programs if (found := ratio(p)) is not None]
    lines = [
        f"Seed {record['seed']}, {len(programs)} programs, {record.get('device', 'no device')}."
    ]
    if rated:
        lines += _ratios(rated, record)
    covered = [tuple(p["coverage"]) for p in programs if p.get("coverage")]
    if covered:
        kernels, dispatches = (sum(column) for column in zip(*covered, strict=True))
        lines.append(f"Kernels: {kernels} of {dispatches} dispatches.")
    failed = {text: None for p in programs for text in p.get("fell_back", ())}
    lines.append(f"Kernels that were not built: {len(failed)}.")
    lines += [f"  {text}" for text in [*failed][:WORST]]
    for kind, key in (("Wrong", "wrong"), ("Refused", "said"), ("Failed calls", "ours_said")):
        found = [p for p in programs if p.get(key)]
        lines.append(f"{kind}: {len(found)}.")
        lines += [f"  {p['name']} {p['dtype']} {p['text']}: {p[key]}" for p in found]
    return "\n".join(lines)


def _ratios(rated: list[tuple[float, Fields]], record: Fields) -> list[str]:
    lines = [f"Over the best of eager and torch.compile: {_summary(r for r, _ in rated)}."]
    for key in ("class", "dtype"):
        for name in sorted({p[key] for _, p in rated}):
            lines.append(f"  {name:12} {_summary(r for r, p in rated if p[key] == name)}")
    if stock := [r for _, p in rated if (r := stock_ratio(p)) is not None]:
        lines.append(f"Over IREE without our passes: {_summary(stock)}.")
    if shares := _copy_shares(record):
        lines.append(f"Bound by memory: {statistics.median(shares):.0%} of the copy rate (median).")
    lines.append(f"The worst {WORST}:")
    for found, p in sorted(rated, key=lambda entry: entry[0])[:WORST]:
        times = " ".join(f"{system} {ms:.3f}" for system, ms in p["ms"].items())
        lines.append(f"  {found:5.2f} {p['name']} {p['dtype']} {p['text']}: {times} ms")
    return lines


def _copy_shares(record: Fields) -> list[float]:
    """The shares of the copy rate that large programs bound by memory reach."""
    rate = record["rates"]["copy"]
    return [
        p["bytes"] / rate / (p["ms"]["ours"] * 1e-3)
        for p in record["programs"]
        if ratio(p) is not None
        and p["flops"] <= FLOPS_PER_BYTE * p["bytes"]
        and p["bytes"] >= MIN_BYTES
    ]


def _summary(ratios: Iterable[float]) -> str:
    found = list(ratios)
    count, average, good, low = _cells(found)
    return f"{average} of {count}, {good} at {GOAL} or more, {low} under {MIN_RATIO}"


def save(record: Fields, folder: Path) -> Path:
    """Writes the results of a seed into the file of all seeds."""
    path = folder / (CPU_FILE if _is_cpu(record) else FILE)
    known = load(path)
    known[str(record["seed"])] = record
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(path) as staged:
        staged.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    return path


def _is_cpu(record: Fields) -> bool:
    return any(program["name"].endswith(CPU_SUFFIX) for program in record["programs"])


def load(path: Path) -> dict[str, dict[str, Any]]:
    """The results of all seeds of a file, by seed."""
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def _precision(record: Fields) -> str:
    """The precision of convolutions of f32, a part of the sentence of `markdown`."""
    if record.get("cudnn_tf32", True):
        return "convolutions of f32 ours in f32, PyTorch's in its default precision, TF32,"
    return "convolutions of f32 in f32 and not in TF32 on all sides,"


def markdown(records: Mapping[str, Fields]) -> str:
    """The section of docs/performance.md, over all seeds of a file."""
    programs = [program for record in records.values() for program in record["programs"]]
    first = next(iter(records.values()))
    on_cpu = _is_cpu(first)
    rated = [(found, p) for p in programs if (found := ratio(p)) is not None]
    lines = [
        f"## Random programs on a {'CPU' if on_cpu else 'GPU'}",
        "",
        f"{len(programs)} programs of the seeds {', '.join(records)}, drawn by",
        f"`python -m benchmarks breadth{' --target=cpu' if on_cpu else ''}`: one to six ops and"
        " whole blocks, in f16, bf16 and",
        "f32, with log-uniform, often odd sizes; default flags; "
        + ("calls of all systems, in turns," if on_cpu else "kernels of a call by CUPTI,"),
        *([] if on_cpu else [_precision(first)]),
        "compared with the faster of eager PyTorch and torch.compile. Results are checked against"
        " float64.",
        "",
        "| programs | number | geometric mean | at 0.9 or more | under 0.5 |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    groups = [("all", rated)]
    for key in ("class", "dtype"):
        names = sorted({p[key] for _, p in rated})
        groups += [(name, [entry for entry in rated if entry[1][key] == name]) for name in names]
    lines += [f"| {name} | {' | '.join(_cells([r for r, _ in some]))} |" for name, some in groups]
    if stock := [r for p in programs if (r := stock_ratio(p)) is not None]:
        lines.append(f"| over IREE without our passes | {' | '.join(_cells(stock))} |")
    kernels, dispatches = (
        sum(column)
        for column in zip(*(p["coverage"] for p in programs if p.get("coverage")), strict=True)
    )
    wrong, refused = (sum(bool(p.get(key)) for p in programs) for key in ("wrong", "said"))
    lines += [
        "",
        f"{kernels} of {dispatches} dispatches are kernels; {wrong} wrong, {refused} refused.",
    ]
    shares = [share for record in records.values() for share in _copy_shares(record)]
    if shares and not on_cpu:
        lines.append(
            f"{len(shares)} programs bound by memory, of {MIN_BYTES >> 20} MiB or more, reach"
            f" {statistics.median(shares):.0%} of the copy rate in the median."
        )
    lines += [
        "",
        "The worst:",
        "",
        "| ratio | program | ours ms | eager | compile |",
        "| ---: | --- | ---: | ---: | ---: |",
    ]
    for found, p in sorted(rated, key=lambda entry: entry[0])[:WORST]:
        times = " | ".join(
            f"{p['ms'][s]:.3f}" if s in p["ms"] else "" for s in ("ours", "eager", "compile")
        )
        lines.append(f"| {found:.2f} | {p['dtype']} `{p['text']}` | {times} |")
    versions = ", ".join(f"{name} {number}" for name, number in first["versions"].items())
    lines += ["", f"Measured on {first['device']}; {versions}", ""]
    return "\n".join(lines)


def _cells(ratios: list[float]) -> list[str]:
    good = sum(r >= GOAL for r in ratios) / len(ratios)
    low = sum(r < MIN_RATIO for r in ratios)
    return [str(len(ratios)), f"{mean(ratios):.2f}", f"{good:.0%}", str(low)]
