"""Removes complex tensors between ops of their parts, so that IREE has real ops only.

%c = aten.complex(%a, %b)                      %p = aten.permute(%a, [1, 0])
%p = aten.permute(%c, [1, 0])
%v = aten.view_as_real(%p)
%r = aten.select(%v, 2, 0)                     %r = %p

IREE 3.13 neither fuses through `view_as_real` nor evaluates expressions of complex constants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_nodes import meta_with

if TYPE_CHECKING:
    import torch
    from iree.compiler import ir

_MOVES = {
    "_unsafe_view",
    "alias",
    "clone",
    "diagonal",
    "expand",
    "flatten",
    "permute",
    "repeat",
    "select",
    "slice",
    "squeeze",
    "t",
    "transpose",
    "unsqueeze",
    "view",
}
"""Ops that move the elements of their first argument; it is their only tensor."""

_PARTS = ("torch.aten.real", "torch.aten.imag")


def split_complex(module: torch.fx.GraphModule) -> None:
    """Takes parts of complex tensors where these are made.

    Args:
      module: decomposed; nodes have their fake values in `meta["val"]`. Its subgraphs are changed
        as well.
    """
    import torch

    for part in module.modules():
        if isinstance(part, torch.fx.GraphModule):
            _split(part.graph)


def _split(graph: torch.fx.Graph) -> None:
    import torch

    aten = torch.ops.aten
    found: dict[tuple[torch.fx.Node, int], torch.fx.Node] = {}

    def part_of(node: torch.fx.Node, index: int) -> torch.fx.Node:
        key = (node, index)
        if key not in found:
            found[key] = _part(node, index)
        return found[key]

    def _part(node: torch.fx.Node, index: int) -> torch.fx.Node:
        if node.target is aten.complex.default and _same_parts(node):
            given: torch.fx.Node = node.args[index]
            return given
        name = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
        target, arguments, kwargs = (aten.real, aten.imag)[index].default, (node,), {}
        if name in _MOVES:
            arguments = (part_of(node.args[0], index), *node.args[1:])
            target, kwargs = node.target, node.kwargs
        elif name == "cat":
            parts = [part_of(each, index) for each in node.args[0]]
            target, arguments = node.target, (parts, *node.args[1:])
        with graph.inserting_after(node):
            part = graph.call_function(target, arguments, kwargs)
        part.meta = meta_with(node, _real_like(node.meta["val"]))
        return part

    changed = False
    for node in list(graph.nodes):
        if node.target is not aten.select.int or len(node.args) != 3:
            continue
        view, dim, index = node.args
        if view.target is not aten.view_as_real.default:
            continue
        source = view.args[0]
        if dim == source.meta["val"].dim() and index in (0, 1):
            part = part_of(source, index)
            if any(user.op == "output" for user in node.users):  # whose name the signature has
                node.target, node.args, node.kwargs = aten.clone.default, (part,), {}
            else:
                node.replace_all_uses_with(part)
            changed = True
    if changed:
        graph.eliminate_dead_code()


def _same_parts(node: torch.fx.Node) -> bool:
    """Whether both parts have the size of the complex tensor."""
    shapes = [each.meta["val"].shape for each in (node, *node.args)]
    return bool(shapes[0] == shapes[1] == shapes[2])


def _real_like(value: Any) -> Any:
    import torch

    return value.new_empty(value.shape, dtype=torch.real(value).dtype)


def fold_parts(module: ir.Module) -> None:
    """Replaces parts of `torch.aten.complex` by its operands, as for constants."""
    from iree.compiler import ir

    ended: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in _PARTS:
            made = op.operands[0].owner
            if isinstance(made, ir.Operation | ir.OpView) and made.name == "torch.aten.complex":
                part = made.operands[_PARTS.index(op.name)]
                if part.type == op.results[0].type:
                    op.results[0].replace_all_uses_with(part)
                    ended.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in ended:
        op.erase()
