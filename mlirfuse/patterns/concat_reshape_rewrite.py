"""Split a dimension of a concatenation before its parts are inserted, not after.

    %i = tensor.insert_slice %x into %empty[0, 0]      tensor<Mx(2*N)xT>
    %c = tensor.insert_slice %z into %i[0, N]
    %e = tensor.expand_shape %c [[0], [1, 2]]          tensor<Mx2xNxT>
    %y = linalg.generic {mulf} ins(%e, %w) (d1)        tensor<Mx2xNxT>
  becomes
    %i = tensor.insert_slice %x into %empty[0, 0, 0]   tensor<Mx2xNxT>
    %c = tensor.insert_slice %z into %i[0, 1, 0]
    %y = linalg.generic {mulf} ins(%c, %w) (d1)

PyTorch's `stack` along any dimension but the last is imported as such a concatenation, and heads
are split after one. An op that reads each operand along all split dimensions, or along none, is
computed before the reshape (`expand_dims_hoist_rewrite`); this pass is for the others, which one
kernel computes with the concatenation then. Root: a `tensor.expand_shape`, the only user of a
`tensor.concat` or of such insertions, which elementwise ops in no group read. No part ends within a
dimension of the result. Static sizes; any element type. Parts that groups write in place are left
to them. Nothing is moved where Triton is missing. Numerics: exact.
Source: MLIR, propagation of reshapes through tensor.concat.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders import reshape_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, Numerics, PassContext, Reason
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.data_movement.analysis import (
    Part,
    analyze_chain,
    concatenated_by,
    is_written_in_place,
)
from mlirfuse.structured.ir import ops

Box = tuple[tuple[int, int], ...]
"""Start and size along each of the dimensions that one is split into."""


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds an expanded concatenation that elementwise ops read."""
    last = ops.defining_op(root.operands[0])
    if not triton_compiler.supports(ctx.target) or last is None:
        return None
    readers = ops.users(root.results[0])
    if not readers or not all(ops.is_elementwise(op) and not ops.in_region(op) for op in readers):
        return None
    group = concatenated_by(last)
    if not group or ops.users(last.results[0]) != [root]:
        return None
    found = analyze_chain(group)
    if isinstance(found, NoMatch):
        return found
    boxes = [_boxes(part, found.axis, root) for part in found.parts]
    if None in boxes:
        return NoMatch(Reason.SHAPE_MISMATCH, "a part ends within a dimension of the result")
    return Match(root, (*group, root), list(zip(found.parts, boxes, strict=True)))


def _boxes(part: Part, axis: int, expand: ir.Operation) -> list[Box] | None:
    """The place of a part along the split dimensions, by its own; None where it is no box."""
    sizes = [size or 0 for size in ops.shape(expand.results[0])]
    found = []
    for dim, group in enumerate(ops.reassociation(expand)):
        split = [sizes[inner] for inner in group]
        box: Box | None = tuple((0, size) for size in split)
        if dim == axis:
            box = ops.split_range(part.start, part.size, split)
        if box is None:
            return None
        found.append(box)
    return found


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """Leaves parts that groups write in place to them."""
    if is_written_in_place(match.ops):
        return NoMatch(Reason.LEFT_TO_PRODUCER, "the groups that compute most of it write in place")
    return None


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Inserts the parts with their dimensions split."""
    *group, root = match.ops
    result = root.results[0]
    where = ir.Location.fused([op.location for op in match.ops], context=root.context)
    with ir.InsertionPoint(root), where:
        whole = builders.empty(ops.shape(result), ops.element_type(result))
        for part, boxes in match.data:
            whole = reshape_builder.insert_split(part.value, whole, boxes)
    result.replace_all_uses_with(whole)
    for op in (root, *reversed(group)):
        op.erase()
    last: ir.Operation = whole.owner.operation
    return last


PASS = FusionPass(
    name="concat_reshape_rewrite",
    summary="Dimensions of a concatenation are split in its parts, for one kernel with its users",
    roots=("tensor.expand_shape",),
    match=match,
    legal=legal,
    prepare=passes.needs_provider,
    rewrite=rewrite,
    numerics=Numerics.EXACT,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cuda", "rocm"}),
    source="MLIR linalg reshape propagation",
)
