"""A report as plain text: the groups made, the fusions refused, the ranked candidates."""

from __future__ import annotations

import collections
import io
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from mlirfuse.core import Candidate, Decision, Kind, Reason, Report
from mlirfuse.explain.kernels import kernel_lines, op_runs, scheduled_lines
from mlirfuse.explain.printing import byte_size, place, printable
from mlirfuse.explain.profile_lines import profile_lines
from mlirfuse.explain.ranking import ranked
from mlirfuse.explain.savings import Savings
from mlirfuse.fusion_pass import KERNEL_SUFFIX, forms_group
from mlirfuse.options.selectors import Selector

_MAX_OPS_SHOWN = 4
"""Ops shown of a refused candidate, and in a row of the table of candidates."""

IREE_IS_AS_FAST = (
    "IREE's own code was found to be as fast for such sizes",
    "nothing needs to change; mlirfuse-tune measures other settings for the model",
)
"""Text and hint where a pass that generates code leaves a group to IREE since that does not pay: no
fusion is refused."""

_MIN_OPS_WIDTH = 40
"""Minimum width of the column of ops in the table of candidates on a terminal, in characters."""


def _microseconds(gain: float | None) -> str:
    return "-" if gain is None else f"{gain:.1f} us"


def _plural(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"


def match_name(decision: Decision) -> str:
    """The pass and the ordinal of its match, as in `--disable-pass=a@match=3`."""
    if decision.match is None:
        return printable(decision.pass_name)
    return f"{printable(decision.pass_name)} match {decision.match}"


def op_chain(decision: Decision, limit: int = _MAX_OPS_SHOWN) -> str:
    """The ops of a candidate on one line; the middle of a long list is omitted."""
    shown = op_runs(decision)
    if len(shown) > limit:
        omitted = len(shown) - limit
        shown[limit - 1 : -1] = [f"({omitted} more)"]
    return " + ".join(shown)


def _group_lines(decisions: Iterable[Decision], savings: Savings) -> Iterator[str]:
    for decision in decisions:
        head = f"{match_name(decision)}: {_plural(len(decision.ops), 'op')}"
        worth = savings.text(decision)
        yield f"    {head}; {worth}" if worth else f"    {head}"
        for line in op_runs(decision):
            yield f"      {line}"


def refusal(decision: Decision) -> str:
    """The text of the reason for a refusal, with its detail if there is one."""
    if decision.reason is None:
        return "no reason recorded"
    text, _ = reason_texts(decision)
    return text + (f": {place(decision.detail)}" if decision.detail else "")


def _refused_lines(decisions: Sequence[Decision]) -> Iterator[str]:
    by_reason: dict[Reason | None, list[Decision]] = collections.defaultdict(list)
    for decision in decisions:
        by_reason[decision.reason].append(decision)
    for reason, refused in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        if reason is None:
            yield f"    no reason recorded ({len(refused)})"
        else:
            text, hint = reason_texts(refused[0])
            yield f"    {reason.code} ({len(refused)}): {text}"
            yield f"      hint: {hint}"
        counted = collections.Counter((d.pass_name, op_chain(d), d.detail) for d in refused)
        for (name, chain, detail), count in counted.most_common():
            times = f" (x{count})" if count > 1 else ""
            yield f"      {printable(name)}{times}: {chain}"
            if detail:
                yield f"        {place(detail)}"


def _dispatches(report: Report) -> str:
    stock, fused = report.dispatches.get("stock"), report.dispatches.get("fused")
    parts = [
        f"{n} {program}" for program, n in (("stock", stock), ("fused", fused)) if n is not None
    ]
    if report.coverage is not None and report.coverage[0]:
        parts[-1] += f" ({_plural(report.coverage[0], 'kernel')} of mlirfuse)"
    return f"; dispatches: {', '.join(parts)}" if parts else ""


def is_rewrite(decision: Decision) -> bool:
    """Whether the pass rewrites ops, of layouts for example, and forms no groups."""
    return not forms_group(decision.kind, decision.forms_group)


def is_kernel(decision: Decision) -> bool:
    """Whether the pass generates the code of a group."""
    return decision.pass_name.endswith(KERNEL_SUFFIX)


def shown_kind(decision: Decision) -> str:
    """The kind of a decision; `kernel` for a rewrite that generates the code of a group."""
    kernel = is_kernel(decision) and decision.kind is Kind.REWRITE
    return "kernel" if kernel else str(decision.kind)


def reason_texts(decision: Decision) -> tuple[str, str]:
    """The text of a refusal's reason, and its hint."""
    assert decision.reason is not None
    if is_kernel(decision) and decision.reason is Reason.NOT_PROFITABLE:
        return IREE_IS_AS_FAST
    return decision.reason.text, decision.reason.hint


def not_fused(report: Report) -> list[Decision]:
    """The refused groups whose ops did not end in one kernel of the final program anyway."""
    held = [frozenset(kernel.ops) for kernel in report.kernels if len(kernel.ops) > 1]
    return [
        decision
        for decision in report.decisions
        if not decision.taken
        and not is_rewrite(decision)
        and not any(held_by.issuperset(decision.ops) for held_by in held if decision.ops)
    ]


def is_group(decision: Decision) -> bool:
    """Whether the decision formed a group; rewrites prepare groups without forming one."""
    return decision.made_group


def decision_of(report: Report, function: str, pass_name: str, match: int) -> Decision | None:
    """The decision that formed a group."""
    wanted = (function, pass_name, match)
    for decision in report.decisions:
        if decision.taken and (decision.function, decision.pass_name, decision.match) == wanted:
            return decision
    return None


def summary(report: Report) -> str:
    """One line: groups, ops in them, refused candidates and dispatches."""
    taken = [d for d in report.decisions if is_group(d)]
    refused = not_fused(report)
    ops = sum(len(d.ops) for d in taken)
    reasons = len({d.reason for d in refused})
    refusals = f"{_plural(len(refused), 'candidate')} refused"
    if refused:
        refusals += f" for {_plural(reasons, 'reason')}"
    groups = f"{_plural(len(taken), 'group')} of {_plural(ops, 'op')}"
    kernels = f"{_plural(len(report.kernels), 'kernel')}; " if report.kernels else ""
    return f"{kernels}{groups}; {refusals}{_dispatches(report)}"


def _off_lines(report: Report) -> Iterator[str]:
    """The passes that did not run: by a switch, and by default on the target."""
    off = [p.name for p in report.passes if not p.enabled]
    switches = {Selector.read(s).name for s in report.options.get("disable_pass") or ()}
    by_switch = [name for name in off if name in switches]
    by_default = [name for name in off if name not in switches]
    if by_switch:
        yield f"switched off: {', '.join(map(printable, by_switch))}"
    if by_default:
        names = ", ".join(map(printable, by_default))
        yield f"off by default here, on with --enable-pass=NAME: {names}"


def text(report: Report) -> str:
    """The answer to `--explain`: for each function its kernels, groups, and refusals by reason.

    A refused group whose ops ended in one kernel anyway is none: IREE fused them. Refusals of one
    pass at the same lines of the model are counted once with their multiplicity, since the layers
    of a model share their lines. So are rewrites that only prepare groups.
    """
    lines = [f"target {printable(report.target)}, IREE {printable(report.iree)}"]
    lines.extend(profile_lines(report.profile))
    savings = Savings(report)
    lines.extend(savings.notes())
    functions = dict.fromkeys(k.function for k in report.kernels if k.function)
    functions |= dict.fromkeys(d.function for d in report.decisions)
    missed = not_fused(report)
    for function in functions:
        of_function = [d for d in report.decisions if d.function == function]
        taken = [d for d in of_function if is_group(d)]
        refused = [d for d in missed if d.function == function]
        rewrites = [d for d in of_function if not d.taken and is_rewrite(d)]
        kernels = [d for d in rewrites if is_kernel(d)]
        rewrites = [d for d in rewrites if not is_kernel(d)]
        lines.append(f"function @{printable(function)}" if function else "the whole module")
        lines.extend(kernel_lines(report, function))
        lines.append(f"  groups ({len(taken)})")
        lines.extend(_group_lines(taken, savings))
        lines.append(f"  not fused ({len(refused)})")
        lines.extend(_refused_lines(refused))
        if kernels:
            lines.append(f"  code left to IREE by passes that generate kernels ({len(kernels)})")
            lines.extend(_refused_lines(kernels))
        if rewrites:
            lines.append(f"  rewrites of layouts and forms not made ({len(rewrites)})")
            lines.extend(_refused_lines(rewrites))
    lines.extend(scheduled_lines(report))
    lines.extend(_off_lines(report))
    if fired := report.counts():
        counted = ", ".join(f"{printable(name)} {count}" for name, count in fired.items())
        lines.append(f"applied: {counted}")
    lines.append(summary(report))
    return "\n".join(lines) + "\n"


_COLUMNS = ("rank", "kind", "pass", "saved", "gain", "margin", "taken", "ops")
_RIGHT_ALIGNED = frozenset({"rank", "saved", "gain", "margin"})
_TIMES = frozenset({"gain", "margin"})
"""Columns that are left out where times are shown as ranks."""


def _candidate_row(candidate: Candidate, savings: Savings) -> dict[str, str]:
    decision = candidate.decision
    scale = 1.0 if savings.error is None else savings.error.scale
    margin = None if candidate.margin_us is None else scale * candidate.margin_us
    cells = (
        str(candidate.rank),
        shown_kind(decision),
        match_name(decision),
        byte_size(savings.size(decision)),
        _microseconds(savings.microseconds(decision)),
        _microseconds(margin),
        "yes" if decision.taken else decision.reason.code if decision.reason else "no",
        op_chain(decision),
    )
    return {
        name: cell
        for name, cell in zip(_COLUMNS, cells, strict=True)
        if savings.in_time or name not in _TIMES
    }


def candidates_text(report: Report, *, color: bool = False) -> str:
    """The answer to `--candidates`: a table of all candidates by rank.

    Args:
      report: the engine's report.
      color: whether to use ANSI styles and fold the ops to the terminal's width; otherwise plain
        text with one line for each candidate.
    """
    savings = Savings(report)
    rows = [_candidate_row(candidate, savings) for candidate in ranked(report)]
    columns = [name for name in _COLUMNS if savings.in_time or name not in _TIMES]
    widths = {name: max(map(len, (name, *(row[name] for row in rows)))) for name in columns}
    notes = "".join(f"{note}\n" for note in savings.notes())
    if color:
        return _styled(rows, widths) + notes
    lines = []
    for row in ({name: name for name in columns}, *rows):
        cells = (
            row[name].rjust(width) if name in _RIGHT_ALIGNED else row[name].ljust(width)
            for name, width in widths.items()
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + f"\n{notes}"


def _styled(rows: Sequence[Mapping[str, str]], widths: Mapping[str, int]) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    *others, last = widths
    for name in others:
        justify: Literal["left", "right"] = "right" if name in _RIGHT_ALIGNED else "left"
        table.add_column(name, justify=justify, no_wrap=True, min_width=widths[name])
    narrowest = min(widths[last], _MIN_OPS_WIDTH)
    table.add_column(last, overflow="fold", min_width=narrowest)
    for row in rows:
        styles = {"taken": "green" if row["taken"] == "yes" else "yellow", last: "dim"}
        table.add_row(*(Text(cell, style=styles.get(name, "")) for name, cell in row.items()))
    fixed = sum(widths[name] for name in others) + 2 * len(widths)
    width = max(fixed + narrowest, shutil.get_terminal_size().columns)
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, highlight=False).print(table)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())
