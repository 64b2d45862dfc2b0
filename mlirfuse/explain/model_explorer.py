"""The fusion graph as JSON that Model Explorer opens: a graph for each function.

Nodes are the kernels of a compiled program, else ops. Layers of the model and groups are
namespaces, which fold; sizes are metadata of the outputs; the reasons between kernels, or refused
fusions between ops, are overlays of edges, one for each reason. Format: `graph_builder.py` of
PyPI's ai-edge-model-explorer, 0.1.34.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlirfuse.core import Decision, Report
from mlirfuse.explain import graph as graphs
from mlirfuse.explain import kernel_graph
from mlirfuse.explain.graph import Edge, Graph, Op
from mlirfuse.explain.kernels import boundary_lines, exchanged, op_kinds, op_runs, signature
from mlirfuse.explain.plain import decision_of
from mlirfuse.explain.printing import byte_size
from mlirfuse.explain.savings import Savings
from mlirfuse.final_kernels import IREE

_REFUSED_COLOR = "#b45309"


def document(report: Report) -> dict[str, Any]:
    """A collection of graphs, one for each function."""
    graph = kernel_graph.of_report(report)
    functions = dict.fromkeys(op.function for op in graph.ops)
    return {
        "label": f"mlirfuse {report.target}",
        "graphs": [_Function(report, graph, name).entry() for name in functions],
    }


class _Function:
    def __init__(self, report: Report, graph: Graph, name: str) -> None:
        self.report = report
        self.graph = graph
        self.name = name
        self.savings = Savings(report)
        self.ops = [i for i, op in enumerate(graph.ops) if op.function == name]
        self.into: dict[int, list[Edge]] = {}
        for edge in graph.edges:
            self.into.setdefault(edge.target, []).append(edge)

    def entry(self) -> dict[str, Any]:
        overlays = list(self.overlays())
        made: dict[str, Any] = {
            "id": self.name,
            "nodes": [self.node(index) for index in self.ops],
            "groupNodeAttributes": dict(self.attributes()),
        }
        if overlays:
            title = "reasons between kernels" if self.report.kernels else "refused fusions"
            shown = {"name": title, "type": "edge_overlays", "overlays": overlays}
            made["tasksData"] = {
                "edgeOverlaysDataListLeftPane": [shown],
                "edgeOverlaysDataListRightPane": [],
            }
        return made

    def namespace(self, index: int) -> str:
        group = self.graph.groups[index]
        name = f"{group.pass_name} match {group.match}"
        return f"{group.layer}/{name}" if group.layer else name

    def node(self, index: int) -> dict[str, Any]:
        op = self.graph.ops[index]
        outputs = (
            _item(output, {"tensor_shape": tensor.type, "bytes": byte_size(tensor.size)})
            for output, tensor in enumerate(op.outputs)
        )
        return {
            "id": str(index),
            "label": self.label(op),
            "namespace": op.layer if op.group is None else self.namespace(op.group),
            "attrs": _pairs(self.facts(op)),
            "incomingEdges": [
                {
                    "sourceNodeId": str(edge.source),
                    "sourceNodeOutputId": str(edge.output),
                    "targetNodeInputId": str(operand),
                }
                for operand, edge in enumerate(self.into.get(index, ()))
            ],
            "outputsMetadata": list(outputs),
        }

    def label(self, op: Op) -> str:
        if op.kernel is None:
            return op.name
        kinds = op_kinds(self.report.kernels[op.kernel])
        return f"#{op.kernel} {kinds or op.name}"

    def facts(self, op: Op) -> dict[str, str]:
        """The attributes of a kernel, or of an op."""
        if op.kernel is None:
            group = "" if op.group is None else self.namespace(op.group).rpartition("/")[2]
            return {"location": op.location, "layer": op.layer, "group": group}
        kernel = self.report.kernels[op.kernel]
        return {
            "kernel": kernel.name,
            "code": kernel.code,
            "formed by": kernel.pass_name or IREE,
            "tensors": signature(kernel),
            "bytes": byte_size(kernel.bytes),
            "operations": "" if kernel.flops is None else str(kernel.flops),
            "ops": "\n".join(op_runs(kernel)),
        }

    def attributes(self) -> Iterator[tuple[str, dict[str, str]]]:
        for index, group in enumerate(self.graph.groups):
            if group.function == self.name:
                decision = decision_of(self.report, self.name, group.pass_name, group.match)
                yield self.namespace(index), self.worth(decision) if decision else {}

    def worth(self, decision: Decision) -> dict[str, str]:
        """The attributes of a group of ours."""
        saved = byte_size(self.savings.size(decision))
        found = {"ops": str(len(decision.ops)), "traffic saved against stock IREE": saved}
        if time := self.savings.time(decision):
            found["modelled time saved"] = time
        switch = f"--disable-pass={decision.pass_name}@match={decision.match}"
        return found | {"switch": switch}

    def overlays(self) -> Iterator[dict[str, Any]]:
        by_reason: dict[str, list[dict[str, str]]] = {}
        for reason, source, target, label in self.reasons():
            edge = {"sourceNodeId": str(source), "targetNodeId": str(target), "label": label}
            by_reason.setdefault(reason, []).append(edge)
        for reason, edges in by_reason.items():
            yield {"name": reason, "edgeColor": _REFUSED_COLOR, "edges": edges}

    def reasons(self) -> Iterator[tuple[str, int, int, str]]:
        """Why two nodes are two: the reason, both nodes, and a label."""
        for boundary in self.report.boundaries:
            if self.graph.ops[boundary.source].function == self.name:
                label = "\n".join([exchanged(boundary), *boundary_lines(boundary)])
                yield boundary.reason.text, boundary.source, boundary.target, label
        for pair in graphs.refused(self.graph, self.report.decisions):
            one, other = self.graph.ops[pair.source], self.graph.ops[pair.target]
            decision = self.report.decisions[pair.decision]
            together = one.group is not None and one.group == other.group
            if one.function == self.name and not together and decision.reason is not None:
                label = ": ".join(filter(None, (decision.pass_name, decision.detail)))
                yield decision.reason.text, pair.source, pair.target, label


def _item(index: int, attributes: dict[str, str]) -> dict[str, Any]:
    return {"id": str(index), "attrs": _pairs(attributes)}


def _pairs(attributes: dict[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in attributes.items() if value]
