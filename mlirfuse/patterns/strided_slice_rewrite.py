"""Let a contraction read a strided slice by its indexing map, in place of a copy.

    %s = tensor.extract_slice %x[0, 0, 0] ... [2, 2, 1]    tensor<HxWxKxT>, every second pixel
    %y = linalg.generic {mulf, addf} ins(%s, %w)           reads (m, n, k)
  becomes
    %y = linalg.generic {mulf, addf} ins(%x, %w)           reads (m * 2, n * 2, k)

Root: the contraction, which alone reads the slice. IREE makes both of a strided convolution with a
filter of 1x1, as in the shortcuts of residual networks, and copies the slice element by element.
The result is a convolution, of which `conv_vector_kernel` has a kernel. Offsets of zero, static
sizes; T f16, bf16, f32. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, PassContext
from mlirfuse.structured.ir import ops

TYPES = ("f16", "bf16", "f32")
"""Element types of convolutions of which there is a kernel."""


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Finds a contraction whose first operand is a strided slice."""
    if ops.in_region(root) or not ops.is_contraction(root) or ops.num_inputs(root) != 2:
        return None
    cut = ops.defining_op(root.operands[0])
    if cut is None or cut.name != "tensor.extract_slice" or ops.users(cut.results[0]) != [root]:
        return None
    if any(ops.element_type(value) not in TYPES for value in root.operands):
        return None
    source, read = ops.shape(cut.operands[0]), ops.plain_maps(root)[0]
    if len(cut.operands) != 1 or None in source or None in read or len(set(read)) != len(read):
        return None
    boxes = ops.slice_params(cut).boxes
    if any(offset != 0 for offset, _, _ in boxes) or all(step == 1 for _, _, step in boxes):
        return None
    kept = [d for d, size in enumerate(source) if size != 1]
    if [boxes[d][1] for d in kept] != list(ops.shape(cut.results[0])):
        return None
    return Match(root, (cut, root), [(d, int(boxes[d][2])) for d in kept])


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the convolution."""
    cut, root = match.ops
    kept: list[tuple[int, int]] = match.data
    value = cut.operands[0]
    shape = ops.shape(value)
    first = ops.plain_maps(root)[0]
    loops = len(ops.iterator_types(root))
    terms = [
        ir.AffineDimExpr.get(loop) * step
        for loop, (_, step) in zip(first, kept, strict=True)
        if loop is not None
    ]
    with ir.InsertionPoint(root), root.location:
        if len(kept) < len(shape):
            value = builders.collapse(
                value, builders.groups_of_kept([d for d, _ in kept], len(shape))
            )
        new = builders.generic(
            [value, root.operands[1]],
            ops.inits(root),
            ops.plain_maps(root),
            ops.iterator_types(root),
            builders.body_of(root),
        )
    strided = ir.AffineMapAttr.get(ir.AffineMap.get(loops, 0, terms))
    maps = [strided, *list(new.attributes["indexing_maps"])[1:]]
    new.attributes["indexing_maps"] = ir.ArrayAttr.get(maps)
    root.results[0].replace_all_uses_with(new.results[0])
    root.erase()
    cut.erase()
    return new


PASS = FusionPass(
    name="strided_slice_rewrite",
    summary="Contractions read a strided slice by their indexing maps, not a copy of it",
    roots=("linalg.generic",),
    where=ops.is_generic,
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cpu"}),
    source="mlirfuse",
)
