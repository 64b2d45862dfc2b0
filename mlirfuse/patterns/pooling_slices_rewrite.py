"""Pool an image whose rows are contiguous by elementwise ops on strided slices of it.

    %y = linalg.generic {maximumf} ins(%x, %window)    tensor<NxCx2Hx2WxT> -> tensor<NxCxHxWxT>
  becomes
    %a, ... = tensor.extract_slice %x [0, 0, i, j] [N, C, H, W] [1, 1, 2, 2], of each tap
    %y = linalg.generic {maximumf} ins(%a, ...)

`elementwise_vector_kernel` reads the slices in the image, vectors of pixels at a time, where IREE
3.13 computes one pixel after the other: 2x32x186x186 f32 averaged by 2x2 took 0.83 ms in two
threads of a Zen 4 and takes 0.25. Root: a pooling without padding in no group, whose result has at
least as many columns as a vector has lanes, of at most 16 taps at distances that kernels load
vectors for. Poolings of images with channels last are `pool_vector_kernel`'s. Sums of 16 bits are
taken in f32. Static sizes. Numerics: reassociating (those sums are rounded once).
Source: mlirfuse.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders.slice_builder import extract_slice
from mlirfuse.core import FusionPass, Kind, Match, Numerics, PassContext
from mlirfuse.kernels.vector import pooling
from mlirfuse.kernels.vector.memory import MAX_SPACING
from mlirfuse.structured.ir import ops
from mlirfuse.structured.recognize import poolings
from mlirfuse.structured.recognize.poolings import Pooling

MAX_TAPS = 16
"""Taps of a window: a load and one or two shuffles of each for a vector of results."""


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Finds a pooling of an image whose last dimension has windows."""
    cpu = ctx.target.cpu
    if cpu is None or not cpu.has_fma or ops.in_region(root):
        return None
    found = poolings.pooling(root)
    if found is None or None in ops.loop_sizes(root) or 0 in ops.loop_sizes(root):
        return None
    if pooling.takes(root, found) or not pooling.has_plain_term(root, found):
        return None
    if ops.constant(ops.inits(root)[0]) is None:
        return None
    written = ops.indexing_maps(root)[-1]
    strides = [_loops_of_dim(dim, found) for dim in found.image_dims]
    if [loop for loop, _ in strides] != list(written or ()) or _is_padded(root):
        return None
    sizes = [size or 0 for size in ops.loop_sizes(root)]
    columns, step = strides[-1]
    if columns is None or sizes[columns] < cpu.lanes or step > MAX_SPACING:
        return None
    taps = math.prod(sizes[loop] for loop in found.window_loops)
    return Match(root, (root,), found) if taps <= MAX_TAPS else None


def _loops_of_dim(dim: Sequence[tuple[int, int]], found: Pooling) -> tuple[int | None, int]:
    """The loop of the result along a dimension of the image, and its stride."""
    outer = [(loop, stride) for loop, stride in dim if loop not in found.window_loops]
    return outer[0] if len(outer) == 1 else (None, 1)


def _is_padded(root: ir.Operation) -> bool:
    """Whether the image is one that a padding makes, which the slices would be copies of."""
    op = ops.defining_op(root.operands[0])
    return op is not None and op.name == "tensor.pad"


def _stored(root: ir.Operation) -> ir.Value:
    """The image as it is in memory: before an op that only widens it for the pooling."""
    image = root.operands[0]
    op = ops.defining_op(image)
    if op is None or not ops.is_elementwise(op) or ops.users(image) != [root]:
        return image
    if set(ops.scalar_names(op)) != {"arith.extf", "linalg.yield"}:
        return image
    same = set(ops.indexing_maps(op)) == {tuple(range(len(ops.shape(image))))}
    return op.operands[0] if same else image


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Builds the slices and the op that combines them."""
    root, found = match.root, match.data
    image = _stored(root)
    sizes = [size or 0 for size in ops.loop_sizes(root)]
    result = [size or 0 for size in ops.shape(root.results[0])]
    strides = [_loops_of_dim(dim, found)[1] for dim in found.image_dims]
    taps = itertools.product(*(range(sizes[loop]) for loop in found.window_loops))
    with ir.InsertionPoint(root), root.location:
        slices = []
        for tap in taps:
            at = dict(zip(found.window_loops, tap, strict=True))
            offsets = [
                sum(stride * at.get(loop, 0) for loop, stride in dim) for dim in found.image_dims
            ]
            slices.append(extract_slice(image, offsets, result, strides).results[0])
        identity = tuple(range(len(result)))
        new = builders.generic(
            slices,
            [builders.empty(result, ops.element_type(root.results[0]))],
            [identity] * (len(slices) + 1),
            ["parallel"] * len(result),
            lambda arguments: [_combined(root, found, arguments[:-1])],
        )
    root.results[0].replace_all_uses_with(new.results[0])
    root.erase()
    return new


def _combined(root: ir.Operation, found: Pooling, elements: Sequence[ir.Value]) -> ir.Value:
    """The first value and the elements of all taps, combined one after the other."""
    kind = ops.element_type(root.results[0])
    widens = kind in ("f16", "bf16") and found.combine.name == "arith.addf"
    wide = "f32" if widens else kind
    first = ops.constant(ops.inits(root)[0])
    assert first is not None
    total = builders.scalar_constant(first, wide)
    for element in elements:
        if str(element.type) != wide:
            element = builders.scalar("arith.extf", [element], wide)
        total = builders.scalar(found.combine.name, [total, element], wide)
    return builders.scalar("arith.truncf", [total], kind) if widens else total


PASS = FusionPass(
    name="pooling_slices_rewrite",
    summary="Poolings with channels first become elementwise ops on slices of the image",
    roots=poolings.ROOTS,
    match=match,
    rewrite=rewrite,
    numerics=Numerics.REASSOCIATING,
    kind=Kind.REWRITE,
    targets=frozenset({"cpu"}),
    source="mlirfuse",
)
