"""Insert what is left of a constant, and not into it.

    %c = tensor.insert_slice %x into %constant[0, 1, 0]  tensor<Nx(1+A)xMxT>
  becomes
    %s = tensor.extract_slice %constant[0, 0, 0] [N, 1, M]
    %i = tensor.insert_slice %s into %empty[0, 0, 0]
    %c = tensor.insert_slice %x into %i[0, 1, 0]

Root: the last `tensor.insert_slice` of a chain along one axis that ends at a constant. IREE
computes an insertion of constants when it compiles: the class token in front of the patches of a
vision transformer becomes a constant as large as all tokens, which is copied as a whole, and which
is no concatenation to passes. Constants of one number are left to `pad_fusion`. Static sizes; any
element type. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

import itertools

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders import destination_builder, slice_builder
from mlirfuse.core import FusionPass, Kind, Match, Numerics, PassContext
from mlirfuse.kernels.data_movement.analysis import has_more, insertions
from mlirfuse.structured.ir import constants, ops


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Finds insertions into a constant."""
    group = [] if ops.in_region(root) or has_more(root) else insertions(root)
    if not group:
        return None
    base = group[0].operands[1]
    if not constants.is_constant_data(base) or ops.constant(base) is not None:
        return None
    axis = _axis(group)
    return None if axis is None else Match(root, tuple(group), (base, axis))


def _axis(group: list[ir.Operation]) -> int | None:
    """The one axis along which insertions have a part of the result; None for others."""
    sizes = ops.shape(group[0].results[0])
    axes = set()
    for op in group:
        if len(op.operands) != 2 or None in sizes or not ops.has_unit_strides(op):
            return None
        taken = list(op.attributes["static_sizes"])
        axes |= {
            n for n, (part, whole) in enumerate(zip(taken, sizes, strict=True)) if part != whole
        }
    return axes.pop() if len(axes) == 1 else None


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Inserts the parts of the constant that no insertion covers, and then the others."""
    base, axis = match.data
    sizes = list(ops.shape(base))
    covered = {place for op in match.ops for place in _range(op, axis)}
    with ir.InsertionPoint(match.root), match.root.location:
        whole = builders.empty(sizes, ops.element_type(base))
        left = [n for n in range(sizes[axis]) if n not in covered]
        for _, run in itertools.groupby(enumerate(left), lambda pair: pair[1] - pair[0]):
            places = [place for _, place in run]
            part = slice_builder.take(base, axis, places[0], len(places)).results[0]
            offsets = [places[0] if n == axis else 0 for n in range(len(sizes))]
            whole = destination_builder.insert(part, whole, offsets).results[0]
        for op in match.ops:
            offsets = list(op.attributes["static_offsets"])
            whole = destination_builder.inserted_at(op, whole, offsets)
    match.root.results[0].replace_all_uses_with(whole)
    for op in reversed(match.ops):
        op.erase()
    new: ir.Operation = whole.owner.operation
    return new


def _range(op: ir.Operation, axis: int) -> range:
    """The indices of an insertion along the axis."""
    start, size = (list(op.attributes[n])[axis] for n in ("static_offsets", "static_sizes"))
    return range(start, start + size)


PASS = FusionPass(
    name="constant_insertion_rewrite",
    summary="What is left of a constant is inserted, in place of insertions into it",
    roots=("tensor.insert_slice",),
    match=match,
    rewrite=rewrite,
    numerics=Numerics.EXACT,
    kind=Kind.REWRITE,
    source="mlirfuse",
)
