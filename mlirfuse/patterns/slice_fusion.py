"""Slice the operands of an elementwise op instead of its result.

    %y = linalg.generic {elementwise} ins(%x, %bias)   tensor<MxNxT>
    %s = tensor.extract_slice %y[0, 4] [M, 8] [1, 1]
  becomes
    %u = tensor.extract_slice %x[0, 4] [M, 8] [1, 1]
    %s = linalg.generic {elementwise} ins(%u, %bias')  tensor<Mx8xT>

Root: the elementwise op, whose users are all slices that together are no larger than its result:
one, or the slices of a split. Each becomes an op of its own, which can join its user's group, and
so do the elementwise producers that only the root and these producers use; a slice of a group's
operand is no dispatch. Slices of static or dynamic offset, any stride, which may drop dimensions;
any element type. Not the epilogue of a contraction.
Numerics: exact.

IREE moves slices the same way, but cannot move one out of a group that our passes form.
Source: MLIR, bubbling up of tensor.extract_slice.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import slice_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import fusable_neighbors, ops, slices


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds an elementwise op with slices as its only users, and its exclusive producers."""
    if not ops.is_elementwise(root) or len(root.results) != 1 or not ops.num_inputs(root):
        return None
    cuts = ops.users(root.results[0])
    if not cuts or any(cut.name != "tensor.extract_slice" for cut in cuts):
        return None
    if any(cut.block != root.block for cut in cuts):
        return NoMatch(Reason.DIFFERENT_BLOCKS, "a slice is inside control flow")
    return Match(root, tuple([*_with_producers(root), *cuts]), cuts)


def _with_producers(root: ir.Operation) -> list[ir.Operation]:
    """The op and the elementwise producers, also indirect ones, that only these ops use."""
    found = {root}
    candidates = _producers(root)
    while candidates:
        # The last of them: ops that use the others come before them here.
        op = slices.in_order(candidates)[-1]
        candidates.discard(op)
        if found.issuperset(ops.users(op.results[0])) and _refusal(op) is None:
            found.add(op)
            candidates |= _producers(op)
    return slices.in_order(found)


def _producers(op: ir.Operation) -> set[ir.Operation]:
    """The elementwise ops of the block whose result the op reads."""
    found = (ops.defining_op(value) for value in ops.inputs(op))
    return {
        each
        for each in found
        if each is not None
        and each.block == op.block
        and ops.is_elementwise(each)
        and len(each.results) == 1
    }


def _refusal(op: ir.Operation) -> NoMatch | None:
    """Why a part of the op's result cannot be computed alone."""
    maps = ops.indexing_maps(op)
    if None in maps or maps[-1] != tuple(range(len(ops.iterator_types(op)))):
        return NoMatch(Reason.INDEXING_MAP, op.name)
    if ops.reads_inits(op) or not fusable_neighbors.has_scalar_body(op) or not ops.num_inputs(op):
        return NoMatch(Reason.STRUCTURE, f"{op.name} reads elements at other indices")
    return None


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """The op computes each element from the elements at the same index."""
    root = match.root
    refusal = _refusal(root)
    if refusal is not None:
        return refusal
    if any(not ops.shape(cut.results[0]) for cut in match.data):
        return NoMatch(Reason.STRUCTURE, "a slice has no dimension left")
    if fusable_neighbors.is_epilogue_of_compute(root):
        return NoMatch(Reason.LEFT_TO_PRODUCER, root.name)
    return None


def profitable(match: Match, ctx: PassContext) -> NoMatch | None:
    """No element may be computed twice; with several slices all sizes are static."""
    return _overlap(match.root, match.data)


def _overlap(root: ir.Operation, cuts: list[ir.Operation]) -> NoMatch | None:
    """Why several slices of the op's result may hold an element twice."""
    values = [cut.results[0] for cut in cuts]
    if len(values) == 1:
        return None
    if None in ops.shape(root.results[0]) or any(None in ops.shape(value) for value in values):
        return NoMatch(Reason.DYNAMIC_SHAPE, "several slices of unknown size")
    if sum(map(ops.num_elements, values)) > ops.num_elements(root.results[0]):
        return NoMatch(
            Reason.NOT_PROFITABLE, "the slices overlap: elements would be computed twice"
        )
    return None


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Computes each slice from slices, and so the slices of its producers."""
    root, *feeding = [op for op in reversed(match.ops) if op not in match.data]
    new = [slice_builder.computed_in_part(root, cut) for cut in match.data]
    for op in feeding:
        cuts = ops.users(op.results[0])
        if any(cut.name != "tensor.extract_slice" for cut in cuts):
            continue
        cuts = slice_builder.without_repeats(cuts)
        if _overlap(op, cuts) is None:
            for cut in cuts:
                slice_builder.computed_in_part(op, cut)
    return new[-1]


PASS = FusionPass(
    name="slice_fusion",
    summary="Only the used slices of an elementwise op are computed",
    roots=("linalg.generic",),
    match=match,
    legal=legal,
    profitable=profitable,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    source="MLIR's bubbling up of tensor.extract_slice",
)
