"""Cuts a graph into parts that a program computes each, and ops that PyTorch runs between them.

    y = addmm(b, x, w); z = mylib.op(y); return relu(addmm(c, z, v))
  becomes
    y = part_0(b, x, w); z = mylib.op(y); return part_1(c, z, v)

Parts are as large as they can be without a cycle: no op outside is both a user and a producer of a
part. PyTorch's partitioner finds them. Ops that draw random numbers or have effects keep their
order.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import operator
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_nodes import (
    is_check,
    is_custom,
    is_number,
    is_random,
    is_size,
    tensors,
)

if TYPE_CHECKING:
    import torch

MIN_COMPUTING_OPS = 2
"""Computing ops that make a part worth a program: one op alone PyTorch runs as fast."""

PREFIX = "part_"
"""Start of the names of parts."""

_ORIGIN = "mlirfuse_origin"
_AFTER = "mlirfuse_after"

_VIEWS = frozenset(
    {
        *("alias", "as_strided", "detach", "diagonal", "expand", "getitem", "permute", "reshape"),
        *("select", "slice", "split", "split_with_sizes", "squeeze", "t", "transpose", "unbind"),
        *("unfold", "unsqueeze", "view"),
    }
)
"""Ops that move no data in PyTorch."""

_CONTRACTIONS = frozenset(
    {
        *("addbmm", "addmm", "addmv", "baddbmm", "bmm", "convolution", "dot", "einsum", "linear"),
        *("matmul", "mm", "mv", "scaled_dot_product_attention"),
    }
)
"""Ops that are worth a program without a neighbor."""


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A part of a graph.

    Attributes:
      name: `part_0`, ...; the name of its call in the outer graph.
      module: the part as a function, which returns a tuple.
      nodes: its nodes in the graph that was cut, in their order.
      arguments: for each argument of the part, the index of the graph's argument that it is; None
        for a value that the graph computes.
    """

    name: str
    module: torch.fx.GraphModule
    nodes: tuple[torch.fx.Node, ...]
    arguments: tuple[int | None, ...]

    @property
    def key(self) -> frozenset[str]:
        """The names of the nodes, which decide everything else."""
        return frozenset(node.name for node in self.nodes)


@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """A graph that was cut.

    Attributes:
      outer: the graph that calls the parts, and the ops that PyTorch runs.
      parts: the parts, in the order of their calls.
      too_small: computing nodes of parts that are not worth a program; PyTorch runs them.
    """

    outer: torch.fx.GraphModule
    parts: tuple[Part, ...]
    too_small: tuple[torch.fx.Node, ...]


def is_op(node: torch.fx.Node) -> bool:
    """Whether a node is an op of the model: no access to an item, no size, no check."""
    return node.op == "call_function" and not (
        _packet(node) == "getitem" or is_size(node) or is_check(node)
    )


def split(module: torch.fx.GraphModule, left: Collection[str]) -> Split:
    """Cuts a graph, which stays as it is.

    Args:
      module: a graph of aten ops without mutation.
      left: names of nodes that PyTorch is to run.
    """
    copy, originals = _copied(module)
    with _kept_order(copy, left):
        kept, too_small = [], []
        for proposed in _proposed(copy, left):
            nodes = _without_outer_views(proposed)
            if _is_worth_a_program(nodes):
                kept.append(nodes)
            else:
                too_small += [originals[node.meta[_ORIGIN]] for node in nodes if _computes(node)]
        parts = _fused(copy, kept, originals)
    copy.recompile()
    return Split(copy, parts, tuple(too_small))


def extract(module: torch.fx.GraphModule, nodes: Iterable[torch.fx.Node]) -> Part:
    """Consecutive ops of a part as a part, for a trial; the graph stays as it is."""
    names = {node.name for node in nodes}
    copy, originals = _copied(module)
    chosen: set[torch.fx.Node] = set()
    for node in copy.graph.nodes:
        is_item = _packet(node) == "getitem" and node.args[0] in chosen
        if is_item or node.meta[_ORIGIN] in names:
            chosen.add(node)
    chosen |= {n for n in copy.graph.find_nodes(op="get_attr") if set(n.users) <= chosen}
    (part,) = _fused(copy, [_ordered(chosen)], originals)
    return part


def copied(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy with the tensors of the original."""
    return _copied(module)[0]


def _copied(
    module: torch.fx.GraphModule,
) -> tuple[torch.fx.GraphModule, dict[str, torch.fx.Node]]:
    """A copy, whose nodes know the names of the originals, and these by their names.

    A constant is copied for each of its users: it belongs to the part of that user.
    """
    import torch

    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    results, output = graph.graph_copy(module.graph, copies, return_output_node=True)
    graph.output(results).meta.update(output.meta)
    copies[output] = graph.output_node()
    for original, node in copies.items():
        node.meta[_ORIGIN] = original.name
    for constant in graph.find_nodes(op="get_attr"):
        for user in list(constant.users)[1:]:
            with graph.inserting_after(constant):
                user.replace_input_with(constant, graph.node_copy(constant))
    return torch.fx.GraphModule(module, graph), {node.name: node for node in copies}


def _packet(node: torch.fx.Node) -> str:
    """The name of an op without its namespace and overload; empty for no op of aten."""
    if node.target is operator.getitem:
        return "getitem"
    if getattr(node.target, "namespace", "") != "aten":
        return ""
    return str(node.target.overloadpacket.__name__)


def _computes(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and not is_number(node) and _packet(node) not in _VIEWS


def _is_worth_a_program(nodes: Sequence[torch.fx.Node]) -> bool:
    inside = set(nodes)
    takes_tensor = any(True for node in _inputs(nodes) for _ in tensors(node))
    is_read = any(user not in inside for node in nodes for user in node.users)
    computing = [_packet(node) for node in nodes if _computes(node)]
    enough = len(computing) >= MIN_COMPUTING_OPS or any(op in _CONTRACTIONS for op in computing)
    return takes_tensor and is_read and enough


def _inputs(nodes: Collection[torch.fx.Node]) -> dict[torch.fx.Node, None]:
    """The nodes outside whose values these nodes read."""
    inside = set(nodes)
    return {i: None for node in nodes for i in node.all_input_nodes if i not in inside}


def _ordered(nodes: Iterable[torch.fx.Node]) -> list[torch.fx.Node]:
    """The nodes in the order of their graph."""
    chosen = set(nodes)
    return [node for node in next(iter(chosen)).graph.nodes if node in chosen] if chosen else []


def _without_outer_views(nodes: Sequence[torch.fx.Node]) -> list[torch.fx.Node]:
    """The nodes without views that no other of them reads: PyTorch makes those without a copy.

    Numbers are left out too: each part computes its own.
    """
    inside = {node: None for node in nodes if not is_number(node)}
    for node in reversed(list(inside)):
        is_free = node.op == "get_attr" or _packet(node) in _VIEWS - {"getitem"}
        if is_free and not any(user in inside for user in node.users):
            del inside[node]
    return list(inside)


def _proposed(module: torch.fx.GraphModule, left: Collection[str]) -> list[list[torch.fx.Node]]:
    """The nodes of each part, in the order of the graph."""
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    class Support(OperatorSupportBase):  # type: ignore[misc]
        def is_node_supported(self, _submodules: Any, node: torch.fx.Node) -> bool:
            if node.op == "get_attr":
                return all(map(self.computes, node.users))
            return self.computes(node)

        def computes(self, node: torch.fx.Node) -> bool:
            if node.op != "call_function" or is_check(node):
                return False
            if is_number(node):
                return is_size(node)
            if _packet(node) == "getitem":
                return self.computes(node.args[0])
            return node.meta[_ORIGIN] not in left

    partitioner = CapabilityBasedPartitioner(module, Support(), allows_single_node_partition=True)
    proposed = [_ordered(partition.nodes) for partition in partitioner.propose_partitions()]
    order = {node: index for index, node in enumerate(module.graph.nodes)}
    return sorted(proposed, key=lambda nodes: order[nodes[0]])


@contextlib.contextmanager
def _kept_order(module: torch.fx.GraphModule, left: Collection[str]) -> Iterator[None]:
    """A block in which each op with an effect that PyTorch runs is an argument of the next one."""
    ordered = [
        node
        for node in module.graph.nodes
        if node.meta[_ORIGIN] in left and (is_random(node) or is_custom(node) or node.is_impure())
    ]
    for before, node in itertools.pairwise(ordered):
        node.kwargs = {**node.kwargs, _AFTER: before}
    try:
        yield
    finally:
        for node in module.graph.nodes:  # the graph may be another one by now
            node.kwargs = {key: value for key, value in node.kwargs.items() if key != _AFTER}


def _fused(
    module: torch.fx.GraphModule,
    chosen: Sequence[list[torch.fx.Node]],
    originals: dict[str, torch.fx.Node],
) -> tuple[Part, ...]:
    """Puts a call of each part into the graph, and returns the parts."""
    from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

    graph = module.graph
    members = [
        tuple(originals[n.meta[_ORIGIN]] for n in nodes if n.op == "call_function")
        for nodes in chosen
    ]
    parts = [dict.fromkeys([*nodes, *_own_numbers(graph, nodes)]) for nodes in chosen]
    for node in reversed(graph.nodes):
        if is_size(node) and not node.users:
            graph.erase_node(node)
    fuse_by_partitions(module, parts, prefix=PREFIX, always_return_tuple=True)
    graph = module.graph  # sorted, which makes another one
    index = {node: i for i, node in enumerate(graph.find_nodes(op="placeholder"))}
    made = []
    for call in graph.find_nodes(op="call_module"):
        nodes = members[int(call.target.removeprefix(PREFIX))]
        inner = module.get_submodule(call.target)
        made.append(Part(call.target, inner, nodes, tuple(map(index.get, call.args))))
    return tuple(made)


def _own_numbers(graph: torch.fx.Graph, nodes: Sequence[torch.fx.Node]) -> list[torch.fx.Node]:
    """Copies of the numbers that a part reads, computed from sizes of its own tensors.

    With them the compiler knows how its sizes depend on each other.
    """
    known = {*nodes, *_inputs(nodes)}
    copies: dict[torch.fx.Node, torch.fx.Node] = {}

    def own(node: torch.fx.Node) -> torch.fx.Node:
        if not is_size(node):
            return node
        if _packet(node) == "sym_size" and node.args[0] not in known:
            return node  # the size of a tensor that the part does not take
        if node not in copies:
            with graph.inserting_after(node):
                copies[node] = graph.node_copy(node, own)
        return copies[node]

    for node in nodes:
        for number in node.all_input_nodes:
            if (copy := own(number)) is not number:
                node.replace_input_with(number, copy)
    return list(copies.values())
