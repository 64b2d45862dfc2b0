"""Take slices of a transposed tensor before the transpose.

    %t = linalg.generic {transpose} ins(%x)            tensor<MxPxDxT> -> tensor<PxMxDxT>
    %q = tensor.extract_slice %t[0, 0, 0]              tensor<MxDxT>
    %k = tensor.extract_slice %t[1, 0, 0]              tensor<MxDxT>
  becomes
    %q = tensor.extract_slice %x[0, 0, 0]              tensor<MxDxT>
    %k = tensor.extract_slice %x[0, 1, 0]              tensor<MxDxT>

Root: a transposing copy that slices alone read, as the parts of a projection to queries, keys and
values, or the rotated and the other elements of a head. The slices take one index of a dimension,
or the last dimension stays the last. Dimensions that are in another order still are transposed by a
copy of the slice, which attention, elementwise ops and concatenations take into their indexing
maps; a contraction without a batch would copy a slice whose rows are apart, such as a step of a
recurrent network. Static slices with strides of one, any element type. Numerics: exact.
Source: MLIR, bubbling up of tensor.extract_slice.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders import slice_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import contractions
from mlirfuse.structured.recognize.permutations import Order, transposed_order


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    """A slice.

    Attributes:
      cut: the `tensor.extract_slice`.
      kept: dimensions of the transposed tensor that its result has.
    """

    cut: ir.Operation
    kept: tuple[int, ...]


def match(root: ir.Operation, ctx: PassContext) -> Match | NoMatch | None:
    """Finds a transposing copy that only slices read."""
    order = transposed_order(root)
    if order is None or ops.in_region(root):
        return None
    cuts = ops.users(root.results[0])
    if not cuts or any(cut.name != "tensor.extract_slice" for cut in cuts):
        return None
    if any(cut.block != root.block for cut in cuts):
        return NoMatch(Reason.DIFFERENT_BLOCKS, "a slice is inside control flow")
    parts = [part for cut in cuts if (part := _part(cut)) is not None]
    if len(parts) != len(cuts):
        return None
    if order[-1] != len(order) - 1 and not all(map(_selects, parts)):
        return None
    if not all(_reads_strides(user) for cut in cuts for user in _readers(cut)):
        return NoMatch(Reason.STRUCTURE, "an op that reads a slice would copy it")
    return Match(root, (root, *cuts), (order, tuple(parts)))


def _part(cut: ir.Operation) -> _Part | None:
    """The slice; None where it is dynamic or it is unclear which dimensions it drops."""
    boxes = ops.static_slice(cut)
    if boxes is None or any(size is None for _, size in boxes):
        return None
    dropped = len(boxes) - len(ops.shape(cut.results[0]))
    units = [d for d, (_, size) in enumerate(boxes) if size == 1]
    if dropped and len(units) != dropped:
        return None
    return _Part(cut, tuple(d for d in range(len(boxes)) if not (dropped and d in units)))


def _selects(part: _Part) -> bool:
    """Whether a slice takes one index of a dimension of several, and drops it."""
    sizes = ops.shape(part.cut.operands[0])
    return any(size != 1 for d, size in enumerate(sizes) if d not in part.kept)


def _readers(cut: ir.Operation) -> list[ir.Operation]:
    return ops.users_through_reshapes(cut.results[0])


def _reads_strides(op: ir.Operation) -> bool:
    """Whether an op reads a part of a tensor in place, or may be a contraction of an attention."""
    if ops.is_contraction(op):
        return bool(contractions.batch_loops(op))
    return op.name in ("tensor.insert_slice", "tensor.extract_slice") or ops.is_elementwise(op)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the slices of the source, and copies of those that are still transposed."""
    root, (order, parts) = match.root, match.data
    source, last = root.operands[0], root
    for part in parts:
        with ir.InsertionPoint(part.cut), part.cut.location:
            value = _taken(source, order, part)
        part.cut.results[0].replace_all_uses_with(value)
        part.cut.erase()
        last = value.owner.operation
    root.erase()
    return last


def _taken(source: ir.Value, order: Order, part: _Part) -> ir.Value:
    """The slice of the source in the order of the transposed tensor."""
    boxes, sizes = ops.static_slice(part.cut), ops.shape(source)
    assert boxes is not None
    placed = dict(zip(order, boxes, strict=True))
    kept = sorted(order[d] for d in part.kept)
    # Dimensions of size one go before the slice, where they cancel with what added them.
    there = [d for d in range(len(order)) if sizes[d] != 1 or d in kept]
    whole = builders.collapse(source, builders.groups_of_kept(there, len(order)))
    cut = slice_builder.extract_slice(
        whole, [placed[d][0] for d in there], [placed[d][1] or 1 for d in there]
    ).results[0]
    value = builders.collapse(
        cut, builders.groups_of_kept([there.index(d) for d in kept], len(there))
    )
    read = [part.kept.index(order.index(d)) for d in kept]
    return value if read == sorted(read) else builders.transpose(value, read)


PASS = FusionPass(
    name="sliced_transpose_rewrite",
    summary="Slices of a transposed tensor are taken before the transpose",
    roots=("linalg.generic",),
    where=ops.is_generic,
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    source="MLIR bubbling up of tensor.extract_slice",
)
