"""The grouped module as a graph: its ops, the tensors between them, groups, layers of the model.

Reshapes, slices, constants and other ops without a dispatch of their own are left out: an edge
leads from the producer of a tensor to its user. `Report.graph` holds this graph; that of a compiled
program is made by `kernel_graph`.
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

_COMPUTING_PREFIXES = ("linalg.", "iree_linalg_ext.", "flow.dispatch", "hal.dispatch", "tensor.pad")
_NOT_COMPUTING = frozenset({"linalg.fill", "linalg.yield"})
_OPAQUE_GROUPS = ("flow.dispatch.workgroups", "hal.dispatch.extern")

_MAX_SIBLINGS = 4
"""Maximum number of ops of a refused sibling candidate that is drawn: with more, the pairs that it
meant would be a guess."""


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """A result of an op.

    Attributes:
      type: its type in MLIR's spelling.
      size: its size in bytes; None for a dynamic shape.
    """

    type: str
    size: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Op:
    """An op that computes.

    Attributes:
      function: symbol name of the function.
      name: the op's name.
      location: its location in the model's source; `-` when it has none.
      layer: the part of the model that it comes from, e.g. `blocks/0/norm`; empty when unknown.
      group: index of its group; None for an op in no group.
      outputs: its results.
      kernel: index of the kernel of the final program that it stands for; None for an op.
    """

    function: str
    name: str
    location: str
    layer: str
    group: int | None
    outputs: tuple[Output, ...]
    kernel: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Edge:
    """A tensor between two ops.

    Attributes:
      source: index of its producer.
      output: index of the producer's result.
      target: index of its user.
      boundary: index of the boundary between two kernels of the final program; None between ops.
    """

    source: int
    output: int
    target: int
    boundary: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """A group, with the identity of the decision that formed it.

    Attributes:
      function: symbol name of the function.
      pass_name: name of the pass.
      match: ordinal of the pass's match.
      layer: the innermost part of the model that all its ops come from.
    """

    function: str
    pass_name: str
    match: int
    layer: str


@dataclasses.dataclass(frozen=True, slots=True)
class Graph:
    """Ops in program order, groups of passes in the order of their first op, and the edges."""

    ops: tuple[Op, ...] = ()
    groups: tuple[Group, ...] = ()
    edges: tuple[Edge, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The graph as `Report.graph` stores it."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Graph:
        """The graph of a dictionary from `to_dict`."""
        made = (
            Op(**(op | {"outputs": tuple(Output(**o) for o in op["outputs"])}))
            for op in entry["ops"]
        )
        groups = (Group(**group) for group in entry["groups"])
        return cls(tuple(made), tuple(groups), tuple(Edge(**edge) for edge in entry["edges"]))

    @property
    def has_kernels(self) -> bool:
        """Whether its ops are the kernels of a program, and its edges boundaries with reasons."""
        return any(op.kernel is not None for op in self.ops)

    def members(self) -> list[list[int]]:
        """The indices of the ops of each group."""
        found: list[list[int]] = [[] for _ in self.groups]
        for index, op in enumerate(self.ops):
            if op.group is not None:
                found[op.group].append(index)
        return found


def of_report(report: Report) -> Graph:
    """The report's graph; if it has none, the ops of the groups without edges."""
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
    # Locations in the text that was parsed here, `-`, are none in the model.
    located = (
        dataclasses.replace(op, location="-") if op.location.startswith("-:") else op
        for op in found.ops
    )
    return dataclasses.replace(found, ops=tuple(located))


def of_module(module: ir.Module) -> Graph:
    """The graph of a module that the engine returned."""
    builder = _GraphBuilder()
    for function in ops.functions(module):
        builder.function(function)
    return builder.graph()


_Origins = dict[tuple[int, int], None]
"""Tensors that a value depends on: indices of op and result, in order."""


class _GraphBuilder:
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
        """Lets results of a loop or branch depend on all that goes in or is yielded."""
        used = self.sources(op.operands)
        for region in op.regions:
            for block in region.blocks:
                self.origins.update((argument, used) for argument in block.arguments)
                used = used | self.sources(self.block(block, group).operands)
        self.origins.update((result, used) for result in op.results)

    def op(self, op: ir.Operation, group: int | None) -> None:
        used = self.sources(ops.external_operands(op))
        if not _computes(op):
            self.origins.update((result, used) for result in op.results if used)
            return
        if group is None and op.name in _OPAQUE_GROUPS:
            group = self.new_group(op)
        index = len(self.ops)
        self.ops.append(_op(self.symbol, op, group))
        self.edges.update((Edge(source, output, index), None) for source, output in used)
        for output, result in enumerate(op.results):
            self.origins[result] = {(index, output): None}

    def sources(self, values: Iterable[ir.Value]) -> _Origins:
        return {tensor: None for value in values for tensor in self.origins.get(value, ())}

    def new_group(self, op: ir.Operation) -> int | None:
        """Adds the group of an op that the engine marked; None for other ops."""
        if "mlirfuse.pass" not in op.attributes:
            return None
        name = ir.StringAttr(op.attributes["mlirfuse.pass"]).value
        match = ir.IntegerAttr(op.attributes["mlirfuse.match"]).value
        self.groups.append((self.symbol, name, match))
        return len(self.groups) - 1


def _computes(op: ir.Operation) -> bool:
    named = op.name.startswith(_COMPUTING_PREFIXES) and op.name not in _NOT_COMPUTING
    return named and any(ops.ranked(result) is not None for result in op.results)


def _op(function: str, op: ir.Operation, group: int | None) -> Op:
    location = ops.location_name(op.location)
    outputs = tuple(Output(str(result.type), _size(result)) for result in op.results)
    return Op(function, op.name, location, marks.layer(op), group, outputs)


def _size(value: ir.Value) -> int | None:
    return None if None in ops.shape(value) else ops.num_bytes(value)


def common_layer(layers: Sequence[str]) -> str:
    """The innermost layer that contains all of these layers."""
    columns = zip(*(layer.split("/") for layer in layers), strict=False)
    same = itertools.takewhile(lambda column: len(set(column)) == 1, columns)
    return "/".join(column[0] for column in same)


# --- refused candidates, and the order of rewrites ------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """Two ops of a refused candidate.

    Attributes:
      source: index of the op that comes first.
      target: index of the other op.
      decision: index of the decision that refused the candidate.
      tensor: whether the second op uses a result of the first.
    """

    source: int
    target: int
    decision: int
    tensor: bool


def refused(graph: Graph, decisions: Sequence[Decision]) -> list[Refused]:
    """The pairs of ops of refused candidates, found by their locations in the model.

    A graph of kernels has none: its edges have the reasons.
    """
    if graph.has_kernels:
        return []
    by_location: dict[tuple[str, str], dict[int, None]] = {}
    distinct: dict[Decision, int] = {}
    for index, decision in enumerate(decisions):
        plain = dataclasses.replace(decision, match=None)
        if not decision.taken and plain not in distinct:
            distinct[plain] = index
            for location in decision.ops:
                if location != "-":
                    by_location.setdefault((decision.function, location), {})[index] = None

    def at(index: int) -> dict[int, None]:
        op = graph.ops[index]
        return by_location.get((op.function, op.location), {})

    found: dict[tuple[int, int, int], Refused] = {}
    for edge in graph.edges:
        for index in at(edge.source):
            same = graph.ops[edge.source].location == graph.ops[edge.target].location
            count = decisions[index].ops.count(graph.ops[edge.source].location)
            if index in at(edge.target) and count > same:
                pair = Refused(edge.source, edge.target, index, True)
                found[edge.source, edge.target, index] = pair
    for pair in _siblings(graph, distinct.values(), decisions):
        found.setdefault((pair.source, pair.target, pair.decision), pair)
    return list(found.values())


def _siblings(
    graph: Graph, distinct: Iterable[int], decisions: Sequence[Decision]
) -> Iterator[Refused]:
    at: dict[tuple[str, str], list[int]] = {}
    for index, op in enumerate(graph.ops):
        at.setdefault((op.function, op.location), []).append(index)
    for refusal in distinct:
        decision = decisions[refusal]
        if decision.kind is Kind.SIBLING:
            touched = sorted(
                {i for where in decision.ops for i in at.get((decision.function, where), ())}
            )
            if len(touched) <= _MAX_SIBLINGS:
                for first, second in itertools.pairwise(touched):
                    yield Refused(first, second, refusal, False)


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """The formation of a group, or consecutive rewrites of one pass.

    Attributes:
      decisions: indices of the decisions.
      group: index of the group; None for rewrites.
    """

    decisions: tuple[int, ...]
    group: int | None


def steps(graph: Graph, decisions: Sequence[Decision]) -> list[Step]:
    """The groups and rewrites of a module in order of application; none in a graph of kernels."""
    if graph.has_kernels:
        return []
    group_of = {(g.function, g.pass_name, g.match): index for index, g in enumerate(graph.groups)}
    found: list[Step] = []
    for index, decision in enumerate(decisions):
        if not decision.taken:
            continue
        key = (decision.function, decision.pass_name, decision.match or 0)
        if is_group(decision):
            found.append(Step((index,), group_of.get(key)))
            continue
        last = decisions[found[-1].decisions[-1]] if found else decision
        if found and last.pass_name == decision.pass_name and not is_group(last):
            found[-1] = Step((*found[-1].decisions, index), None)
        else:
            found.append(Step((index,), None))
    return found
