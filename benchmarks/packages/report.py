"""The record of networks of other packages as a section of the page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from benchmarks.tables import Table

FILE = "packages.json"


def markdown(record: Mapping[str, Any]) -> str:
    """The section: what came out, and a row for each network."""
    rows: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in record["rows"]:
        rows.setdefault(row["network"], {})[row["sizes"]] = row
    lines = []
    for network, found in rows.items():
        example, opened = found.get("example", {}), found.get("open", {})
        lines.append([network, *_cells(example), *_cells(opened)])
    text = "\n\n".join(_summary(record, sizes, words) for sizes, words in _SIZES.items())
    table = Table(
        "Networks in packages of PyPI",
        "`python -m benchmarks packages` takes the ONNX files in the wheels of packages, and ONNX"
        " Runtime on the same threads. Over 1 ours is faster. A file leaves sizes open; `--shapes`"
        f" gives those of an example.\n\n{text}",
        ("network", "ours ms", "over ours", "open sizes ms", "over ours"),
        lines,
    )
    return f"{table.markdown()}\nMeasured on {record['device']}, {record['threads']} threads.\n"


_SIZES = {"example": "With the sizes of an example", "open": "With open sizes"}


def _summary(record: Mapping[str, Any], sizes: str, words: str) -> str:
    rows = [row for row in record["rows"] if row["sizes"] == sizes]
    right = [row for row in rows if row["outcome"] == "right"]
    if not rows:
        return ""
    wrong = sum(row["outcome"] == "wrong" for row in rows)
    mean = math.exp(sum(math.log(row["ratio"]) for row in right) / max(1, len(right)))
    return (
        f"{words}: {len(right)} of {len(rows)} are right, {wrong} wrong; {mean:.2f} of ONNX"
        " Runtime's speed in the geometric mean of those."
    )


def _cells(row: Mapping[str, Any]) -> tuple[str, str]:
    if "ratio" not in row:
        return row.get("outcome", ""), ""
    word = "" if row["outcome"] == "right" else f" ({row['outcome']})"
    return f"{row['ours_ms']:.2f}{word}", f"{row['ratio']:.2f}"
