"""Switches that name something which is not in the module: a warning, with the nearest name."""

from __future__ import annotations

import collections
import difflib
from collections.abc import Iterable, Iterator

from iree.compiler import ir

from mlirfuse.core import Report
from mlirfuse.options import FusionOptions, Selector, flag
from mlirfuse.structured.ir import marks, ops


def warnings(module: ir.Module, report: Report, options: FusionOptions) -> list[str]:
    """A line for each value of a switch that nothing in the module matches.

    Args:
      module: before or after the passes.
      report: of a run with these options.
      options: the switches.
    """
    return [
        f"{flag(field)}={value}{_place(options, field)}: nothing matches: {why}"
        for field, value, why in (
            *_locations(module, options),
            *_op_kinds(module, options),
            *_selectors(module, report, options),
        )
    ]


_Unmatched = tuple[str, str, str]
"""Field of the options, value, reason."""


def _locations(module: ir.Module, options: FusionOptions) -> Iterator[_Unmatched]:
    if not options.never_fuse:
        return
    held = [op for function in ops.functions(module) for op in ops.nested_ops(function)]
    for name in options.never_fuse:
        if not any(marks.is_called(op, name) for op in held):
            names = dict.fromkeys(found for op in held for found in marks.names_of(op))
            yield "never_fuse", name, f"no op is called that{_hint(name, names)}"


def _op_kinds(module: ir.Module, options: FusionOptions) -> Iterator[_Unmatched]:
    if not options.skip_op_kind:
        return
    kinds = {op.name for function in ops.functions(module) for op in ops.nested_ops(function)}
    for kind in options.skip_op_kind:
        if kind not in kinds:
            yield "skip_op_kind", kind, f"no op of the model is of this kind{_hint(kind, kinds)}"


def _selectors(module: ir.Module, report: Report, options: FusionOptions) -> Iterator[_Unmatched]:
    functions = [ops.symbol_name(function) for function in ops.functions(module)]
    matches = collections.Counter(d.pass_name for d in report.decisions if d.match is not None)
    for field in ("disable_pass", "enable_pass"):
        for text in getattr(options, field):
            selector = Selector.read(text)
            if selector.func is not None and selector.func not in functions:
                hint = _hint(selector.func, functions)
                yield field, text, f"no function is called '{selector.func}'{hint}"
            elif selector.match is not None and selector.match >= matches[selector.name]:
                count = matches[selector.name]
                last = f" (0 to {count - 1})" if count else ""
                yield field, text, f"the pass has {count} matches{last}"


def _hint(name: str, choices: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, sorted(choices), n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""


def _place(options: FusionOptions, field: str) -> str:
    """The place that set the switch, where it is not the call itself."""
    place = options.origins.get(field, "")
    return "" if place in ("", "arguments", "command line") else f" ({place})"
