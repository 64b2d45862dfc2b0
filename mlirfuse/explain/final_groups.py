"""The graph by kernels of the final program: IREE's own fusions are groups, too."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence

from mlirfuse.core import Report
from mlirfuse.explain import graph
from mlirfuse.explain.graph import Graph, Group
from mlirfuse.final_kernels import IREE, FinalKernel

_Origin = tuple[str, str, str]
"""Function, location and layer of an op."""


def of_report(report: Report) -> Graph:
    """The report's graph, by the kernels of its program where one was compiled."""
    return by_kernels(graph.of_report(report), report.kernels)


def title(group: Group, report: Report) -> str:
    """The pass and match of a group; the name of the kernel, where IREE formed it."""
    if group.pass_name == IREE and group.kernel is not None:
        return f"{IREE} {report.kernels[group.kernel].name}"
    return f"{group.pass_name} match {group.match}"


def by_kernels(drawn: Graph, kernels: Sequence[FinalKernel]) -> Graph:
    """The graph with the kernel of each group, and a group for each other kernel.

    An op in no group is found in a kernel by its location and layer. Where several kernels have
    ops of the same origin, as many as the graph has, they are taken in program order; an op whose
    kernel would be a guess stays in no group.
    """
    formed = {
        (kernel.model_function, kernel.pass_name, kernel.match): index
        for index, kernel in enumerate(kernels)
        if kernel.pass_name is not None
    }
    groups = [
        dataclasses.replace(g, kernel=formed.get((g.function, g.pass_name, g.match)))
        for g in drawn.groups
    ]
    known = {group.kernel for group in groups}
    others = {index: kernel for index, kernel in enumerate(kernels) if index not in known}
    ops = list(drawn.ops)
    for index, members in _members(drawn, others).items():
        layer = graph.common_layer([ops[member].layer for member in members])
        kernel = kernels[index]
        name = kernel.pass_name or IREE
        match = index if kernel.match is None else kernel.match
        groups.append(Group(ops[members[0]].function, name, match, layer, index))
        for member in members:
            ops[member] = dataclasses.replace(ops[member], group=len(groups) - 1)
    return Graph(tuple(ops), tuple(groups), drawn.edges)


def _members(drawn: Graph, kernels: Mapping[int, FinalKernel]) -> dict[int, list[int]]:
    """The ops in no group, by the kernel that each is in."""
    holders: dict[_Origin, list[int]] = collections.defaultdict(list)
    for index, kernel in kernels.items():
        layers = kernel.layers or ("",) * len(kernel.ops)
        places = zip(kernel.ops, layers, strict=True)
        for origin in dict.fromkeys((kernel.model_function, *place) for place in places):
            holders[origin].append(index)
    same: dict[_Origin, list[int]] = collections.defaultdict(list)
    for index, op in enumerate(drawn.ops):
        if op.group is None and op.location != "-":
            same[op.function, op.location, op.layer].append(index)
    found: dict[int, list[int]] = collections.defaultdict(list)
    for origin, members in same.items():
        at = holders.get(origin, [])
        at = at * len(members) if len(at) == 1 else at
        if len(at) == len(members):
            for holder, member in zip(at, members, strict=True):
                found[holder].append(member)
    return {holder: sorted(members) for holder, members in sorted(found.items())}
