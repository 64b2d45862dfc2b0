"""Summaries of reports and programs for notebooks: small tables without scripts or style sheets."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

Row = tuple[str, str]
"""Name and value, as plain text."""


def table(title: str, rows: Iterable[Row]) -> str:
    """A table of two columns under a title."""
    cells = "".join(
        f'<tr><th style="text-align:left">{html.escape(name)}</th>'
        f'<td style="text-align:left">{html.escape(value)}</td></tr>'
        for name, value in rows
    )
    return f"<table><caption>{html.escape(title)}</caption><tbody>{cells}</tbody></table>"


def preformatted(text: str) -> str:
    """Text whose columns are aligned by spaces; long lines are scrolled."""
    return f'<pre style="overflow-x:auto;white-space:pre">{html.escape(text)}</pre>'


def folded(summary: str, lines: Sequence[str]) -> str:
    """Lines under a summary that opens them; empty without lines."""
    if not lines:
        return ""
    items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    return f"<details><summary>{html.escape(summary)}</summary><ul>{items}</ul></details>"


def counted(counts: Mapping[str, int]) -> list[str]:
    """Names with their numbers, the largest first."""
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return [f"{name}: {count}" for name, count in ordered]
