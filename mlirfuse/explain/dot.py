"""The fusion graph in Graphviz' DOT language: layers as clusters, bytes and reasons on the edges.

Nodes are the kernels of a compiled program, else ops, with groups as clusters.
"""

from __future__ import annotations

import colorsys
import dataclasses
import json
from collections.abc import Iterator

from mlirfuse.boundaries import Boundary
from mlirfuse.core import Decision, Report
from mlirfuse.explain import graph as graphs
from mlirfuse.explain import kernel_graph
from mlirfuse.explain.graph import Graph, Op, Refused
from mlirfuse.explain.kernels import boundary_lines, exchanged, label_lines, op_runs
from mlirfuse.explain.plain import decision_of, reason_texts, refusal
from mlirfuse.explain.printing import byte_size, printable
from mlirfuse.explain.savings import Savings

_HUE_STRIDE = 0.618034
"""Distance of the hues of two consecutive passes, in turns of the color wheel."""


@dataclasses.dataclass(slots=True)
class _Layer:
    """A layer of the model: its inner layers, and the groups and ops directly in it."""

    layers: dict[str, _Layer] = dataclasses.field(default_factory=dict)
    groups: list[int] = dataclasses.field(default_factory=list)
    ops: list[int] = dataclasses.field(default_factory=list)

    def at(self, path: str) -> _Layer:
        """The layer of a path, created if missing."""
        layer = self
        for name in path.split("/") if path else ():
            layer = layer.layers.setdefault(name, _Layer())
        return layer


def text(report: Report) -> str:
    """The graph of a report, for `dot -Tsvg`."""
    return "\n".join([*_Writer(report, kernel_graph.of_report(report)).lines(), ""])


class _Writer:
    def __init__(self, report: Report, graph: Graph) -> None:
        self.report = report
        self.graph = graph
        self.members = graph.members()
        self.savings = Savings(report)
        self.clusters = 0
        passes = (group.pass_name for group in graph.groups)
        names = dict.fromkeys([*passes, *(kernel.code for kernel in report.kernels)])
        self.colors = {name: _color(index * _HUE_STRIDE) for index, name in enumerate(names)}

    def lines(self) -> Iterator[str]:
        yield "digraph mlirfuse {"
        yield '  graph [fontname="sans-serif", rankdir=TB];'
        yield '  node [fontname="sans-serif", fontsize=10, shape=box];'
        yield "  node [style=filled, fillcolor=white];"
        yield '  edge [fontname="sans-serif", fontsize=9];'
        functions: dict[str, _Layer] = {}
        for index, op in enumerate(self.graph.ops):
            if op.group is None:
                functions.setdefault(op.function, _Layer()).at(op.layer).ops.append(index)
        for index, group in enumerate(self.graph.groups):
            functions.setdefault(group.function, _Layer()).at(group.layer).groups.append(index)
        for name, layer in functions.items():
            yield from self.cluster(f"@{name}", self.layer(layer), "color=gray60")
        yield from self.edges()
        yield "}"

    def cluster(self, label: str, lines: Iterator[str], *settings: str) -> Iterator[str]:
        self.clusters += 1
        yield f"  subgraph cluster_{self.clusters} {{"
        for setting in (f"label={_quoted(label)}", *settings):
            yield f"    {setting};"
        yield from (f"  {line}" for line in lines)
        yield "  }"

    def layer(self, layer: _Layer) -> Iterator[str]:
        for name, inner in layer.layers.items():
            yield from self.cluster(name, self.layer(inner), "color=gray80", "style=rounded")
        for index in layer.groups:
            yield from self.group(index)
        yield from self.nodes(layer.ops)

    def group(self, index: int) -> Iterator[str]:
        group = self.graph.groups[index]
        decision = decision_of(self.report, group.function, group.pass_name, group.match)
        label = f"{group.pass_name} match {group.match}"
        if decision is not None and (worth := self.savings.text(decision)):
            label += f"\n{worth}"
        fill, border = self.colors[group.pass_name]
        settings = ("style=filled", f'fillcolor="{fill}"', f'color="{border}"')
        yield from self.cluster(label, self.nodes(self.members[index]), *settings)

    def nodes(self, members: list[int]) -> Iterator[str]:
        for index in members:
            yield f"  op{index} [{', '.join(self.node(self.graph.ops[index]))}];"

    def node(self, op: Op) -> list[str]:
        """The settings of a node: of a kernel, or of an op."""
        if op.kernel is None:
            location = "" if op.location == "-" else "\n" + op.location.rpartition("/")[2]
            return [f"label={_quoted(op.name + location)}", f"tooltip={_quoted(op.location)}"]
        kernel = self.report.kernels[op.kernel]
        label = "\n".join([f"#{op.kernel} {kernel.name}", *label_lines(kernel)])
        fill, border = self.colors[kernel.code]
        tooltip = "\n".join(op_runs(kernel))
        colors = [f'fillcolor="{fill}"', f'color="{border}"']
        return [f"label={_quoted(label)}", f"tooltip={_quoted(tooltip)}", *colors]

    def edges(self) -> Iterator[str]:
        refusals: dict[tuple[int, int], list[Refused]] = {}
        for pair in graphs.refused(self.graph, self.report.decisions):
            one, other = self.graph.ops[pair.source].group, self.graph.ops[pair.target].group
            if one is None or one != other:
                refusals.setdefault((pair.source, pair.target), []).append(pair)
        for edge in self.graph.edges:
            tensor = self.graph.ops[edge.source].outputs[edge.output]
            if edge.boundary is not None:
                settings = self.boundary(self.report.boundaries[edge.boundary])
            else:
                reasons = refusals.pop((edge.source, edge.target), [])
                settings = [f"label={_quoted(byte_size(tensor.size))}"]
                settings += self.dotted(reasons) or [f"tooltip={_quoted(tensor.type)}"]
            yield f"  op{edge.source} -> op{edge.target} [{', '.join(settings)}];"
        for (source, target), reasons in refusals.items():
            settings = [*self.dotted(reasons), "dir=none", "constraint=false"]
            yield f"  op{source} -> op{target} [{', '.join(settings)}];"

    def boundary(self, boundary: Boundary) -> list[str]:
        label = f"{byte_size(boundary.bytes)}\n{boundary.reason.code}"
        tooltip = "\n".join([exchanged(boundary), *boundary_lines(boundary)])
        return [f"label={_quoted(label)}", f"tooltip={_quoted(tooltip)}"]

    def dotted(self, pairs: list[Refused]) -> list[str]:
        if not pairs:
            return []
        decisions = [self.report.decisions[pair.decision] for pair in pairs]
        tooltip = "\n".join(dict.fromkeys(map(_refusal_with_hint, decisions)))
        return ["style=dotted", 'color="#b45309"', f"tooltip={_quoted(tooltip)}"]


def _refusal_with_hint(decision: Decision) -> str:
    hint = f" (hint: {reason_texts(decision)[1]})" if decision.reason else ""
    return f"{decision.pass_name}: {refusal(decision)}{hint}"


def _color(hue: float) -> tuple[str, str]:
    """A light and a dark color of a hue, given in turns of the color wheel."""
    shades = (colorsys.hls_to_rgb(hue % 1.0, light, 0.5) for light in (0.92, 0.45))
    fill, border = ("#" + "".join(f"{round(255 * c):02x}" for c in shade) for shade in shades)
    return fill, border


def _quoted(value: str) -> str:
    """A quoted string of DOT, which has JSON's escapes."""
    escaped = "\n".join(printable(line) for line in value.split("\n"))
    return json.dumps(escaped, ensure_ascii=False)
