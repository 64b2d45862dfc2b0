"""Broadcasts and reshapes to symbolic sizes.

stablehlo.dynamic_broadcast_in_dim  ->  linalg.generic, of known expanding dimensions
stablehlo.dynamic_reshape  ->  tensor.collapse_shape or tensor.expand_shape
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlirfuse.frontends.jax_repairs.rewriting import index, regroup, replace

if TYPE_CHECKING:
    from iree.compiler import ir

_DYNAMIC = 1_000_003
"""Stand-in for a dynamic size when sizes are compared: a prime that is no size of any model."""


def broadcast(op: ir.Operation) -> None:
    """Marks the expanding dimensions: those of size 1; all other sizes are the result's.

    JAX guarantees this without the attributes that IREE needs to lower a dynamic broadcast.
    """
    from iree.compiler import ir

    source, shape = op.operands
    old, new = (ir.RankedTensorType(v.type) for v in (source, op.results[0]))
    if str(old.element_type).startswith("ui"):
        return  # linalg has no unsigned integers; IREE makes them signless later
    dims = list(ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"]))
    with op.location, ir.InsertionPoint(op):
        sizes = [_size(shape, i) for i in range(new.rank) if new.is_dynamic_dim(i)]
        empty = ir.Operation.create("tensor.empty", [new], sizes).result
        results = [
            ir.AffineConstantExpr.get(0) if size == 1 else ir.AffineDimExpr.get(dim)
            for size, dim in zip(old.shape, dims, strict=True)
        ]
        maps = [ir.AffineMap.get(new.rank, 0, results), ir.AffineMap.get_identity(new.rank)]
        parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
        generic = ir.Operation.create(
            "linalg.generic",
            [new],
            [source, empty],
            {
                "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps]),
                "iterator_types": ir.ArrayAttr.get([parallel] * new.rank),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1]),
            },
            regions=1,
        )
        body = generic.regions[0].blocks.append(old.element_type, new.element_type)
        with ir.InsertionPoint(body):
            ir.Operation.create("linalg.yield", [], [body.arguments[0]])
    replace(op, generic.result)


def reshape(op: ir.Operation) -> None:
    """Rewrites reshapes that only collapse or only expand sizes, one of them dynamic."""
    from iree.compiler import ir

    source, shape = op.operands
    old, new = (ir.RankedTensorType(v.type) for v in (source, op.results[0]))
    dynamic = ir.ShapedType.get_dynamic_size()
    if list(old.shape).count(dynamic) != 1 or list(new.shape).count(dynamic) != 1:
        return
    static_old, static_new = (math.prod(s for s in t.shape if s != dynamic) for t in (old, new))
    olds = [_DYNAMIC * static_new if s == dynamic else s for s in old.shape]
    news = [_DYNAMIC * static_old if s == dynamic else s for s in new.shape]
    collapsing = len(news) <= len(olds)
    groups = _groups(*((olds, news) if collapsing else (news, olds)))
    if groups is None:
        return
    with op.location, ir.InsertionPoint(op):
        if collapsing:
            value = regroup("tensor.collapse_shape", source, new, groups, [])
        else:
            size = _size(shape, list(new.shape).index(dynamic))
            value = regroup("tensor.expand_shape", source, new, groups, [size])
    replace(op, value)


def _size(shape: ir.Value, axis: int) -> ir.Value:
    """One element of a tensor of sizes, as an index."""
    from iree.compiler import ir

    element = ir.RankedTensorType(shape.type).element_type
    size = ir.Operation.create("tensor.extract", [element], [shape, index(axis)]).result
    return ir.Operation.create("arith.index_cast", [ir.IndexType.get()], [size]).result


def _groups(many: Sequence[int], few: Sequence[int]) -> list[list[int]] | None:
    """Axes of `many` whose sizes multiply to each size of `few`; None where they do not."""
    groups: list[list[int]] = []
    axis = 0
    for place, size in enumerate(few):
        group: list[int] = []
        product = 1
        last = place == len(few) - 1
        while axis < len(many) and (product < size or not group or last):
            product *= many[axis]
            group.append(axis)
            axis += 1
        if product != size:
            return None
        groups.append(group)
    return groups
