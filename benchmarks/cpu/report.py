"""Tables of the record, for a terminal and for docs/performance.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks import results
from benchmarks.cpu import record, systems
from benchmarks.results import Row
from benchmarks.suites.gpu import mean
from benchmarks.tables import Table
from mlirfuse.benchmarking.environment import limited_to_avx2

GOAL, MIN_RATIO, GOAL_OVER_STOCK, GOAL_OWN_SHARE = 1.10, 0.85, 1.5, 0.15
"""Goals: the geometric mean over the best peer of each row, the minimum of any row, the geometric
mean over stock IREE, and the maximum time of our passes over `iree-compile`."""

WORST = 10

_TEXT = (
    "Milliseconds of a call of ours, and the time of each system over ours: below 1 it is faster. "
    "`IREE` has its default flags, `tiled` data tiling; `eager`, `compile` and `auto` are PyTorch, "
    "torch.compile, and its mode `max-autotune` with freezing; `ORT` is ONNX Runtime, `OV` "
    "OpenVINO. `best` is the fastest of those that are not IREE. Dispatches and seconds of "
    "compiling are ours and IREE's; own is the time of our passes over IREE's. The error is ours, "
    "against float64, over the largest magnitude of the result; systems with a wrong result are "
    "left out. i8: linear layers with i8 weights, and activations that are quantized in each call, "
    "by ONNX Runtime's `quantize_dynamic`, in PyTorch by its own."
)
_NARROW = (
    " All are limited to AVX2, ONNX Runtime and OpenVINO by copies that see no more "
    "(`benchmarks/cpu/narrow_packages.py`), save PyTorch's quantized layers, which do not count."
)


def best(row: Row, *, is_narrow: bool = False) -> tuple[str, float] | None:
    """The fastest of the peers and its time over ours; None where none has a time.

    Args:
      row: a row of the record.
      is_narrow: whether the systems of a wider machine are limited to AVX2.
    """
    limited = is_narrow and row.dtype == "i8"
    peers: Sequence[str] = systems.FROM_ONNX if limited else systems.PEERS
    found = {name: row.ratios[name]["median"] for name in peers if name in row.ratios}
    if not found:
        return None
    name = min(found, key=lambda n: found[n])
    return name, found[name]


def over_stock(row: Row) -> float | None:
    """The time of the faster of stock IREE's flags over ours."""
    found = [
        row.ratios[name]["median"]
        for name in (systems.STOCK, systems.STOCK_BEST)
        if name in row.ratios
    ]
    return min(found, default=None)


def own_share(row: Row) -> float | None:
    """The time of our passes over `iree-compile`'s."""
    notes = row.details["systems"]
    own = notes.get(systems.OURS, {}).get("own_s")
    stock = notes.get(systems.STOCK, {}).get("compile_s")
    return None if own is None or stock is None else float(own / stock)


def line(row: Row, threads: int, *, is_narrow: bool = False) -> str:
    """One row, as the run shows it; for `is_narrow` see `best`."""
    found = best(row, is_narrow=is_narrow)
    times = dict(row.peers)
    if row.ours_ms is not None:
        times = {systems.OURS: row.ours_ms, **times}
    parts = [f"{name} {ms:.2f}" for name, ms in times.items()]
    notes = row.details["systems"]
    parts += [f"{name}: {note['said']}" for name, note in notes.items() if "said" in note]
    if not times:
        parts += [
            f"{name} {note['dispatches']} dispatches in {note['compile_s']:.1f} s"
            for name, note in notes.items()
            if "dispatches" in note
        ]
    shown = "  -  " if found is None else f"{found[1]:5.2f}"
    return f"{shown} {row.work} {row.dtype}, threads {threads}: {'; '.join(parts)}"


def table(entry: Mapping[str, Any]) -> Table:
    """The rows of a machine, a target and a number of threads."""
    narrow = _is_narrow(entry)
    lines = [_cells(Row(**fields), narrow) for fields in entry["rows"]]
    titles = systems.COLUMNS.values()
    header = [
        "model",
        "type",
        "ours ms",
        *titles,
        "best",
        "dispatches",
        "compile s",
        "own",
        "error",
    ]
    threads = entry["threads"]
    name = "this machine's instructions" if entry["target"] == "host" else entry["target"]
    title = f"Models on a CPU, {name}, {threads} thread{'s' if threads > 1 else ''}"
    text = f"{_summary(entry)} {_TEXT}{_NARROW if _is_narrow(entry) else ''}"
    return Table(title, text, header, lines, words=2)


def _cells(row: Row, is_narrow: bool) -> list[str]:
    notes = row.details["systems"]
    pair = [notes.get(name, {}) for name in (systems.OURS, systems.STOCK)]
    found = best(row, is_narrow=is_narrow)
    return [
        row.work,
        row.dtype,
        _number(row.ours_ms, ".3g") or "failed",
        *(_number(row.ratios.get(name, {}).get("median"), ".2f") for name in systems.COLUMNS),
        _number(None if found is None else found[1], ".2f"),
        "/".join(_number(note.get("dispatches"), "d") for note in pair),
        "/".join(_number(note.get("compile_s"), ".0f") for note in pair),
        _number(own_share(row), ".0%"),
        _number(row.error, ".0e"),
    ]


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def is_limited(arch: str, instructions: Iterable[str]) -> bool:
    """Whether the systems of a machine with these instructions are limited to AVX2 for a target."""
    return limited_to_avx2(arch) and "avx512f" in instructions


def _is_narrow(entry: Mapping[str, Any]) -> bool:
    return is_limited(entry["target"], entry["instructions"])


def _summary(entry: Mapping[str, Any]) -> str:
    rows = [Row(**fields) for fields in entry["rows"]]
    narrow = _is_narrow(entry)
    over = [found[1] for row in rows if (found := best(row, is_narrow=narrow)) is not None]
    stock = [found for row in rows if (found := over_stock(row)) is not None]
    shares = [share for row in rows if (share := own_share(row)) is not None]
    low = sum(ratio < MIN_RATIO for ratio in over)
    faster = sum(ratio < 1 for ratio in stock)
    return (
        f"Geometric means: {_number(mean(over), '.2f')} over the best peer of each row (goal "
        f"{GOAL:.2f}), {low} of {len(over)} rows under {MIN_RATIO:.2f}; "
        f"{_number(mean(stock), '.2f')} over the faster of IREE's flags (goal {GOAL_OVER_STOCK}), "
        f"which is faster than ours in {faster}. Own time: {_number(mean(shares), '.0%')} of "
        f"`iree-compile` (goal {GOAL_OWN_SHARE:.0%}), at most "
        f"{_number(max(shares, default=None), '.0%')}."
    )


def worst(rows: Iterable[Row], *, is_narrow: bool = False) -> Table:
    """The rows with the lowest ratio to their best peer."""
    rated = sorted(
        ((found[1], found[0], row) for row in rows if (found := best(row, is_narrow=is_narrow))),
        key=lambda entry: entry[0],
    )
    lines = [
        [
            row.work,
            row.dtype,
            systems.COLUMNS[name],
            f"{row.ours_ms:.3g}",
            f"{row.peers[name]:.3g}",
            f"{ratio:.2f}",
            _quartiles(row, name),
        ]
        for ratio, name, row in rated[:WORST]
    ]
    header = ["model", "type", "best", "ours ms", "its ms", "ratio", "quartiles"]
    return Table("The worst", "By the ratio to the fastest peer.", header, lines, words=3)


def _quartiles(row: Row, name: str) -> str:
    return f"{row.ratios[name]['low']:.2f} to {row.ratios[name]['high']:.2f}"


def failures(rows: Iterable[Row]) -> Table:
    """Systems that did not run, and why."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for name, note in row.details["systems"].items():
            if "said" in note:
                found.setdefault((name, note["said"]), []).append(f"{row.work} {row.dtype}")
    lines = [
        [name, message.replace("|", "\\|"), ", ".join(works[:3]), str(len(works))]
        for (name, message), works in found.items()
    ]
    header = ["system", "message", "first rows", "rows"]
    return Table("Systems without a time", "By system and message.", header, lines, words=3)


def tables(entry: Mapping[str, Any]) -> list[Table]:
    """All tables of a machine, a target and a number of threads."""
    rows = [Row(**fields) for fields in entry["rows"]]
    found = [table(entry), worst(rows, is_narrow=_is_narrow(entry)), failures(rows)]
    return [t for t in found if t.rows]


def markdown(entries: Mapping[str, Mapping[str, Any]]) -> str:
    """The section of docs/performance.md: all entries of the record, the latest first."""
    parts = []
    for entry in sorted(entries.values(), key=lambda entry: str(entry["date"]), reverse=True):
        first, *others = tables(entry)
        parts += [first.markdown(), *(t.markdown(level=3) for t in others)]
        parts.append(f"Measured on {_machine(entry)}\n")
    return "\n".join(parts)


def _machine(entry: Mapping[str, Any]) -> str:
    where = results.machine(record.as_results(entry))
    return f"{where}; instructions {', '.join(entry['instructions'])}; target {entry['target']}"


def show(entries: Mapping[str, Mapping[str, Any]], arch: str, counts: Sequence[int]) -> None:
    """Prints the tables of this machine with a target and numbers of threads."""
    from benchmarks import tables as terminal

    for threads in counts:
        entry = entries.get(record.key(arch, threads))
        if entry is not None:
            for shown in tables(entry):
                terminal.show(shown)
            print(_machine(entry))
