"""Put zeros between the elements of an image after its transpose.

    %s = tensor.insert_slice %x into (fill of 0)[0, 0, 1, 1] [C, H, W] [1, 1, 2, 2]
    %t = linalg.generic {transpose} ins(%s)            tensor<1xCxSxTxT> -> tensor<SxTx1xCxT>
    %y = tensor.collapse_shape %t                      tensor<SxTxCxT>, optional
  becomes
    %u = linalg.generic {transpose} ins(%x)            tensor<CxHxWxT> -> tensor<HxWxCxT>
    %y = tensor.insert_slice %u into (fill of 0)[1, 1, 0] [H, W, C] [2, 2, 1]

Root: a transposing copy of elements with zeros between them, which nothing else reads, with the
reshape that drops dimensions of size one, if that is its only user. IREE transposes the image of a
transposed convolution of one image behind its zeros: the kernels of `conv_triton_kernel` and
`conv_vector_kernel` would read these, and the copy would be as many times as large as the image.
Static sizes, any element type. Numerics: exact.
Source: mlirfuse.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders import destination_builder
from mlirfuse.core import FusionPass, Kind, Match, PassContext
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize.permutations import Order, transposed_order


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Finds a transposing copy of elements with zeros between them."""
    order = transposed_order(root)
    insertion = ops.defining_op(root.operands[0]) if order is not None else None
    if order is None or insertion is None or ops.in_region(root) or insertion.block != root.block:
        return None
    if insertion.name != "tensor.insert_slice" or ops.users(insertion.results[0]) != [root]:
        return None
    bounds, strides = ops.static_insert(insertion), tuple(insertion.attributes["static_strides"])
    if bounds is None or ops.constant(insertion.operands[1]) != 0 or max(strides, default=1) < 2:
        return None
    last = _without_units(root) or root
    there = _kept(last, order)
    if list(ops.shape(insertion.operands[0])) != [bounds[1][d] for d in sorted(there)]:
        return None
    members = dict.fromkeys((insertion, root, last))
    return Match(root, tuple(members), (insertion, last, there, bounds[0], strides))


def _without_units(root: ir.Operation) -> ir.Operation | None:
    """The reshape that is the only user of an op and drops dimensions of size one alone."""
    users = ops.users(root.results[0])
    if len(users) != 1 or users[0].name != "tensor.collapse_shape":
        return None
    drops = ops.merges_units(ops.reassociation(users[0]), ops.shape(root.results[0]))
    return users[0] if drops and users[0].block == root.block else None


def _kept(last: ir.Operation, order: Order) -> list[int]:
    """The dimension before the transpose of each dimension of the last op's result."""
    if last.name != "tensor.collapse_shape":
        return list(order)
    wide = ops.wide_dims(ops.reassociation(last), ops.shape(last.operands[0]))
    return [order[d] for d in wide]


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the transpose, and puts the zeros between its elements."""
    insertion, last, there, offsets, strides = match.data
    part, zeros = insertion.operands[0], insertion.operands[1]
    sizes = ops.shape(zeros)
    with ir.InsertionPoint(match.root), match.root.location:
        moved = builders.transpose(part, [there.index(d) for d in sorted(there)])
        element = ops.element_type(zeros)
        whole = builders.empty([sizes[d] for d in there], element)
        whole = builders.fill(builders.scalar_constant(0, element), whole)
    with ir.InsertionPoint(match.root), insertion.location:
        new = destination_builder.insert(
            moved, whole, [offsets[d] for d in there], [strides[d] for d in there]
        )
    last.results[0].replace_all_uses_with(new.results[0])
    for op in dict.fromkeys((last, match.root, insertion)):
        op.erase()
    return new


PASS = FusionPass(
    name="spread_transpose_rewrite",
    summary="Zeros between the elements of a transposed convolution's image follow its transpose",
    roots=("linalg.generic",),
    where=ops.is_generic,
    match=match,
    rewrite=rewrite,
    kind=Kind.REWRITE,
    source="mlirfuse",
)
