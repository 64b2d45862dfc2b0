"""Operators, blocks and models on a GPU, against IREE, PyTorch and XLA; see `benchmarks.gpu`."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from benchmarks.gpu import rows as table
from benchmarks.gpu.systems import OURS, SYSTEMS
from benchmarks.results import Results, Row
from benchmarks.suites.chart import bars
from benchmarks.suites.suite import Suite
from benchmarks.tables import Table

GOAL_OVER_BEST, GOAL_OVER_STOCK, MIN_RATIO = 1.10, 3.0, 0.90
"""Goals: geometric means of the ratios to the best peer of each row and to IREE, and the minimum of
any row."""

GOAL_OF_LIMIT = 0.90
"""Goal for memory-bound rows: the time of copying the bytes over ours."""

COLUMNS = {
    "default": "default",
    "stock": "IREE",
    "stock_best": "IREE O3",
    "eager": "eager",
    "torch_compile": "compile",
    "max_autotune": "autotune",
    "reduce_overhead": "reduce",
    "xla": "XLA",
}
"""System -> its column."""

_SYSTEMS = (
    "`ours` is mlirfuse with the feature `kernels`, `default` without it. `IREE` has its default "
    "flags, `IREE O3` its highest level. `eager`, `compile`, `autotune` and `reduce` are PyTorch, "
    "torch.compile, and its modes `max-autotune` and `reduce-overhead`; `XLA` is `jax.jit`, with "
    "cuDNN's attention where it takes the shape. `best` is the time of the fastest peer over "
    "ours. A result outside the tolerance of float64 is left out."
)
_OPERATORS = (
    "Microseconds of the kernels of a call, by CUPTI, medians of interleaved rounds; arguments "
    "rotate through copies of at least 256 MiB together. The limit is the time in which this "
    "device copies the bytes of arguments and results, or does the operations at the rate of a "
    "large matmul, whichever is longer; `copy` is a copy of as many bytes in the same rounds, "
    f"slower than a large one by its start and end. {_SYSTEMS}"
)
_BLOCKS = (
    "Milliseconds of wall time of a synchronous call; `queued` is the time of our call among "
    "several with one wait at the end, `kernels` the part of ours in which the device is busy. "
    "`ours` is a call with `cuda_graph=True`, `plain` without: iree-runtime alone, as from C. "
    "Weights are random and bound beforehand, a layer of Llama has the widths of Llama 3 8B."
)
_SUMMARY = (
    f"Geometric means of ratios. Goals: at least {GOAL_OVER_BEST:.2f} over the best peer of "
    f"each row, {GOAL_OVER_STOCK:.0f} over IREE, no row under {MIN_RATIO:.2f}, and every "
    f"memory-bound row within {GOAL_OF_LIMIT:.0%} of the limit."
)


def best(row: Row) -> tuple[str, float] | None:
    """The fastest peer and its time over ours; None where one of them is missing."""
    peers = {system: r["median"] for system, r in row.ratios.items() if system not in OURS}
    if row.ours_ms is None or not peers:
        return None
    peer = min(peers, key=lambda name: peers[name])
    return peer, peers[peer]


def mean(ratios: Iterable[float]) -> float | None:
    """The geometric mean; None of nothing."""
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(statistics.fmean(logs)) if logs else None


def over_best(rows: Iterable[Row]) -> list[float]:
    """The ratios of `best`, of the rows that have one."""
    return [found[1] for row in rows if (found := best(row)) is not None]


def of_limit(row: Row) -> float | None:
    """The limit over our time."""
    if row.ours_ms is None or row.limit_ms is None:
        return None
    return row.limit_ms / row.ours_ms


def of_copy(row: Row) -> float | None:
    """The time of a copy of as many bytes over ours."""
    copy_ms = row.details.get("copy_ms")
    return None if row.ours_ms is None or copy_ms is None else float(copy_ms) / row.ours_ms


_MISSES = (
    f"Rows under {MIN_RATIO:.2f} of the fastest peer, or memory-bound and under "
    f"{GOAL_OF_LIMIT:.0%} of the limit, the slowest first; `benchmarks/NOTES.md` has the reasons."
)


def tables(measured: Results) -> list[Table]:
    """Summary, operators, blocks, rows that miss a goal, and failures."""
    return [
        _summary(measured.rows),
        _operators([r for r in measured.rows if not r.details["block"]]),
        _blocks([r for r in measured.rows if r.details["block"]]),
        _misses(measured.rows),
        _failures(measured.rows),
    ]


def chart(measured: Results) -> str:
    """The ratios of the f16 rows as bars."""
    found = {r.work: b[1] for r in measured.rows if r.dtype == "f16" and (b := best(r))}
    return bars(f"Time of the fastest peer over ours, f16, {measured.device}", found, low=MIN_RATIO)


GROUPS: dict[str, Callable[[Row], bool]] = {
    "all": lambda r: True,
    "memory-bound operators": lambda r: _bound_by_memory(r),
    "compute-bound operators": lambda r: not r.details["memory_bound"] and not r.details["block"],
    "blocks": lambda r: r.details["block"],
    "f16": lambda r: r.dtype == "f16",
    "bf16": lambda r: r.dtype == "bf16",
}


EARLIER = "rows of an earlier run *"


def _is_earlier(row: Row) -> bool:
    return bool(row.details.get("earlier"))


def _named(row: Row) -> str:
    return f"{row.work} *" if _is_earlier(row) else row.work


def _summary(rows: Sequence[Row]) -> Table:
    lines = []
    groups = dict(GROUPS)
    if any(map(_is_earlier, rows)):
        groups |= {"rows of the last run": lambda r: not _is_earlier(r), EARLIER: _is_earlier}
    for name, belongs in groups.items():
        chosen = [row for row in rows if belongs(row)]
        ratios = over_best(chosen)
        bound = [row for row in chosen if _bound_by_memory(row)]
        lines.append(
            [
                name,
                str(len(chosen)),
                _number(mean(ratios), ".2f"),
                _number(
                    mean(r.ratios["stock"]["median"] for r in chosen if "stock" in r.ratios), ".2f"
                ),
                str(sum(ratio < MIN_RATIO for ratio in ratios)),
                _reached(bound, of_limit),
                _reached([row for row in bound if "copy_ms" in row.details], of_copy),
                str(sum(row.ours_ms is None for row in chosen)),
            ]
        )
    missing = len(table.rows()) - len(rows)
    text = _SUMMARY + (f" {missing} rows of the suite were not reached." if missing else "")
    if EARLIER in groups:
        text += " Rows with a star are of an earlier run, with the programs of that time."
    goals = [
        f"under {MIN_RATIO:.2f}",
        *(f"{GOAL_OF_LIMIT:.0%} of {time}" for time in ("limit", "copy")),
    ]
    header = ["rows", "count", "over best", "over IREE", *goals, "ours failed"]
    return Table("On a GPU", text, header, lines)


def _reached(bound: Sequence[Row], part: Callable[[Row], float | None]) -> str:
    """Count of the memory-bound rows that reach the goal."""
    near = sum((part(row) or 0.0) >= GOAL_OF_LIMIT for row in bound)
    return f"{near} of {len(bound)}" if bound else ""


def _operators(rows: Sequence[Row]) -> Table:
    shown = [system for system in COLUMNS if system != "reduce_overhead"]
    lines = []
    for row in rows:
        near = of_limit(row)
        lines.append(
            [
                _named(row),
                row.dtype,
                _number(row.limit_ms, ".0f", 1e3),
                _number(row.ours_ms, ".0f", 1e3),
                _number(near, ".0%"),
                _number(row.details.get("copy_ms"), ".0f", 1e3),
                *(_number(row.peers.get(system), ".0f", 1e3) for system in shown),
                _best(row),
            ]
        )
    titles = [COLUMNS[system] for system in shown]
    header = ["operator", "type", "limit", "ours", "of limit", "copy", *titles, "best"]
    return Table("Operators on a GPU", _OPERATORS, header, lines, words=2)


def _blocks(rows: Sequence[Row]) -> Table:
    lines = []
    for row in rows:
        ours = row.details["sides"].get(row.details["ours"], {})
        lines.append(
            [
                _named(row),
                row.dtype,
                _number(row.limit_ms, ".2f"),
                _number(row.ours_ms, ".2f"),
                *(_number(ours.get(key), ".2f") for key in ("queued_ms", "kernels_ms")),
                _number(row.details["sides"].get("kernels", {}).get("ms"), ".2f"),
                *(_number(row.peers.get(system), ".2f") for system in COLUMNS),
                _best(row),
            ]
        )
    titles = list(COLUMNS.values())
    header = ["block", "type", "limit", "ours", "queued", "kernels", "plain", *titles, "best"]
    return Table("Blocks on a GPU", _BLOCKS, header, lines, words=2)


def _bound_by_memory(row: Row) -> bool:
    return bool(row.details["memory_bound"]) and not row.details["block"]


def _misses(rows: Sequence[Row]) -> Table:
    found = []
    for row in rows:
        other, limit = best(row), of_limit(row)
        if other is None or limit is None:
            continue
        system, ratio = other
        if ratio < MIN_RATIO or (_bound_by_memory(row) and limit < GOAL_OF_LIMIT):
            mine, theirs = (_number(ms, ".0f", 1e3) for ms in (row.ours_ms, row.peers[system]))
            name = [_named(row), row.dtype, COLUMNS[system], mine, theirs]
            parts = [f"{ratio:.2f}", f"{limit:.0%}", _number(of_copy(row), ".0%")]
            found.append((ratio, [*name, *parts]))
    lines = [line for _, line in sorted(found, key=lambda f: f[0])]
    header = ["row", "type", "best", "ours us", "best us", "ratio", "of limit", "of copy"]
    return Table("Rows that miss", _MISSES, header, lines, words=3)


def _failures(rows: Sequence[Row]) -> Table:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        for system, note in row.details["sides"].items():
            if "said" in note:
                found[system, note["said"]].append(f"{row.work} {row.dtype}")
    ordered = sorted(found.items(), key=lambda item: SYSTEMS.index(item[0][0]))
    lines = [
        [system, message.replace("|", "\\|"), ", ".join(works[:3]), str(len(works))]
        for (system, message), works in ordered
    ]
    header = ["system", "message", "first rows", "rows"]
    return Table("Failures on the GPU", "By system and message.", header, lines, words=3)


def _best(row: Row) -> str:
    found = best(row)
    return "" if found is None else f"{found[1]:.2f}"


def _number(value: float | None, form: str, scale: float = 1.0) -> str:
    return "" if value is None else format(value * scale, form)


SUITE = Suite(tuple(row.work for row in table.rows()), (), None, tables, chart)
