"""Let the loops of a sliding window have the order of its result in memory.

    %y = linalg.generic {h, w, c, kh, kw} ins(%x, %f)  tensor<CxHxWxT>, a depthwise convolution
  becomes
    %y = linalg.generic {c, h, w, kh, kw} ins(%x, %f)  tensor<CxHxWxT>

Root: an op in no group with a sliding window, whose result has its parallel loops in another order.
IREE 3.13 maps the last parallel loop to the lanes of a subgroup, and computes wrong elements where
that is a number of channels that no multiple of the lanes is: depthwise convolutions of 2, 3, 4 and
12 channels in f32 were wrong by their own size on llvmpipe, as was a sum of filters of a complex
convolution in one dispatch with it. Static sizes, any element type. Numerics: reassociating (IREE
adds in another order).
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.core import FusionPass, Kind, Match, NoMatch, Numerics, PassContext
from mlirfuse.structured.ir import fusable_neighbors, ops


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a window whose parallel loops are not in the order of its one result."""
    if ops.in_region(root) or len(root.results) != 1 or ops.reads_index(root):
        return None
    kinds, written = ops.iterator_types(root), ops.indexing_maps(root)[-1]
    parallel = [n for n, kind in enumerate(kinds) if kind == "parallel"]
    if written is None or sorted(n for n in written if n is not None) != parallel:
        return None
    order = [n for n in written if n is not None]
    order += [n for n, kind in enumerate(kinds) if kind != "parallel"]
    return None if order == list(range(len(kinds))) else Match(root, (root,), order)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Gives the op's loops another order."""
    root, order = match.root, match.data
    with ir.InsertionPoint(root), root.location:
        new: ir.Operation = root.operation.clone()
        loops = [ir.AffineExpr.get_dim(order.index(n)) for n in range(len(order))]
        moved = ir.AffineMap.get(len(order), 0, loops)
        maps = [ir.AffineMapAttr(each).value for each in root.attributes["indexing_maps"]]
        new.attributes["indexing_maps"] = ir.ArrayAttr.get(
            [
                ir.AffineMapAttr.get(
                    ir.AffineMap.get(len(order), 0, [e.compose(moved) for e in one.results])
                )
                for one in maps
            ]
        )
        kinds = list(root.attributes["iterator_types"])
        new.attributes["iterator_types"] = ir.ArrayAttr.get([kinds[n] for n in order])
    root.results[0].replace_all_uses_with(new.results[0])
    root.erase()
    return new


PASS = FusionPass(
    name="window_order_rewrite",
    summary="Loops of a sliding window have the order of its result",
    roots=("linalg.generic",),
    where=fusable_neighbors.has_window,
    match=match,
    rewrite=rewrite,
    numerics=Numerics.REASSOCIATING,
    kind=Kind.REWRITE,
    targets=frozenset({"vulkan"}),
    source="mlirfuse",
)
