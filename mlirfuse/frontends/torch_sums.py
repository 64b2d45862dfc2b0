"""Splits sums of products that IREE generates no code for on the CPU.

    %p = aten.mul(%x, %w)                          [4, 8], [8] -> [4, 8]
    %s = aten.sum(%p, [0, 1])
  becomes
    %r = aten.sum(%p, [1], True)
    %s = aten.sum(%r, [0])

IREE 3.13 takes the first form for a contraction, whose accumulator then has a wrong shape, where a
factor has an inner axis of the sum and lacks an outer one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlirfuse.frontends.torch_nodes import meta_with

if TYPE_CHECKING:
    import torch


def split_sums(graph: torch.fx.Graph) -> None:
    """Splits sums and means over several axes of products with a broadcast factor.

    Args:
      graph: a decomposed graph; nodes have their fake values in `meta["val"]`.
    """
    import torch

    aten = torch.ops.aten
    forms = {
        aten.sum.default: aten.sum.dim_IntList,
        aten.sum.dim_IntList: aten.sum.dim_IntList,
        aten.mean.default: aten.mean.dim,
        aten.mean.dim: aten.mean.dim,
    }
    for node in list(graph.nodes):
        if node.target not in forms:
            continue
        op, source = forms[node.target], node.args[0]
        rank = source.meta["val"].dim()
        if not rank:
            continue
        given = node.args[1] if node.target is op and len(node.args) > 1 else None
        axes = sorted(axis % rank for axis in given) if given else list(range(rank))
        if not _is_contraction(source, axes):
            continue
        keep = len(node.args) > 2 and bool(node.args[2])
        with graph.inserting_before(node):
            inner = graph.call_function(op, (source, axes[-1:], True), dict(node.kwargs))
        value = op(source.meta["val"], axes[-1:], True, **node.kwargs)
        inner.meta = meta_with(node, value)
        # The axis of size one is a part of the outer sum, which drops it or keeps it.
        node.target, node.args = op, (inner, axes, keep)


def _is_contraction(source: torch.fx.Node, axes: list[int]) -> bool:
    import torch

    aten = torch.ops.aten
    copies = (aten._to_copy.default, aten.clone.default)
    while source.target in copies:
        source = source.args[0]
    if source.target is not aten.mul.Tensor or len(axes) < 2:
        return False
    rank = source.meta["val"].dim()
    for factor in source.args:
        while isinstance(factor, torch.fx.Node) and factor.target in (*copies, aten.expand.default):
            factor = factor.args[0]
        value = factor.meta.get("val") if isinstance(factor, torch.fx.Node) else None
        if value is None or not value.dim():
            continue
        shape = [1] * (rank - value.dim()) + list(value.shape)
        has = [not (isinstance(shape[axis], int) and shape[axis] == 1) for axis in axes]
        whole = [source.meta["val"].shape[axis] for axis in axes]
        lacks = [not there and size != 1 for there, size in zip(has, whole, strict=True)]
        if any(lack and any(has[i + 1 :]) for i, lack in enumerate(lacks)):
            return True
    return False
