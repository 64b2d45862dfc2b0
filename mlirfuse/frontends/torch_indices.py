"""Negative indices of updates, which count from the end of their dimension.

    %y = aten.index_put(%x, [%i], %v)              %x: [n, 5], %i: i64 [k]
  becomes
    %j = aten.where(%i < 0, %i + n, %i)
    %y = aten.index_put(%x, [%j], %v)

IREE 3.13 wraps the indices of `aten.index`, but not those of `aten.index_put`: it writes in front
of the tensor, into other tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_nodes import meta_with

if TYPE_CHECKING:
    import torch


def wrap_indices(graph: torch.fx.Graph) -> None:
    """Adds the size of the dimension to negative integer indices of `aten.index_put`.

    Args:
      graph: a decomposed graph; nodes have their fake values in `meta["val"]`.
    """
    import torch

    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.index_put.default):
        x, indices = node.args[:2]
        wrapped = [
            index if index is None or _is_non_negative(index) else _wrapped(node, x, axis, index)
            for axis, index in enumerate(indices)
        ]
        node.args = (x, wrapped, *node.args[2:])


def _wrapped(
    node: torch.fx.Node, x: torch.fx.Node, axis: int, index: torch.fx.Node
) -> torch.fx.Node:
    import torch

    aten = torch.ops.aten
    size: Any = x.meta["val"].shape[axis]
    if not isinstance(size, int):
        size = _call(node, aten.sym_size.int, x, axis)
    negative = _call(node, aten.lt.Scalar, index, 0)
    return _call(node, aten.where.self, negative, _call(node, aten.add.Scalar, index, size), index)


def _call(node: torch.fx.Node, op: Any, *args: Any) -> torch.fx.Node:
    """A call before the node, with its fake value."""
    import torch

    with node.graph.inserting_before(node):
        call = node.graph.call_function(op, args)
    value = op(*(a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in args))
    call.meta = meta_with(node, value)
    return call


def _is_non_negative(index: torch.fx.Node) -> bool:
    """Whether the index is a mask, or counts upwards from a number that is not negative."""
    import torch

    aten = torch.ops.aten
    if index.meta["val"].dtype == torch.bool:
        return True
    views = (aten.expand.default, aten.unsqueeze.default, aten.view.default)
    while index.target in views:
        index = index.args[0]
    if index.target is not aten.arange.start_step:
        return False
    bounds = (*index.args, 1)[:3]
    return (
        all(isinstance(bound, int) for bound in (bounds[0], bounds[2]))
        and min(bounds[0], bounds[2]) >= 0
    )
