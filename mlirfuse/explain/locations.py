"""The answer to `--why=LOC,LOC`: whether two ops are in one kernel or group, and why."""

from __future__ import annotations

import collections
from collections.abc import Iterable

from mlirfuse.boundaries import Boundary
from mlirfuse.core import Decision, Report
from mlirfuse.explain import places
from mlirfuse.explain.kernels import exchanged
from mlirfuse.explain.plain import match_name, reason_texts, refusal, shown_kind
from mlirfuse.explain.printing import printable
from mlirfuse.final_kernels import Place


def _distinct(blocks: Iterable[str]) -> list[str]:
    """Each block of lines once; the first line has the number of equal ones."""
    counted = collections.Counter(blocks)
    found = []
    for block, count in counted.items():
        first, *rest = block.split("\n")
        found.append("\n".join([f"{first} (x{count})" if count > 1 else first, *rest]))
    return found


def _verdict(decision: Decision) -> list[str]:
    lines = [
        f"{match_name(decision)} ({shown_kind(decision)}) considered both: {refusal(decision)}"
    ]
    if decision.reason is not None:
        lines.append(f"  hint: {reason_texts(decision)[1]}")
    return lines


def _alone(report: Report, query: str, at: frozenset[Place]) -> list[str]:
    """The group of one op; without a group, the reasons that its candidates were refused for."""
    concerned = [d for d in report.decisions if not at.isdisjoint(d.places)]
    taken = _distinct(f"{match_name(d)} of @{printable(d.function)}" for d in concerned if d.taken)
    name = printable(query)
    if taken:
        return [f"{name} is in the group of {', '.join(taken)}"]
    refused = _distinct(f"  {match_name(d)}: {refusal(d)}" for d in concerned)
    return [f"{name} is in no group; its candidates were refused:", *refused]


def kernel_answer(report: Report, a: str, b: str) -> str:
    """The answer about the final program: one kernel, a tensor with its reason, or the path."""
    at_a, at_b = (places.kernels_at(report, query) for query in (a, b))
    name_a, name_b = printable(a), printable(b)
    lines = []
    for index in at_a.keys() & at_b.keys():
        if len(at_a[index] | at_b[index]) > 1:  # the two are not one op
            kernel = report.kernels[index]
            formed = "IREE" if kernel.pass_name is None else kernel.pass_name
            match = "" if kernel.match is None else f" match {kernel.match}"
            lines.append(
                f"yes: kernel {printable(kernel.name)} of @{printable(kernel.function)} holds both,"
                f" formed by {printable(formed)}{match}"
            )
    if lines:
        return "\n".join(_distinct(lines)) + "\n"
    lines = [f"no: {name_a} and {name_b} are in different kernels"]
    direct = [
        boundary
        for boundary in report.boundaries
        if (boundary.source in at_a and boundary.target in at_b)
        or (boundary.source in at_b and boundary.target in at_a)
    ]
    blocks = ["\n".join(_exchange_lines(boundary)) for boundary in direct]
    lines += [line for block in _distinct(blocks) for line in block.splitlines()]
    if not direct:
        lines.append(_path_line(report, set(at_a), set(at_b)))
        both = _about_both(report, *(_places(report, at) for at in (at_a, at_b)))
        blocks = ["\n".join(_verdict(d)) for d in both if not d.taken]
        lines += [line for block in _distinct(blocks) for line in block.splitlines()]
    return "\n".join(lines) + "\n"


def _places(report: Report, at: dict[int, set[int]]) -> frozenset[Place]:
    """The places of ops of kernels."""
    return frozenset(report.kernels[k].places[op] for k, ops in at.items() for op in ops)


def _about_both(report: Report, a: frozenset[Place], b: frozenset[Place]) -> list[Decision]:
    """The decisions about candidates with an op at each of two places, which may be equal."""
    found = [
        d for d in report.decisions if not a.isdisjoint(d.places) and not b.isdisjoint(d.places)
    ]
    return [d for d in found if a != b or sum(place in a for place in d.places) > 1]


def _exchange_lines(boundary: Boundary) -> list[str]:
    detail = f" ({printable(boundary.detail)})" if boundary.detail else ""
    return [
        f"{printable(boundary.source_name)} writes {exchanged(boundary)}, which"
        f" {printable(boundary.target_name)} reads",
        f"  {boundary.reason.code}: {boundary.reason.text}{detail}",
        f"  hint: {boundary.hint}",
    ]


def _path_line(report: Report, starts: set[int], ends: set[int]) -> str:
    """The shortest path of tensors between two sets of kernels."""
    for sources, targets in ((starts, ends), (ends, starts)):
        path = _path(report, sources, targets)
        if path:
            names = " -> ".join(f"#{i} {printable(report.kernels[i].name)}" for i in path)
            return f"no tensor goes directly from one to the other; the path: {names}"
    return "no tensor leads from one to the other"


def _path(report: Report, sources: set[int], targets: set[int]) -> list[int]:
    users: dict[int, list[int]] = {}
    for boundary in report.boundaries:
        users.setdefault(boundary.source, []).append(boundary.target)
    paths = collections.deque([index] for index in sorted(sources))
    seen = set(sources)
    while paths:
        path = paths.popleft()
        if path[-1] in targets:
            return path
        for user in users.get(path[-1], ()):
            if user not in seen:
                seen.add(user)
                paths.append([*path, user])
    return []


def why(report: Report, a: str, b: str) -> str:
    """Explains whether the ops at two locations are in one kernel, or in one group.

    With a compiled program the answer is about its kernels, otherwise about the groups, by the
    decisions on them.

    Args:
      report: the engine's report.
      a: location of one op, as in `--explain`; the end of its path is enough. Or the name of a
        layer, as `blocks.0.mlp.up`, of an op, as `linalg.softmax`, and of a compiled program the
        name or number of a kernel, as `#3`.
      b: location of the other op.

    Raises:
      UsageError: a location is unknown; the message names the nearest.
    """
    if report.kernels:
        return kernel_answer(report, a, b)
    at_a, at_b = places.candidates_at(report, a), places.candidates_at(report, b)
    both = _about_both(report, at_a, at_b)
    lines = _distinct(
        f"yes: {match_name(d)} of @{printable(d.function)} put both in one group"
        for d in both
        if d.taken
    )
    if not lines:
        lines = [f"no: {printable(a)} and {printable(b)} are in no common group"]
        if both:
            for block in _distinct("\n".join(_verdict(d)) for d in both):
                lines.extend(block.splitlines())
        else:
            lines.append("no pass considered the two together")
        lines += _alone(report, a, at_a)
        if at_a != at_b:
            lines += _alone(report, b, at_b)
    return "\n".join(lines) + "\n"
