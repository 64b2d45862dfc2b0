"""Numbers as operands of ops on f64 and of comparisons.

    %y = aten.sub(0.1, %x)                         %x: f64 [n]
  becomes
    %c = aten.full([], 0.1, dtype=f64)
    %y = aten.sub(%c, %x)

IREE 3.13 makes a tensor of f32 of a number in place of a tensor, so that 0.1 is 0.10000000149.

    %c = aten.eq(%x, 0.1)                          %x: f32 [n]
  becomes
    %c = aten.eq(%x, 0.10000000149)

It compares in f64, where PyTorch rounds the number to the type of the tensor: no f32 is 0.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlirfuse.frontends.torch_nodes import meta_with

if TYPE_CHECKING:
    import torch


def widen_scalars(graph: torch.fx.Graph) -> None:
    """Makes tensors of f64 of the numbers that stand for the first tensor of an op on f64.

    Args:
      graph: a decomposed graph; nodes have their fake values in `meta["val"]`.
    """
    import torch

    for node in list(graph.nodes):
        value = node.meta.get("val")
        if getattr(value, "dtype", None) != torch.float64 or not node.args:
            continue
        schema, number = getattr(node.target, "_schema", None), node.args[0]
        if schema is None or type(number) is not float:
            continue
        if not isinstance(schema.arguments[0].type, torch.TensorType):
            continue
        with graph.inserting_before(node):
            full = graph.call_function(
                torch.ops.aten.full.default, ([], number), {"dtype": torch.float64}
            )
        full.meta = meta_with(node, value.new_full((), number))
        node.update_arg(0, full)


def round_compared(graph: torch.fx.Graph) -> None:
    """Rounds the numbers that tensors of floating-point numbers are compared with.

    Args:
      graph: a decomposed graph; nodes have their fake values in `meta["val"]`.
    """
    import torch

    names = ("eq", "ge", "gt", "le", "lt", "ne")
    comparisons = {getattr(torch.ops.aten, name).Scalar for name in names}
    for node in graph.nodes:
        if node.target not in comparisons or type(node.args[1]) not in (int, float):
            continue
        dtype = node.args[0].meta["val"].dtype
        if dtype.is_floating_point:
            number = torch.tensor(float(node.args[1]), dtype=torch.float64).to(dtype).item()
            node.update_arg(1, number)
