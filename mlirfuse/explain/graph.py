"""The grouped module as a graph: its ops, the tensors between them, groups, layers of the model.

Reshapes, slices, constants and whatever else makes no dispatch of its own is left out: an edge
leads from the op that computes a tensor to the op that computes with it. `--graph`, the HTML
report and `Report.graph` all show this graph.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from iree.compiler import ir

from mlirfuse.core import Decision, Kind, MlirfuseError, Report
from mlirfuse.explain.plain import is_group
from mlirfuse.structured.ir import marks, ops

_COMPUTES = ("linalg.", "iree_linalg_ext.", "flow.dispatch", "hal.dispatch", "tensor.pad")
_FREE = frozenset({"linalg.fill", "linalg.yield"})
_OPAQUE_GROUPS = ("flow.dispatch.workgroups", "hal.dispatch.extern")

_MOST_SIBLINGS = 4
"""Ops up to which a refused candidate that no tensor connects is drawn: more would be a guess."""


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """A tensor that an op makes.

    Attributes:
      type: as MLIR prints it.
      size: bytes; None when the shape is dynamic.
    """

    type: str
    size: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Op:
    """An op that computes.

    Attributes:
      function: symbol name of the function.
      name: the op's name.
      location: its place in the model's source; `-` when it has none.
      layer: the part of the model that it comes from, `blocks/0/norm`; empty when unknown.
      group: index of its group; None when it is in none.
      outputs: the tensors that it makes.
    """

    function: str
    name: str
    location: str
    layer: str
    group: int | None
    outputs: tuple[Output, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Edge:
    """A tensor that one op makes and another reads.

    Attributes:
      source: index of the op that makes it.
      output: which of that op's tensors it is.
      target: index of the op that reads it.
    """

    source: int
    output: int
    target: int


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """A group: what names the decision that made it.

    Attributes:
      function: symbol name of the function.
      pass_name: the pass.
      match: number of the pass's match.
      layer: the part of the model that all its ops come from.
    """

    function: str
    pass_name: str
    match: int
    layer: str


@dataclasses.dataclass(frozen=True, slots=True)
class Graph:
    """Ops in program order, groups in the order of their first op, and the edges."""

    ops: tuple[Op, ...] = ()
    groups: tuple[Group, ...] = ()
    edges: tuple[Edge, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The graph in the form that `Report.graph` keeps."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Graph:
        """Reads back what `to_dict` wrote."""
        made = (
            Op(**(op | {"outputs": tuple(Output(**o) for o in op["outputs"])}))
            for op in entry["ops"]
        )
        groups = (Group(**group) for group in entry["groups"])
        return cls(tuple(made), tuple(groups), tuple(Edge(**edge) for edge in entry["edges"]))

    def members(self) -> list[list[int]]:
        """For each group the indices of its ops."""
        found: list[list[int]] = [[] for _ in self.groups]
        for index, op in enumerate(self.ops):
            if op.group is not None:
                found[op.group].append(index)
        return found


def of_report(report: Report) -> Graph:
    """The report's graph; where it has none, the ops of each group alone, without tensors."""
    if report.graph is not None:
        return Graph.from_dict(report.graph)
    made: list[Op] = []
    groups: list[Group] = []
    for decision in report.decisions:
        if is_group(decision) and decision.match is not None:
            for name, location in zip(decision.op_names, decision.ops, strict=True):
                made.append(Op(decision.function, name, location, "", len(groups), ()))
            groups.append(Group(decision.function, decision.pass_name, decision.match, ""))
    return Graph(tuple(made), tuple(groups))


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
        found = of_module(module)
    # `-` is the file of a text that was parsed here: no place in the model.
    placeless = (
        dataclasses.replace(op, location="-") if op.location.startswith("-:") else op
        for op in found.ops
    )
    return dataclasses.replace(found, ops=tuple(placeless))


def of_module(module: ir.Module) -> Graph:
    """The graph of a module that the engine returned."""
    made = _Maker()
    for function in ops.functions(module):
        made.function(function)
    return made.graph()


_Origins = dict[tuple[int, int], None]
"""Tensors that a value comes from: op and output, in order."""


class _Maker:
    def __init__(self) -> None:
        self.symbol = ""
        self.ops: list[Op] = []
        self.groups: list[tuple[str, str, int]] = []
        self.edges: dict[Edge, None] = {}
        self.origins: dict[ir.Value, _Origins] = {}

    def graph(self) -> Graph:
        layers: list[list[str]] = [[] for _ in self.groups]
        for op in self.ops:
            if op.group is not None:
                layers[op.group].append(op.layer)
        groups = (Group(*g, common_layer(of)) for g, of in zip(self.groups, layers, strict=True))
        return Graph(tuple(self.ops), tuple(groups), tuple(self.edges))

    def function(self, function: ir.Operation) -> None:
        self.symbol = ops.symbol_name(function)
        self.origins = {}
        for block in function.regions[0].blocks:
            self.block(block, None)

    def block(self, block: ir.Block, group: int | None) -> ir.Operation:
        """Adds the block's ops; returns its terminator."""
        op = block.owner.operation
        for view in block.operations:
            op = view.operation
            if op.name == ops.REGION:
                self.region(op, group)
            elif op.name.startswith("scf.") and op.regions:
                self.control_flow(op, group)
            else:
                self.op(op, group)
        return op

    def region(self, op: ir.Operation, group: int | None) -> None:
        last = self.block(ops.body(op), self.new_group(op) if group is None else group)
        for result, value in zip(op.results, last.operands, strict=True):
            self.origins[result] = self.origins.get(value, {})

    def control_flow(self, op: ir.Operation, group: int | None) -> None:
        """What goes in may come out: which iteration's value it is, nobody asks."""
        read = self.read(op.operands)
        for region in op.regions:
            for block in region.blocks:
                self.origins.update((argument, read) for argument in block.arguments)
                read = read | self.read(self.block(block, group).operands)
        self.origins.update((result, read) for result in op.results)

    def op(self, op: ir.Operation, group: int | None) -> None:
        read = self.read(ops.external_operands(op))
        if not _computes(op):
            self.origins.update((result, read) for result in op.results if read)
            return
        if group is None and op.name in _OPAQUE_GROUPS:
            group = self.new_group(op)
        number = len(self.ops)
        self.ops.append(_op(self.symbol, op, group))
        self.edges.update((Edge(source, output, number), None) for source, output in read)
        for output, result in enumerate(op.results):
            self.origins[result] = {(number, output): None}

    def read(self, values: Iterable[ir.Value]) -> _Origins:
        return {tensor: None for value in values for tensor in self.origins.get(value, ())}

    def new_group(self, op: ir.Operation) -> int | None:
        """Makes a group of an op that the engine marked as one."""
        if "mlirfuse.pass" not in op.attributes:
            return None
        name = ir.StringAttr(op.attributes["mlirfuse.pass"]).value
        match = ir.IntegerAttr(op.attributes["mlirfuse.match"]).value
        self.groups.append((self.symbol, name, match))
        return len(self.groups) - 1


def _computes(op: ir.Operation) -> bool:
    named = op.name.startswith(_COMPUTES) and op.name not in _FREE
    return named and any(ops.ranked(result) is not None for result in op.results)


def _op(function: str, op: ir.Operation, group: int | None) -> Op:
    place = ops.location_name(op.location)
    outputs = tuple(Output(str(result.type), _size(result)) for result in op.results)
    return Op(function, op.name, place, marks.layer(op), group, outputs)


def _size(value: ir.Value) -> int | None:
    return None if None in ops.shape(value) else ops.num_bytes(value)


def common_layer(layers: Sequence[str]) -> str:
    """The innermost layer that all of these are in."""
    columns = zip(*(layer.split("/") for layer in layers), strict=False)
    same = itertools.takewhile(lambda column: len(set(column)) == 1, columns)
    return "/".join(column[0] for column in same)


# --- what was refused, and in which order --------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """Two ops that a pass wanted in one group.

    Attributes:
      source: index of the op that comes first.
      target: index of the other.
      decision: index of the decision that kept them apart.
      tensor: whether the second reads what the first makes.
    """

    source: int
    target: int
    decision: int
    tensor: bool


def refused(graph: Graph, decisions: Sequence[Decision]) -> list[Refused]:
    """The pairs of ops that refused candidates hold, by the ops' places in the model."""
    places: dict[tuple[str, str], dict[int, None]] = {}
    alike: dict[Decision, int] = {}
    for number, decision in enumerate(decisions):
        plain = dataclasses.replace(decision, match=None)
        if not decision.taken and plain not in alike:
            alike[plain] = number
            for location in decision.ops:
                if location != "-":
                    places.setdefault((decision.function, location), {})[number] = None

    def at(index: int) -> dict[int, None]:
        op = graph.ops[index]
        return places.get((op.function, op.location), {})

    found: dict[tuple[int, int, int], Refused] = {}
    for edge in graph.edges:
        for number in at(edge.source):
            same = graph.ops[edge.source].location == graph.ops[edge.target].location
            held = decisions[number].ops.count(graph.ops[edge.source].location)
            if number in at(edge.target) and held > same:
                pair = Refused(edge.source, edge.target, number, True)
                found[edge.source, edge.target, number] = pair
    for pair in _siblings(graph, alike, decisions):
        found.setdefault((pair.source, pair.target, pair.decision), pair)
    return list(found.values())


def _siblings(
    graph: Graph, alike: Mapping[Decision, int], decisions: Sequence[Decision]
) -> Iterator[Refused]:
    standing: dict[tuple[str, str], list[int]] = {}
    for index, op in enumerate(graph.ops):
        standing.setdefault((op.function, op.location), []).append(index)
    for number in alike.values():
        decision = decisions[number]
        if decision.kind is Kind.SIBLING:
            touched = sorted(
                {i for place in decision.ops for i in standing.get((decision.function, place), ())}
            )
            if len(touched) <= _MOST_SIBLINGS:
                for first, second in itertools.pairwise(touched):
                    yield Refused(first, second, number, False)


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A group that was formed, or rewrites of one pass in a row.

    Attributes:
      decisions: indices of the decisions.
      group: index of the group; None for rewrites.
    """

    decisions: tuple[int, ...]
    group: int | None


def steps(graph: Graph, decisions: Sequence[Decision]) -> list[Step]:
    """What was done to the module, in order."""
    numbers = {(g.function, g.pass_name, g.match): index for index, g in enumerate(graph.groups)}
    found: list[Step] = []
    for number, decision in enumerate(decisions):
        if not decision.taken:
            continue
        key = (decision.function, decision.pass_name, decision.match or 0)
        if is_group(decision):
            found.append(Step((number,), numbers.get(key)))
            continue
        last = decisions[found[-1].decisions[-1]] if found else decision
        if found and last.pass_name == decision.pass_name and not is_group(last):
            found[-1] = Step((*found[-1].decisions, number), None)
        else:
            found.append(Step((number,), None))
    return found
