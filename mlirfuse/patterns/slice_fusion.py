"""Take slices of what an elementwise op reads instead of slices of what it computes.

    %y = linalg.generic {elementwise} ins(%x, %bias)   tensor<MxNxT>
    %s = tensor.extract_slice %y[0, 4] [M, 8] [1, 1]
  becomes
    %u = tensor.extract_slice %x[0, 4] [M, 8] [1, 1]
    %s = linalg.generic {elementwise} ins(%u, %bias')  tensor<Mx8xT>

Root: the elementwise op, all of whose readers are slices that together are no larger than its
result: one, or the parts of a split. Each becomes an op of its own, which grows into its reader's
group, and so do the elementwise ops that the root alone reads; a slice of a group's argument is no
dispatch. Slices of static or dynamic place, any step;
any element type. Not the epilogue of a contraction. Numerics: exact.

IREE moves slices the same way, but cannot move one out of a group that our passes form.
Source: MLIR, bubbling up of tensor.extract_slice.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders import slice_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import fusable_neighbors, ops, slices


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds an elementwise op of which slices alone are read, and what it alone reads."""
    if not ops.is_elementwise(root) or len(root.results) != 1 or not ops.num_inputs(root):
        return None
    cuts = ops.users(root.results[0])
    if not cuts or any(cut.name != "tensor.extract_slice" for cut in cuts):
        return None
    if any(cut.block != root.block for cut in cuts):
        return NoMatch(Reason.DIFFERENT_BLOCKS, "a slice is inside control flow")
    return Match(root, tuple([*_grown(root), *cuts]), cuts)


def _grown(root: ir.Operation) -> list[ir.Operation]:
    """The op and the elementwise ops that it alone reads, directly or through one another."""
    found = [root]
    for reader in found:
        for value in ops.inputs(reader):
            op = ops.defining_op(value)
            if op is None or op.block != root.block or ops.users(value) != [reader]:
                continue
            if ops.is_elementwise(op) and len(op.results) == 1 and _refusal(op) is None:
                found.append(op)
    return slices.in_order(found)


def _refusal(op: ir.Operation) -> NoMatch | None:
    """Why the op cannot be computed in part."""
    maps = ops.indexing_maps(op)
    if None in maps or maps[-1] != tuple(range(len(ops.iterator_types(op)))):
        return NoMatch(Reason.INDEXING_MAP, op.name)
    if ops.reads_inits(op) or not fusable_neighbors.has_scalar_body(op) or not ops.num_inputs(op):
        return NoMatch(Reason.STRUCTURE, f"{op.name} reads more than the elements at its place")
    return None


def legal(match: Match, ctx: PassContext) -> NoMatch | None:
    """The op computes each element from the elements at its place."""
    root = match.root
    refusal = _refusal(root)
    if refusal is not None:
        return refusal
    rank = len(ops.shape(root.results[0]))
    if any(len(ops.shape(cut.results[0])) != rank for cut in match.data):
        return NoMatch(Reason.STRUCTURE, "a slice drops dimensions")
    if fusable_neighbors.is_epilogue_of_compute(root):
        return NoMatch(Reason.LEFT_TO_PRODUCER, root.name)
    return None


def profitable(match: Match, ctx: PassContext) -> NoMatch | None:
    """Nothing may be computed twice; of several slices all sizes are known then."""
    root = match.root
    values = [cut.results[0] for cut in match.data]
    if len(values) == 1:
        return None
    if None in ops.shape(root.results[0]) or any(None in ops.shape(value) for value in values):
        return NoMatch(Reason.DYNAMIC_SHAPE, "several slices of unknown size")
    if sum(map(ops.num_elements, values)) > ops.num_elements(root.results[0]):
        return NoMatch(Reason.NOT_PROFITABLE, "the slices overlap: parts would be computed twice")
    return None


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Computes each slice from slices; what the op alone reads follows it."""
    root, *feeding = [op for op in reversed(match.ops) if op not in match.data]
    new = [slice_builder.computed_in_part(root, cut) for cut in match.data]
    for op in feeding:
        cuts = ops.users(op.results[0])
        if all(cut.name == "tensor.extract_slice" for cut in cuts):
            for cut in cuts:
                slice_builder.computed_in_part(op, cut)
    return new[-1]


PASS = FusionPass(
    name="slice_fusion",
    summary="Only the slices that are read of an elementwise op are computed",
    roots=("linalg.generic",),
    match=match,
    legal=legal,
    profitable=profitable,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    source="MLIR's bubbling up of tensor.extract_slice",
)
