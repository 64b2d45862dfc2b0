"""The HTML report: one self-contained file that opens offline."""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from mlirfuse.boundaries import BoundaryReason
from mlirfuse.core import Reason, Report
from mlirfuse.explain import graph, kernel_graph
from mlirfuse.explain.page_kernels import kernel_rows, stock_rows
from mlirfuse.explain.savings import Savings
from mlirfuse.options import FusionOptions, switches
from mlirfuse.support.atomic_file import replacing

Step = tuple[str, str, str]
"""The name of a pass, and the IR before and after it."""

_MAX_IR_CHARACTERS = 2_000_000
"""Characters of one module on the page; the rest is cut, so that browsers can open it."""

_MAX_DIFF_LINES = 40_000
"""Maximum number of lines of two modules that are compared: the time is not linear in it."""

_QUOTED_OR_PLAIN = r'[^()"]|"[^"]*"'
_NESTED = rf"(?:{_QUOTED_OR_PLAIN}|\((?:{_QUOTED_OR_PLAIN}|\((?:{_QUOTED_OR_PLAIN})*\))*\))*"
_LOCATION = re.compile(rf" loc\({_NESTED}\)|^#loc\d* = .*\n?", re.MULTILINE)

_VALUE = re.compile(r"%[\w#:]+|#map\d*")


def html(
    report: Report,
    path: str | os.PathLike[str],
    *,
    title: str = "mlirfuse report",
    before: str | None = None,
    after: str | None = None,
    timings: Mapping[str, float] | None = None,
    speedups: Mapping[str, float] | None = None,
    steps: Iterable[Step] | None = None,
    measured: Sequence[Mapping[str, Any]] = (),
    stock_measured: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Writes the report as one HTML file without references to anything outside it.

    Args:
      report: the engine's report.
      path: output file, which is replaced atomically.
      title: heading of the page, e.g. the model's name.
      before: the module before the passes, as text.
      after: the module after the passes, as text. Without kernels of a compiled program the graph
        is drawn from it, with source lines when the text has locations; otherwise from
        `report.graph`; without either, the ops of the groups are drawn without edges.
      timings: program (`stock`, `fused`, others) -> time of a call in milliseconds.
      speedups: program -> speedup over stock; None for the quotients of the timings.
      steps: for each pass that changed something, its name and the IR before and after it; None
        where that is not known. `ir_files.read` gives them, with `before` and `after`.
      measured: the kernels of a profile, as `KernelProfile.to_dict` gives them.
      stock_measured: the same of stock IREE's program.

    Raises:
      UsageError: the file cannot be written.
      MlirfuseError: `after` is not MLIR.
    """
    if after is not None and not report.kernels:
        drawn = graph.of_text(after)
    else:
        drawn = kernel_graph.of_report(report)
    savings = Savings(report)
    data = {
        "title": title,
        "version": version("mlirfuse"),
        "target": report.target,
        "iree": report.iree,
        "options": _changed_options(report.options),
        "switches": {switch.name: switch.plain_summary for switch in switches()},
        "dispatches": report.dispatches,
        "passes": [dataclasses.asdict(p) for p in report.passes],
        "decisions": [d.to_dict() | {"saving": savings.entry(d)} for d in report.decisions],
        "savings": savings.to_dict(),
        "reasons": {
            r.code: {"text": r.text, "hint": r.hint, "refusal": kind is Reason}
            for kind in (Reason, BoundaryReason)
            for r in kind
        },
        "kernels": kernel_rows(report.kernels, measured),
        "stock": stock_rows(report, stock_measured),
        "boundaries": [boundary.to_dict() for boundary in report.boundaries],
        "timings": dict(timings or {}),
        "speedups": _speedups(timings or {}, speedups),
        "graph": _drawing(drawn, report),
        "before": _shown(before),
        "after": _shown(after),
        "steps": None if steps is None else _changes(steps),
    }
    with replacing(Path(path)) as staged:
        staged.write_text(_page(data), encoding="utf-8")


def _drawing(drawn: graph.Graph, report: Report) -> dict[str, Any]:
    """The graph, the refusals between its ops, and the rewrites in order."""
    pairs = graph.refused(drawn, report.decisions)
    order = graph.steps(drawn, report.decisions)
    return drawn.to_dict() | {
        "refused": [dataclasses.asdict(pair) for pair in pairs],
        "steps": [dataclasses.asdict(step) for step in order],
    }


def _speedups(
    timings: Mapping[str, float], measured: Mapping[str, float] | None
) -> dict[str, float]:
    if measured is not None:
        return dict(measured)
    stock = timings.get("stock")
    return {} if stock is None else {name: stock / ms for name, ms in timings.items()}


def _changed_options(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    defaults = FusionOptions().to_dict()
    return [
        {"name": name, "value": value, "default": defaults.get(name)}
        for name, value in options.items()
        if name not in defaults or value != defaults[name]
    ]


def _shown(text: str | None) -> str | None:
    """A module without locations, cut to a length that browsers can show."""
    if text is None:
        return None
    text = _LOCATION.sub("", text)
    if len(text) <= _MAX_IR_CHARACTERS:
        return text
    return (
        text[:_MAX_IR_CHARACTERS] + f"\n// cut: {len(text) - _MAX_IR_CHARACTERS} more characters\n"
    )


def _changes(steps: Iterable[Step]) -> list[dict[str, Any]]:
    return [{"title": name, "diff": difference(before, after)} for name, before, after in steps]


def difference(before: str, after: str) -> list[str]:
    """A unified diff of two modules that ignores renamed values and maps."""
    old, new = before.splitlines(), after.splitlines()
    if len(old) + len(new) > _MAX_DIFF_LINES:
        return [f"@@ too long to compare: {len(old)} lines before, {len(new)} after @@"]
    matcher = difflib.SequenceMatcher(a=_nameless(old), b=_nameless(new))
    lines = []
    for hunk in matcher.get_grouped_opcodes(3):
        first, last = hunk[0], hunk[-1]
        lines.append(
            f"@@ -{first[1] + 1},{last[2] - first[1]} +{first[3] + 1},{last[4] - first[3]} @@"
        )
        for tag, i1, i2, j1, j2 in hunk:
            if tag == "equal":
                lines.extend(" " + line for line in new[j1:j2])
            else:
                lines.extend("-" + line for line in old[i1:i2])
                lines.extend("+" + line for line in new[j1:j2])
    return lines


def _nameless(lines: Sequence[str]) -> list[str]:
    return [_VALUE.sub("%", line) for line in lines]


def _page(data: Mapping[str, Any]) -> str:
    # Inside a script element only `<` can end it or open a comment; JSON may spell it \u003c.
    encoded = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    script = _resource("page.js")
    for name in ("kernels", "stock", "layout", "graph"):
        script = script.replace(f"/*{name.upper()}*/", _resource(f"{name}.js").strip())
    parts = {
        "STYLE": _resource("page.css"),
        "DAGRE": _resource("vendor/dagre.min.js"),
        "SCRIPT": script,
        "DATA": encoded,
    }
    return re.sub(rf"/\*({'|'.join(parts)})\*/", lambda m: parts[m[1]], _resource("page.html"))


def _resource(name: str) -> str:
    return files("mlirfuse.explain").joinpath(name).read_text(encoding="utf-8")
