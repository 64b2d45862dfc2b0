"""Views that join several dynamic dimensions, in a form that IREE's importer gets right.

    %y = aten.view(%x, [b * t, 8])                     [b, t, 2, 4] -> [b * t, 8]
  becomes
    %z = aten.flatten.using_ints(%x, 0, 1)             [b, t, 2, 4] -> [b * t, 2, 4]
    %y = aten.view(%z, [b * t, 8])

Of the first the importer takes `b` for the size of the result, and `t` for 1: the program refuses
its arguments, or its results are wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def split_views(graph: torch.fx.Graph) -> None:
    """Flattens the dynamic dimensions that views join before they do the rest.

    Args:
      graph: decomposed; a node has its value in `meta["val"]`.
    """
    import torch

    aten = torch.ops.aten
    for node in list(graph.nodes):
        if node.target not in (aten.view.default, aten._unsafe_view.default):
            continue
        while (joined := _joined(_sizes(node.args[0]), _sizes(node))) is not None:
            source, (start, last) = node.args[0], joined
            with graph.inserting_before(node):
                flat = graph.call_function(aten.flatten.using_ints, (source, start, last))
            # The importer takes the type from `tensor_meta` where a node has one.
            flat.meta = {key: node.meta[key] for key in node.meta if key != "tensor_meta"}
            flat.meta["val"] = source.meta["val"].flatten(start, last)
            node.replace_input_with(source, flat)


def _sizes(node: torch.fx.Node) -> list[Any]:
    """Sizes of a node's tensor, as numbers and as expressions of symbols."""
    shape = getattr(node.meta.get("val"), "shape", ())
    return [getattr(getattr(size, "node", None), "expr", size) for size in shape]


def _joined(before: Sequence[Any], after: Sequence[Any]) -> tuple[int, int] | None:
    """The first and the last of dimensions, two or more of them dynamic, that become one."""
    for start in range(len(before)):
        for last in range(start + 1, len(before)):
            run = before[start : last + 1]
            if sum(not isinstance(size, int) for size in run) < 2:
                continue
            for place, size in enumerate(after):
                outer = _equal(math.prod(before[:start]), math.prod(after[:place]))
                if outer and _equal(math.prod(run), size):
                    return start, last
    return None


def _equal(left: Any, right: Any) -> bool:
    """Whether two products are the same whatever the symbols stand for."""
    difference = left - right
    same = difference == 0 if isinstance(difference, int) else difference.expand() == 0
    return bool(same)
