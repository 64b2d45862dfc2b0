"""A profile as a table for terminals, and as plain text."""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from typing import Literal

from mlirfuse.explain.printing import byte_size, layer_name, place, printable
from mlirfuse.profiling.kernel_profile import KernelProfile
from mlirfuse.profiling.measured import Measured

_COLUMNS = (
    *("kernel", "us", "min us", "share", "calls", "bytes", "GB/s", "of copy", "GFLOP/s"),
    *("of peak", "bound", "workgroups", "threads", "registers", "shared", "spilled", "occupancy"),
    *("code", "stock min us", "ratio", "layers", "ops"),
)
_LEFT = {"kernel", "bound", "workgroups", "threads", "code", "layers", "ops"}
_OF_STOCK = {"stock min us", "ratio"}
_MAX_OPS_SHOWN = 3
_MIN_OPS_WIDTH = 30
"""Minimum width of the column of ops on a terminal, in characters."""


def text(profile: Measured, *, top: int | None, color: bool) -> str:
    """The table with its lines before and after.

    Args:
      profile: the profile.
      top: number of kernels shown; None for all.
      color: whether to use ANSI styles and the terminal's width.
    """
    shown = profile.kernels[:top]
    columns = [name for name in _COLUMNS if profile.comparison is not None or name not in _OF_STOCK]
    rows = [[_cells(profile, kernel)[name] for name in columns] for kernel in shown]
    columns, rows = _filled(columns, rows)
    body = _styled(columns, rows) if color else _plain(columns, rows)
    lines = [*_before(profile), body.rstrip("\n"), *_after(profile, len(shown))]
    return "\n".join(lines) + "\n"


def _before(profile: Measured) -> list[str]:
    capture = profile.capture
    plural = "" if capture.threads == 1 else "s"
    threads = "" if capture.threads is None else f", {capture.threads} thread{plural}"
    return [
        f"{printable(profile.source)} @{printable(profile.function)} on {capture.device}{threads}:"
        f" {len(capture.calls)} calls, {capture.clock}",
        f"the median call {_us(profile.wall_us)} us: kernels {_us(profile.busy_us)}, between them"
        f" {_us(profile.between_us)}; {_fastest(profile)}",
    ]


def _fastest(profile: Measured) -> str:
    wall, busy = profile.min_wall_us, profile.min_busy_us
    return f"the fastest call {_us(wall)} us: kernels {_us(busy)}, between them {_us(wall - busy)}"


def _after(profile: Measured, shown: int) -> list[str]:
    rates, lines = profile.rates, []
    if shown < len(profile.kernels):
        rest = profile.kernels[shown:]
        share = sum(kernel.share for kernel in rest)
        lines.append(f"{len(rest)} more kernels, {share:.1%} of the time")
    if rates.copy is not None:
        cached = any((kernel.copy_share or 0) > 1 for kernel in profile.kernels)
        note = "; above 100%: a cache held the operands" if cached else ""
        lines.append(f"copy rate {rates.copy / 1e9:.1f} GB/s, {rates.copy_source}{note}")
    if any(kernel.peak_share is not None for kernel in profile.kernels):
        low = any((kernel.peak_share or 0) > 1 for kernel in profile.kernels)
        note = "; above 100%: the device is faster than these rates say" if low else ""
        lines.append(f"peaks {rates.source}{note}")
    if not any(kernel.ops for kernel in profile.kernels):
        lines.append("source ops, bytes and operations: not known, the program has no kernel list")
    comparison = profile.comparison
    if comparison is not None:
        stock = comparison.stock
        launches = sum(kernel.calls for kernel in stock.kernels)
        lines.append(
            f"stock IREE: the median call {_us(stock.wall_us)} us, {launches} launches;"
            f" {_fastest(stock)}"
        )
        kernels = comparison.kernel_ratio
        alone = "" if kernels is None else f", of the kernels, each in its fastest, {kernels:.2f}"
        lines.append(f"stock over ours: of the fastest calls {comparison.ratio:.2f}{alone}")
    return lines


def _us(microseconds: float) -> str:
    return f"{microseconds:.1f}"


def _cells(profile: Measured, kernel: KernelProfile) -> dict[str, str]:
    found = None if profile.comparison is None else profile.comparison.of(kernel)
    ratio = None if found is None else found.ratio
    return {
        "kernel": printable(kernel.name),
        "us": _us(kernel.median_us),
        "min us": _us(kernel.min_us),
        "share": f"{kernel.share:.1%}",
        "calls": str(kernel.calls),
        "bytes": byte_size(kernel.bytes),
        "GB/s": _billions(kernel.bytes_per_second),
        "of copy": _share(kernel.copy_share),
        "GFLOP/s": _billions(kernel.flops_per_second),
        "of peak": _share(kernel.peak_share),
        "bound": kernel.bound or "-",
        "workgroups": "x".join(map(str, kernel.workgroups or ())) or "-",
        "threads": "x".join(map(str, kernel.workgroup_size or ())) or "-",
        "registers": "-" if kernel.registers is None else str(kernel.registers),
        "shared": byte_size(kernel.shared_memory),
        "spilled": byte_size(kernel.local_memory),
        "occupancy": _share(kernel.occupancy),
        "code": kernel.code or "-",
        "stock min us": "-" if found is None or ratio is None else _us(found.stock_us),
        "ratio": "-" if ratio is None else f"{ratio:.2f}",
        "layers": _listed([*map(layer_name, kernel.layers)]) or "-",
        "ops": _ops(kernel),
    }


def _ops(kernel: KernelProfile) -> str:
    """Its first source locations, and the pass that formed it."""
    formed = f" ({kernel.pass_name})" if kernel.pass_name else ""
    return f"{_listed(kernel.ops)}{formed}".strip() or "-"


def _listed(names: Sequence[str]) -> str:
    """The first names, and the number of the rest."""
    shown = ", ".join(map(place, names[:_MAX_OPS_SHOWN]))
    more = len(names) - _MAX_OPS_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _billions(rate: float | None) -> str:
    return "-" if rate is None else f"{rate / 1e9:.1f}"


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _filled(
    columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """The columns that have a value in some row."""
    kept = [
        n
        for n, name in enumerate(columns)
        if name == "kernel" or any(row[n] != "-" for row in rows)
    ]
    return [columns[n] for n in kept], [[row[n] for n in kept] for row in rows]


def _plain(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    lines = []
    for row in (columns, *rows):
        cells = (
            cell.ljust(width) if name in _LEFT else cell.rjust(width)
            for name, cell, width in zip(columns, row, widths, strict=True)
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def _styled(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    fixed = 0
    for name, width in zip(columns, widths, strict=True):
        justify: Literal["left", "right"] = "left" if name in _LEFT else "right"
        folds = name == "ops"
        least = min(width, _MIN_OPS_WIDTH) if folds else width
        fixed += least + 2
        table.add_column(
            name,
            justify=justify,
            no_wrap=not folds,
            overflow="fold" if folds else "ellipsis",
            min_width=least,
        )
    for row in rows:
        table.add_row(*(Text(cell, style="dim" if c == "ops" else "") for c, cell in
                        zip(columns, row, strict=True)))  # fmt: skip
    out = io.StringIO()
    width = max(fixed, shutil.get_terminal_size().columns)
    Console(file=out, width=width, force_terminal=True, highlight=False).print(table)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())
