"""The grouped module as a graph: groups and remaining ops as nodes, the tensors between as edges.

Reshapes, slices, constants and whatever else makes no dispatch of its own is left out: an edge
leads from the op that computes a tensor to the op that computes with it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from iree.compiler import ir

from mlirfuse.core import MlirfuseError, Report
from mlirfuse.explain.plain import is_group
from mlirfuse.structured import ops

_COMPUTES = ("linalg.", "iree_linalg_ext.", "flow.dispatch", "hal.dispatch", "scf.", "tensor.pad")
_FREE = frozenset({"linalg.fill"})
_GROUPS = ("flow.dispatch.", "hal.dispatch.")


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """A group, or an op that is in none.

    Attributes:
      function: symbol name of the function.
      name: the pass that made the group, or the op's name.
      match: number of the pass's match, which names the decision with the ops inside; None for an
        op that is in no group.
      location: of an op that is in no group, its place in the model's source.
    """

    function: str
    name: str
    match: int | None
    location: str


@dataclasses.dataclass(frozen=True, slots=True)
class Edge:
    """A tensor that one node makes and another reads.

    Attributes:
      source: index of the node that makes it.
      target: index of the node that reads it.
      size: bytes; None when the shape is dynamic.
    """

    source: int
    target: int
    size: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in program order, and the edges between them."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def to_dict(self) -> dict[str, Any]:
        """The graph in the form that `Report.graph` keeps."""
        return dataclasses.asdict(self)


def of_report(report: Report) -> Graph:
    """The groups alone, in the order of the decisions, where no module is at hand."""
    nodes = tuple(
        Node(d.function, d.pass_name, d.match, "-") for d in report.decisions if is_group(d)
    )
    return Graph(nodes, ())


def of_text(text: str) -> Graph:
    """The graph of a module that the engine returned, printed with or without its weights.

    Raises:
      MlirfuseError: the text is not MLIR.
    """
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        try:
            module = ir.Module.parse(text)
        except ir.MLIRError as error:
            line = str(error).splitlines()[0]
            raise MlirfuseError(f"cannot draw the fused module: {line}") from error
        return of_module(module)


def of_module(module: ir.Module) -> Graph:
    """The graph of a module that the engine returned."""
    nodes: list[Node] = []
    edges: dict[tuple[int, int], int | None] = {}
    for function in ops.functions(module):
        _add_function(function, nodes, edges)
    return Graph(
        tuple(nodes), tuple(Edge(source, target, size) for (source, target), size in edges.items())
    )


_Origins = dict[int, int | None]
"""Nodes that a value comes from, with the bytes of the tensor that left each."""


def _add_function(
    function: ir.Operation, nodes: list[Node], edges: dict[tuple[int, int], int | None]
) -> None:
    symbol = ops.symbol_name(function)
    origins: dict[ir.Value, _Origins] = {}
    for block in function.regions[0].blocks:
        for view in block.operations:
            op = view.operation
            read: _Origins = {}
            for value in ops.external_operands(op):
                read |= origins.get(value, {})
            if not _computes(op):
                origins.update((result, read) for result in op.results if read)
                continue
            number = len(nodes)
            nodes.append(_node(symbol, op))
            edges.update(((source, number), size) for source, size in read.items())
            origins.update((result, {number: _size(result)}) for result in op.results)


def _computes(op: ir.Operation) -> bool:
    named = op.name.startswith(_COMPUTES) and op.name not in _FREE
    return named and any(ops.ranked(result) is not None for result in op.results)


def _size(value: ir.Value) -> int | None:
    return None if None in ops.shape(value) else ops.num_bytes(value)


def _node(function: str, op: ir.Operation) -> Node:
    # A rewrite that only prepares groups marks plain ops.
    if op.name.startswith(_GROUPS) and "mlirfuse.pass" in op.attributes:
        name = ir.StringAttr(op.attributes["mlirfuse.pass"]).value
        return Node(function, name, ir.IntegerAttr(op.attributes["mlirfuse.match"]).value, "-")
    location = ops.location_name(op.location)
    # `-` is the file of a text that was parsed here: no place in the model.
    return Node(function, op.name, None, "-" if location.startswith("-:") else location)
