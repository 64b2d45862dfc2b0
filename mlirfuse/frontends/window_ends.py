"""Crops images to the end of a single window.

    %y = linalg.conv_1d_ncw_fcw {strides = 2} ins(%x, %w : tensor<2x3x3xf32>, tensor<4x3x2xf32>)
           outs(%init : tensor<2x4x1xf32>)
  becomes
    %s = tensor.extract_slice %x : tensor<2x3x3xf32> to tensor<2x3x2xf32>
    %y = linalg.conv_1d_ncw_fcw ... ins(%s, %w : tensor<2x3x2xf32>, tensor<4x3x2xf32>)

IREE 3.13 drops the loop over a single output position, and then expects the image to be as large as
the window ("inferred input/output operand #1 has shape's dimension #0 to be 3, but found 2").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlirfuse.structured.ir import ops

if TYPE_CHECKING:
    from iree.compiler import ir


def crop_to_windows(module: ir.Module) -> bool:
    """Crops the images of convolutions and poolings; returns whether there are any to crop."""
    found = [op for op in ops.nested_ops(module.operation) if op.name.startswith("linalg.")]
    return any([_crop(op) for op in found])


def _crop(op: ir.Operation) -> bool:
    from iree.compiler import ir
    from iree.compiler.dialects import linalg

    from mlirfuse.builders.slice_builder import extract_slice
    from mlirfuse.structured.ir.strided_access import strided_dim

    if not op.results or not ops.inputs(op):
        return False
    try:
        maps = [list(index_map.value.results) for index_map in linalg.get_indexing_maps(op)]
    except (TypeError, ValueError):
        return False  # An op that is not indexed by loops, such as `linalg.pack`.
    image = ops.inputs(op)[0]
    if not any(isinstance(at, ir.AffineAddExpr) for at in maps[0]):
        return False
    loops: dict[int, int | None] = {}
    for operand, places in zip(op.operands, maps, strict=True):
        for at, size in zip(places, ops.shape(operand), strict=True):
            if isinstance(at, ir.AffineDimExpr):
                loops[at.position] = size
    sizes = list(ops.shape(image))
    for dim, at in enumerate(maps[0]):
        terms = strided_dim(at) or ()
        counts = [loops.get(loop) for loop, _ in terms]
        if len(terms) < 2 or None in counts or 1 not in counts or sizes[dim] is None:
            continue
        steps = zip(terms, counts, strict=True)
        sizes[dim] = 1 + sum(stride * ((count or 1) - 1) for (_, stride), count in steps)
    if sizes == list(ops.shape(image)) or None in sizes:
        return False
    with op.location, ir.InsertionPoint(op):
        cropped = extract_slice(image, [0] * len(sizes), [size or 0 for size in sizes])
        op.operands[0] = cropped.results[0]
    return True
