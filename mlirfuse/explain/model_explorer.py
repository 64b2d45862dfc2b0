"""The fusion graph as JSON that Model Explorer opens: a graph for each function.

Layers of the model and groups are namespaces, which fold; sizes are metadata of the outputs;
refused fusions are overlays of edges, one for each reason. Format: `graph_builder.py` of PyPI's
ai-edge-model-explorer, 0.1.34.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlirfuse.core import Decision, Reason, Report
from mlirfuse.explain import final_groups
from mlirfuse.explain import graph as graphs
from mlirfuse.explain.graph import Edge, Graph
from mlirfuse.explain.plain import decision_of
from mlirfuse.explain.printing import byte_size
from mlirfuse.explain.savings import Savings

_REFUSED_COLOR = "#b45309"


def document(report: Report) -> dict[str, Any]:
    """A collection of graphs, one for each function."""
    graph = final_groups.of_report(report)
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
            shown = {"name": "refused fusions", "type": "edge_overlays", "overlays": overlays}
            made["tasksData"] = {
                "edgeOverlaysDataListLeftPane": [shown],
                "edgeOverlaysDataListRightPane": [],
            }
        return made

    def namespace(self, index: int) -> str:
        group = self.graph.groups[index]
        name = final_groups.title(group, self.report)
        return f"{group.layer}/{name}" if group.layer else name

    def node(self, index: int) -> dict[str, Any]:
        op = self.graph.ops[index]
        attributes = {"location": op.location, "layer": op.layer}
        if op.group is not None:
            attributes["group"] = self.namespace(op.group).rpartition("/")[2]
        outputs = (
            _item(output, {"tensor_shape": tensor.type, "bytes": byte_size(tensor.size)})
            for output, tensor in enumerate(op.outputs)
        )
        return {
            "id": str(index),
            "label": op.name,
            "namespace": op.layer if op.group is None else self.namespace(op.group),
            "attrs": _pairs(attributes),
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
        by_reason: dict[Reason, list[dict[str, str]]] = {}
        for pair in graphs.refused(self.graph, self.report.decisions):
            one, other = self.graph.ops[pair.source], self.graph.ops[pair.target]
            decision = self.report.decisions[pair.decision]
            together = one.group is not None and one.group == other.group
            if one.function == self.name and not together and decision.reason is not None:
                by_reason.setdefault(decision.reason, []).append(
                    {
                        "sourceNodeId": str(pair.source),
                        "targetNodeId": str(pair.target),
                        "label": ": ".join(filter(None, (decision.pass_name, decision.detail))),
                    }
                )
        for reason, edges in by_reason.items():
            yield {"name": reason.text, "edgeColor": _REFUSED_COLOR, "edges": edges}


def _item(index: int, attributes: dict[str, str]) -> dict[str, Any]:
    return {"id": str(index), "attrs": _pairs(attributes)}


def _pairs(attributes: dict[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in attributes.items() if value]
