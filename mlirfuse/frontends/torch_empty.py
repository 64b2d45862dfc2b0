"""Removes tensors of no elements, on which IREE's importer divides by zero or never ends.

%e = aten.view(%x, [0, 3])                     %e = aten.full([0, 3], 0)
%s = aten.sum(%e, [0])                         %s = aten.full([3], 0)
%c = aten.cat([%x, %e])                        %c = aten.cat([%x])
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_REDUCED = {
    "all": True,
    "any": False,
    "count_nonzero": 0,
    "linalg_vector_norm": 0,
    "logsumexp": -math.inf,
    "mean": math.nan,
    "mm": 0,
    "bmm": 0,
    "matmul": 0,
    "mv": 0,
    "dot": 0,
    "prod": 1,
    "std": math.nan,
    "sum": 0,
    "var": math.nan,
}
"""Op -> its result over no elements."""

_UPDATES = {
    "diagonal_scatter",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "_unsafe_index_put",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "slice_scatter",
    "select_scatter",
}
"""Ops that change nothing in their first argument where another one is empty."""


def replace_empty(graph: torch.fx.Graph) -> None:
    """Replaces computations on tensors of no elements by their results.

    Args:
      graph: a decomposed graph; nodes have their fake values in `meta["val"]`.
    """
    import torch

    aten = torch.ops.aten
    for node in graph.nodes:
        if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        if _is_empty(node):
            _fill(node, 0)
            continue
        if not any(_is_empty(source) for source in node.all_input_nodes):
            continue
        name = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
        if name == "cat":
            parts = [part for part in node.args[0] if not _is_empty(part)]
            node.args = (parts, *node.args[1:])
        elif name in _REDUCED:
            _fill(node, _REDUCED[name])
        elif name == "addmm" and not node.kwargs:
            node.target, node.args = (
                aten.expand.default,
                (node.args[0], list(node.meta["val"].shape)),
            )
        elif name in _UPDATES and not _is_empty(node.args[0]):
            node.target, node.args, node.kwargs = aten.clone.default, (node.args[0],), {}
    graph.eliminate_dead_code()


def _is_empty(node: torch.fx.Node) -> bool:
    shape = getattr(node.meta.get("val"), "shape", ())
    return all(isinstance(size, int) for size in shape) and 0 in shape


def _fill(node: torch.fx.Node, value: Any) -> None:
    import torch

    aten = torch.ops.aten
    tensor = node.meta["val"]
    shape = list(tensor.shape)
    # IREE 3.13 folds an empty `full` of bytes into a literal of another type.
    op = aten.empty.memory_format if 0 in shape else aten.full.default
    arguments = (shape,) if 0 in shape else (shape, value)
    options = {"layout": torch.strided, "device": tensor.device, "pin_memory": False}
    if not tensor.dtype.is_complex:
        node.target, node.args = op, arguments
        node.kwargs = {"dtype": tensor.dtype, **options}
        return
    # IREE 3.13 makes complex<f64> of each complex type.
    part = torch.real(tensor)
    with node.graph.inserting_before(node):
        parts = [
            node.graph.call_function(op, given, {"dtype": part.dtype, **options})
            for given in (arguments, (*arguments[:1], *(0 for _ in arguments[1:])))
        ]
    for new in parts:
        new.meta["val"] = part
    node.target, node.args, node.kwargs = aten.complex.default, tuple(parts), {}
