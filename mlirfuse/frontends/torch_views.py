"""Rewrites views that collapse several dynamic dimensions, which IREE's importer gets wrong.

    %y = aten.view(%x, [b * t, 8])                     [b, t, 2, 4] -> [b * t, 8]
  becomes
    %z = aten.flatten.using_ints(%x, 0, 1)             [b, t, 2, 4] -> [b * t, 2, 4]
    %y = aten.view(%z, [b * t, 8])

For the first form the importer takes `b` for the size of the result and `t` for 1, so that the
program refuses its arguments or its results are wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.frontends.torch_nodes import meta_with

if TYPE_CHECKING:
    import torch


def split_views(graph: torch.fx.Graph) -> None:
    """Flattens the dynamic dimensions that a view collapses, before the view.

    Args:
      graph: a decomposed graph; nodes have their fake values in `meta["val"]`.
    """
    import torch

    aten = torch.ops.aten
    for node in list(graph.nodes):
        if node.target not in (aten.view.default, aten._unsafe_view.default):
            continue
        while (collapsed := _collapsed(_sizes(node.args[0]), _sizes(node))) is not None:
            source, (start, last) = node.args[0], collapsed
            with graph.inserting_before(node):
                flat = graph.call_function(aten.flatten.using_ints, (source, start, last))
            flat.meta = meta_with(node, source.meta["val"].flatten(start, last))
            node.replace_input_with(source, flat)


def _sizes(node: torch.fx.Node) -> list[Any]:
    """Sizes of a node's tensor: integers, and expressions of symbols."""
    shape = getattr(node.meta.get("val"), "shape", ())
    return [getattr(getattr(size, "node", None), "expr", size) for size in shape]


def _collapsed(before: Sequence[Any], after: Sequence[Any]) -> tuple[int, int] | None:
    """First and last of the axes, two or more of them dynamic, that become one."""
    for start in range(len(before)):
        for last in range(start + 1, len(before)):
            run = before[start : last + 1]
            if sum(not isinstance(size, int) for size in run) < 2:
                continue
            for axis, size in enumerate(after):
                outer = _equal(math.prod(before[:start]), math.prod(after[:axis]))
                if outer and _equal(math.prod(run), size):
                    return start, last
    return None


def _equal(left: Any, right: Any) -> bool:
    """Whether two products are equal for all values of the symbols."""
    difference = left - right
    same = difference == 0 if isinstance(difference, int) else difference.expand() == 0
    return bool(same)
