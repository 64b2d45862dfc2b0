"""Convolutions in half precision that IREE 3.13 compiles wrong for CUDA, in another form.

    %y = linalg.generic {mulf, addf} ins(%x : channels first, %w : channels last)
  becomes
    %t = linalg.generic {transpose} ins(%x)
    %y = flow.dispatch.region {linalg.generic {mulf, addf} ins(%t, %w)}

One whose image has its channels before the pixels, and whose filter and result have them last, is
computed as if the image had them last.

    %y = linalg.generic {mulf, addf} ins(%x, %w)      %x[g, o + 4 * t], %w[g, n, t] -> %y[g, n, o]
  becomes
    %t = flow.dispatch.region {linalg.generic}        %t[g, t, o] = %x[g, o + 4 * t]
    %y = linalg.generic {mulf, addf} ins(%w, %t)

Where the innermost taps are dilated, a thread loads adjacent elements for adjacent taps, if the
width of its load divides their number. Widths are powers of two.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse.builders.regions import form_region, outside
from mlirfuse.builders.tensors import body_of, empty, generic, transpose
from mlirfuse.structured.ir import ops
from mlirfuse.structured.ir.strided_access import StridedDim, strided_loops
from mlirfuse.structured.recognize.convolution_loops import ConvolutionLoops, classify

_HALF = ("f16", "bf16")

_MEMOIZED = "linalg.memoized_indexing_maps"


def repair(module: ir.Module) -> bool:
    """Rewrites all such ops; returns whether there is any."""
    changed = False
    for form in (_transpose_image, _gather_taps):
        generics = [op for op in ops.nested_ops(module.operation) if op.name == "linalg.generic"]
        changed = any([form(op) for op in generics if len(op.results) == 1]) or changed
    return changed


def _transpose_image(op: ir.Operation) -> bool:
    """Transposes the image of a convolution whose result has its channels last."""
    loops = classify(op) if ops.num_inputs(op) == 2 else None
    if not isinstance(loops, ConvolutionLoops) or not loops.tap_loops or loops.group_loops:
        return False
    image, last = op.operands[loops.image], len(loops.image_dims) - 1
    found = [d for d, terms in enumerate(loops.image_dims) if _reads(terms, loops.channel_loop)]
    written = ops.indexing_maps(op)[-1] or ()
    half = ops.element_type(image) in _HALF and None not in ops.shape(image)
    if not half or not found or found[0] == last or written[-1] != loops.n_loop:
        return False
    region = outside(op, [image])
    if region == op:
        region = form_region([op])
        op = next(o for o in ops.nested_ops(region) if o.name == "linalg.generic")
    order = [*(d for d in range(last + 1) if d != found[0]), found[0]]
    with ir.InsertionPoint(region), op.location:
        op.operands[loops.image] = transpose(image, [order.index(d) for d in range(last + 1)])
    maps = [attribute.value for attribute in op.attributes["indexing_maps"]]
    old = maps[loops.image]
    with op.context:
        new = ir.AffineMap.get(old.n_dims, old.n_symbols, [old.results[d] for d in order])
        maps[loops.image] = new
        op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in maps])
    if _MEMOIZED in op.attributes:
        del op.attributes[_MEMOIZED]
    return True


def _reads(terms: StridedDim, loop: int | None) -> bool:
    return any(term == loop for term, _ in terms)


def _gather_taps(op: ir.Operation) -> bool:
    """Writes the elements of an image for each tap, so that the convolution is a contraction."""
    terms = _dilated(op)
    if terms is None:
        return False
    image, weights = op.operands[0], op.operands[1]
    before = outside(op, [image])
    _, read, written = ops.indexing_maps(op)
    assert read is not None
    assert written is not None
    kinds, sizes = ops.iterator_types(op), ops.loop_sizes(op)
    # Batches and groups, then channels and taps, then the positions in the result.
    windows = {
        loop for dim in terms if len(dim) > 1 for loop, _ in dim if kinds[loop] != "reduction"
    }
    loops = sorted(
        {loop for dim in terms for loop, _ in dim},
        key=lambda loop: (loop in windows, kinds[loop] == "reduction", loop),
    )
    with ir.InsertionPoint(before), op.location:
        rank = len(loops)
        copied = generic(
            [image],
            [empty([sizes[loop] for loop in loops], ops.element_type(image))],
            [tuple(range(len(terms))), tuple(range(rank))],
            ["parallel"] * rank,
            lambda arguments: arguments[:1],
        )
        access = [
            sum(
                (ir.AffineDimExpr.get(loops.index(d)) * n for d, n in dim),
                ir.AffineConstantExpr.get(0),
            )
            for dim in terms
        ]
        maps = [ir.AffineMap.get(rank, 0, access), ir.AffineMap.get_identity(rank)]
        copied.attributes["indexing_maps"] = ir.ArrayAttr.get(
            [ir.AffineMapAttr.get(m) for m in maps]
        )
    body = body_of(op)
    with ir.InsertionPoint(op), op.location:
        new = generic(
            [weights, copied.results[0]],
            ops.inits(op),
            [read, tuple(loops), written],
            kinds,
            lambda a: body([a[1], a[0], a[2]]),
        )
    op.results[0].replace_all_uses_with(new.results[0])
    op.erase()
    form_region([copied])
    return True


def _dilated(op: ir.Operation) -> tuple[StridedDim, ...] | None:
    """The loops of the image where the innermost taps are dilated and even in number."""
    if ops.num_inputs(op) != 2 or not ops.multiplies_and_adds(op):
        return None
    terms, (_, read, written) = strided_loops(op, 0), ops.indexing_maps(op)
    if terms is None or not terms or read is None or written is None or None in ops.loop_sizes(op):
        return None
    if {ops.element_type(value) for value in ops.inputs(op)} - set(_HALF):
        return None
    kinds, sizes = ops.iterator_types(op), ops.loop_sizes(op)
    taps = [(loop, stride) for loop, stride in terms[-1] if kinds[loop] == "reduction"]
    image = {loop for dim in terms for loop, _ in dim}
    channels = [loop for loop in read if loop in written and loop not in image]
    if len(terms[-1]) < 2 or len(taps) != 1 or not channels:
        return None  # no window, or each channel alone, which is no implicit GEMM
    (loop, dilation) = taps[0]
    size = sizes[loop]
    return terms if dilation > 1 and size is not None and size % 2 == 0 else None
