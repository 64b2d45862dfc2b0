"""Output of the command lines about a report, the pass table and the time spent."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from mlirfuse.core import FusionPass, PassRun, Report, UsageError

JSON_INDENT = 1

_DOCUMENTS = ("explain", "candidates", "kernels")
"""Arguments with a JSON document; not every command has all of them."""


def check(arguments: argparse.Namespace) -> None:
    """Refuses questions that cannot be answered together.

    Raises:
      UsageError: two JSON documents on one stdout, a `--why` that does not name two places, or a
        graph in a format that is none of ours.
    """
    from mlirfuse.explain.files import check_graph

    documents = [name for name in _DOCUMENTS if getattr(arguments, name, None) == "json"]
    if len(documents) > 1:
        named = " and ".join(f"--{name}=json" for name in documents)
        raise UsageError(f"{named} both want stdout; give one of them")
    if arguments.why is not None:
        why_locations(arguments.why)
    if arguments.graph is not None:
        check_graph(arguments.graph)


def wants_stdout(arguments: argparse.Namespace) -> bool:
    """Returns whether a JSON document takes stdout."""
    return "json" in (getattr(arguments, name, None) for name in _DOCUMENTS)


def why_locations(text: str) -> tuple[str, str]:
    """Reads the value of `--why`.

    Raises:
      UsageError: it does not name two places.
    """
    places = [place.strip() for place in text.split(",")]
    if len(places) != 2 or not all(places):
        raise UsageError(
            "--why takes two places, A,B: locations, lines, layers, ops or #KERNEL, as"
            f" model.mlir:4:8,norm1, not '{text}'"
        )
    return places[0], places[1]


def answer(arguments: argparse.Namespace, reports: Sequence[Report]) -> None:
    """Answers `--explain`, `--candidates`, `--kernels` and `--why`: text on stderr, JSON on stdout.

    Args:
      arguments: of a parser with `arguments.add_reports`.
      reports: one, or one for each section of a split input.

    Raises:
      UsageError: `--why` names a location that is in no candidate.
    """
    from mlirfuse import explain
    from mlirfuse.explain import documents

    for report in reports:
        if arguments.explain == "text":
            sys.stderr.write(explain.text(report))
        if arguments.candidates == "text":
            sys.stderr.write(explain.candidates_text(report, color=sys.stderr.isatty()))
        if getattr(arguments, "kernels", None) == "text":
            sys.stderr.write(explain.kernels_text(report))
        if getattr(arguments, "count_stock", False):
            sys.stderr.write(explain.stock_text(report))
    if arguments.why is not None:
        sys.stderr.write(_why(reports, *why_locations(arguments.why)))
    if arguments.explain == "json":
        entries = [documents.report_document(report) for report in reports]
        _print_json(entries[0] if len(entries) == 1 else entries)
    if arguments.candidates == "json":
        _print_json([d for report in reports for d in documents.candidates_document(report)])
    if getattr(arguments, "kernels", None) == "json":
        _print_json([k.to_dict() for report in reports for k in report.kernels])


def _why(reports: Sequence[Report], first: str, second: str) -> str:
    """The answer of the first report that knows both places."""
    from mlirfuse import explain

    refusal: UsageError | None = None
    for report in reports:
        try:
            return explain.why(report, first, second)
        except UsageError as error:
            refusal = refusal or error
    raise refusal or UsageError("--why: the input has no section")


def _print_json(document: Any) -> None:
    json.dump(document, sys.stdout, indent=JSON_INDENT)
    sys.stdout.write("\n")


def list_passes(form: str) -> None:
    """Prints the table of passes as text or JSON on stdout."""
    from mlirfuse.plugins import registry

    passes = registry.passes()
    if form == "json":
        _print_json([entry.to_dict() for entry in passes.values()])
    else:
        sys.stdout.write(_table(passes))


def _table(passes: Mapping[str, FusionPass]) -> str:
    width = max(map(len, passes), default=0)
    lines = []
    for name, entry in passes.items():
        on = ",".join(sorted(entry.targets)) or "off"
        lines.append(f"{name:<{width}}  {entry.numerics:<18}  {on}")
        lines.append(f"    {entry.summary}")
        if entry.aliases:
            lines.append(f"    also called: {', '.join(entry.aliases)}")
        settings = entry.to_dict()["options"]
        if settings:
            shown = " ".join(f"{key}={json.dumps(value)}" for key, value in settings.items())
            lines.append(f"    options: {shown}")
    return "".join(f"{line}\n" for line in lines)


def log_pass(done: PassRun) -> None:
    """Logs one pass on stderr, for `-v`."""
    if not done.enabled:
        print(f"{done.name}: disabled", file=sys.stderr)
        return
    rewrites = "" if done.rewrites is None else f"{_count(done.rewrites)}, "
    print(f"{done.name}: {rewrites}{done.seconds * 1e3:.1f} ms", file=sys.stderr)


def _count(rewrites: int) -> str:
    return f"{rewrites} rewrite" + ("" if rewrites == 1 else "s")


def timing(rows: Sequence[tuple[str, float]]) -> str:
    """A table of names and seconds with their share, for `--timing`."""
    total = sum(seconds for _, seconds in rows)
    lines = ["   seconds  share  part"]
    for name, seconds in [*rows, ("total", total)]:
        share = seconds / total if total else 0.0
        lines.append(f"{seconds:10.4f}  {share:5.1%}  {name}")
    return "\n".join([*lines, ""])
