"""Take slices of a transposed tensor before the transpose.

    %t = linalg.generic {transpose} ins(%x)            tensor<MxPxDxT> -> tensor<PxMxDxT>
    %q = tensor.extract_slice %t[0, 0, 0]              tensor<MxDxT>
    %k = tensor.extract_slice %t[1, 0, 0]              tensor<MxDxT>
  becomes
    %q = tensor.extract_slice %x[0, 0, 0]              tensor<MxDxT>
    %k = tensor.extract_slice %x[0, 1, 0]              tensor<MxDxT>

Root: a transposing copy that slices alone read, each of which drops dimensions of size one, as the
parts of a projection to queries, keys and values do. Dimensions that stay in another order are
transposed by a copy of the slice, which attention takes into its indexing maps. Static slices with
strides of one, any element type. Numerics: exact.
Source: MLIR, bubbling up of tensor.extract_slice.
"""

from __future__ import annotations

import dataclasses

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders import slice_builder
from mlirfuse.core import FusionPass, Kind, Match, NoMatch, PassContext, Reason
from mlirfuse.structured.ir import ops
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
    """Finds a transposing copy that only slices with fewer dimensions read."""
    order = transposed_order(root)
    if order is None or ops.in_region(root):
        return None
    cuts = ops.users(root.results[0])
    if not cuts or any(cut.name != "tensor.extract_slice" for cut in cuts):
        return None
    if any(cut.block != root.block for cut in cuts):
        return NoMatch(Reason.DIFFERENT_BLOCKS, "a slice is inside control flow")
    parts = [_part(cut) for cut in cuts]
    if not all(parts):
        return None
    return Match(root, (root, *cuts), (order, tuple(parts)))


def _part(cut: ir.Operation) -> _Part | None:
    """The slice; None where it drops no dimension or it is unclear which ones."""
    boxes = ops.static_slice(cut)
    if boxes is None or any(size is None for _, size in boxes):
        return None
    shape = ops.shape(cut.results[0])
    dropped = len(boxes) - len(shape)
    units = [d for d, (_, size) in enumerate(boxes) if size == 1]
    if dropped == 0 or len(units) != dropped:
        return None
    return _Part(cut, tuple(d for d in range(len(boxes)) if d not in units))


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
    boxes = ops.static_slice(part.cut)
    assert boxes is not None
    placed = dict(zip(order, boxes, strict=True))
    rank = range(len(order))
    whole = slice_builder.extract_slice(
        source, [placed[d][0] for d in rank], [placed[d][1] or 1 for d in rank]
    ).results[0]
    kept = sorted(order[d] for d in part.kept)
    value = builders.collapse(whole, _merged(kept, len(order)))
    read = [part.kept.index(order.index(d)) for d in kept]
    return value if read == sorted(read) else builders.transpose(value, read)


def _merged(kept: list[int], rank: int) -> list[list[int]]:
    """Groups of dimensions with one that is kept each."""
    groups: list[list[int]] = [[] for _ in kept]
    for d in range(rank):
        index = max(sum(k <= d for k in kept) - 1, 0)
        groups[index].append(d)
    return groups


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
